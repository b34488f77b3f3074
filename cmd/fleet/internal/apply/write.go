package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// RunFile prints or writes the one Bundle of a file.
func RunFile(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) error {
	all, err := sources.ReadObjects(o.File, std)
	if err != nil {
		return cli.OfFlag("file", err)
	}
	b, err := sources.OneBundle(g, all, o.File)
	if err != nil {
		return err
	}
	if o.Name != "" {
		b.Name = o.Name
	}
	if err := makeWritable(b, all); err != nil {
		return fmt.Errorf("%w: %s: bundle %q: %w", cli.ErrInput, cli.ShownFile(o.File), b.Name, err)
	}
	set := bundle.Set{Results: []bundle.Result{{Dir: bundle.Dir{Path: cli.ShownFile(o.File)}, Name: b.Name, Bundle: b}}}
	if o.output != "" {
		return o.printBundles(std.Out, set)
	}
	o.Bundle.Namespace, o.Name = b.Namespace, b.Labels[fleet.LabelRepoName]
	return o.writeBundles(ctx, g, set, std)
}

// makeWritable makes a Bundle that was copied from a server one that can be
// written: without what servers add, and with its values.
func makeWritable(b *fleet.Bundle, all sources.Objects) error {
	hash := b.Spec.ValuesHash
	name := b.Name
	b.ObjectMeta = metav1.ObjectMeta{Name: b.Name, Namespace: b.Namespace, Labels: b.Labels, Annotations: b.Annotations}
	b.Status = fleet.BundleStatus{}
	b.Spec.ValuesHash = ""
	switch {
	case b.Spec.HelmOpOptions != nil:
		return errors.New("it belongs to a HelmOp, which makes it itself")
	case len(b.Spec.Resources) == 0:
		return errors.New("it has no resources: what it deploys is kept elsewhere, or there is nothing; apply the directory that it was made of")
	case b.Spec.ContentsID != "":
		return errors.New("it has resources, and a contentsId for others that are in a registry: take one of the two out")
	}
	if hash == "" {
		return nil
	}
	for _, s := range all.Secrets {
		if s.Type == fleet.SecretTypeBundleValues && options.BundleValuesHash(s.Data) == hash {
			return options.ApplyBundleValues(&b.Spec, s.Data)
		}
	}
	return fmt.Errorf("its Helm values are not in the file: add Secret %q of its workspace", name)
}

// writeBundles brings the workspace in line with a set of bundles.
func (o *Options) writeBundles(ctx context.Context, g *client.Globals, set bundle.Set, std printer.Stdio) error {
	s, err := g.Connect(ctx, std, true)
	if err != nil {
		return err
	}
	if err := s.Served(ctx); err != nil {
		return err
	}
	if err := s.MissingWorkspace(ctx, o.Bundle.Namespace); err != nil {
		return err
	}
	brake, err := s.GlobalPause(ctx)
	if err != nil {
		return err
	}
	if brake.On {
		return fmt.Errorf("%w: rollouts are %s; fleet resume --all ends that", cli.ErrRefused, brake.Text(s.Now()))
	}
	if err := o.Unowned(ctx, s); err != nil {
		return err
	}
	client, err := kube.Connect(kube.Config{REST: s.Rest, UserAgent: "fleet/" + version.Version, FieldManager: client.FieldManager})
	if err != nil {
		return err
	}
	std.Note("%s, workspace %s", s.Server, o.Bundle.Namespace)
	p := publish.New(publish.Config{
		Client: client, OCI: o.registries(), Writers: o.writers, Log: progressLog(std),
		ManagerID: func(ctx context.Context) (string, error) { return installation(ctx, s) },
	})
	order := publish.Order{
		Namespace: o.Bundle.Namespace, Owner: o.Name, Adopt: true, Keep: o.File != "", OCISecret: o.ociSecret,
		Guard: o.removalGuard(s),
	}
	var done publish.Done
	for try := 1; ; try++ {
		if done, err = p.Publish(ctx, order, set); !kube.IsConflict(err) || try >= o.retries {
			break
		}
	}
	if err == nil {
		o.Untargeted(ctx, s, set)
	}
	return o.reportWritten(done, s, err)
}

// Untargeted notes which bundles match no cluster of the workspace. It notes nothing where
// the user may not read what that depends on, or a mapping may lead to other workspaces.
func (o *Options) Untargeted(ctx context.Context, s *client.Session, set bundle.Set) {
	resource, _, _ := fleet.Resource("BundleNamespaceMapping")
	mappings, err := s.ListAll(ctx, client.Query{Resource: fleet.GroupVersion.WithResource(resource), Namespace: o.Bundle.Namespace})
	if err != nil || len(mappings) > 0 {
		return
	}
	clusters, err := homeOf[fleet.Cluster](ctx, s, "clusters", o.Bundle.Namespace)
	if err != nil {
		return
	}
	groups, err := homeOf[fleet.ClusterGroup](ctx, s, "groups", o.Bundle.Namespace)
	if err != nil {
		return
	}
	for _, r := range set.Results {
		if r.Bundle != nil && !preview.Targets(preview.Input{Bundle: inWorkspace(r.Bundle, o.Bundle.Namespace), Clusters: clusters, Groups: groups}) {
			s.Std.Note("note: bundle %s matches no cluster of %s, which has %s", r.Bundle.Name, o.Bundle.Namespace, printer.Plural(len(clusters), "cluster"))
		}
	}
}

// inWorkspace is a Bundle as it is in a workspace.
func inWorkspace(b *fleet.Bundle, namespace string) *fleet.Bundle {
	out := *b
	out.Namespace = namespace
	return &out
}

// homeOf lists all objects of a kind in a workspace.
func homeOf[T any](ctx context.Context, s *client.Session, kind, namespace string) ([]*T, error) {
	items, err := s.ListAll(ctx, client.Query{Resource: cli.MustKind(kind).Resource(), Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return client.AllAs[T](items)
}

// installation is the id of the manager that the workspace belongs to, which
// marks what is kept beside large bundles.
func installation(ctx context.Context, s *client.Session) (string, error) {
	m, err := client.GetAs[corev1.ConfigMap](ctx, s, client.ConfigMaps, s.System, fleet.ConfigMapInstallation)
	switch {
	case err != nil:
		return "", err
	case m == nil || m.Labels[fleet.LabelManagerID] == "":
		return "", fmt.Errorf("a bundle above 1 MiB needs to know its manager, and ConfigMap %s/%s does not say, or is not yours to read",
			s.System, fleet.ConfigMapInstallation)
	}
	return m.Labels[fleet.LabelManagerID], nil
}

// registries is what talks to registries that keep bundles; nil where that is
// switched off, as in rancher/fleet.
func (o *Options) registries() *oci.Client {
	if o.noRegistry {
		return nil
	}
	return sources.RegistryClient()
}

// reportWritten says what became of it.
func (o *Options) reportWritten(done publish.Done, s *client.Session, err error) error {
	for _, f := range done.Findings {
		sources.ReportFinding(s.Std, f)
	}
	if err != nil {
		if reconcile.ReasonOf(err) == fleet.ReasonSuspended {
			return fmt.Errorf("%w: %w", cli.ErrRefused, err)
		}
		return client.DescribeServerError(s.Server, err)
	}
	printer.Fprintf(s.Std.Out, "%s written, %d removed, %d unchanged\n", printer.Plural(done.Written, "bundle"), done.Removed, done.Unchanged)
	if done.Held != "" && len(done.Findings) == 0 {
		s.Std.Note("nothing was removed: %s", done.Held)
	}
	if len(done.Findings) == 0 {
		return nil
	}
	kind := cli.ErrInput
	if slices.ContainsFunc(done.Findings, func(f finding.Finding) bool { return f.Rule == finding.RuleConflict }) {
		kind = cli.ErrRefused
	}
	return fmt.Errorf("%w: %s could not be written", kind, printer.Plural(len(done.Findings), "bundle"))
}

// progressLog is a log that people read, one line on stderr for each bundle.
func progressLog(std printer.Stdio) *logrus.Entry {
	log := logrus.New()
	log.SetOutput(std.Err)
	log.SetFormatter(progressLine{})
	return logrus.NewEntry(log)
}

type progressLine struct{}

// Format returns "bundle written: NAME (REASON)".
func (progressLine) Format(e *logrus.Entry) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s: %v", e.Message, e.Data["bundle"])
	if reason, ok := e.Data["reason"]; ok && reason != "" {
		fmt.Fprintf(&out, " (%v)", reason)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
