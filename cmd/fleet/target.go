package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const targetText = `Shows what the manager would make of a Bundle: its Content, and for each cluster that it is meant for the BundleDeployment, with the Secret of
its Helm values, as they would be written. Nothing is written.

The clusters are those of the Bundle's workspace, or with --cluster-file those of a file, such as "fleet get clusters -o yaml" prints; it may
also hold ClusterGroups, BundleDeployments and Secrets. Then no cluster is needed at all.

All deployments are shown at once, however many are created together; other limits of the rollout hold, as far as what is there says something
about them. Why a cluster does not get the Bundle, or waits, is said on stderr. The output is what fleet deploy takes; it holds Secrets.`

// targetOptions are the flags of fleet target; they are the reference's, except
// --cluster-file and -o.
type targetOptions struct {
	bundleFile  string
	clusterFile string
	dump        bool
	output      printer.Output
}

func newTargetCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := targetOptions{}
	cmd := &cobra.Command{
		Use: "target -b FILE", Short: "Show the deployments of a Bundle, and why clusters get none", Long: targetText, Args: noArguments,
		Example: `  fleet apply -n fleet-default -o web.yaml examples web && fleet target -b web.yaml
  fleet get clusters -n fleet-default -o yaml > clusters.yaml
  fleet target -b web.yaml --cluster-file clusters.yaml > deployments.yaml
  fleet target -b web.yaml -o json |
    jq -r '.clusters[] | select(.deploy | not) | .name + ": " + .reason'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return runTarget(cmd.Context(), g, o, std)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.bundleFile, "bundle-file", "b", "", "`file` with the Bundle; - is stdin")
	fs.StringVar(&o.clusterFile, "cluster-file", "", "`file` with the Clusters, instead of a live cluster; - is stdin")
	fs.BoolVarP(&o.dump, "dump-input-list", "l", false, "print on stderr the Clusters and ClusterGroups that targeting depends on, as YAML")
	o.output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
	completeFiles(cmd, "bundle-file", "cluster-file")
	return cmd
}

func (o targetOptions) check() error {
	switch {
	case o.bundleFile == "":
		return errors.New("want -b FILE with the Bundle; fleet apply -o FILE makes one")
	case o.bundleFile == "-" && o.clusterFile == "-":
		return errors.New("only one of --bundle-file and --cluster-file can be stdin")
	}
	return o.output.Check(printer.FormatJSON, printer.FormatYAML)
}

// runTarget prints the deployments of a Bundle.
func runTarget(ctx context.Context, g *globals, o targetOptions, std printer.Stdio) error {
	file, err := readObjects(o.bundleFile, std)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(o.bundleFile, "./") {
		return fmt.Errorf("-b names a file with a Bundle: %w; for a bundle of the cluster: fleet get bundles %s -o yaml | fleet target -b -", err, quoted([]string{o.bundleFile})[0])
	}
	if err != nil {
		return ofFlag("bundle-file", err)
	}
	b, err := g.oneBundle(file, o.bundleFile)
	if err != nil {
		return err
	}
	src := source{bundle: b, file: file}
	if o.clusterFile == "" {
		src.live, err = g.live(ctx, std, b.Namespace)
	} else {
		err = src.add(o.clusterFile, std)
	}
	if err != nil {
		return err
	}
	in, result, err := src.preview(ctx)
	if err != nil {
		return blamed(b, err)
	}
	warnUnknown(std, in)
	if o.dump {
		if err := dump(std, in); err != nil {
			return err
		}
	}
	access, err := src.credential(ctx)
	if err != nil {
		return err
	}
	if access == nil && b.Spec.ContentsID != "" {
		std.Note("warning: Secret %s/%s, which says in which registry the content is, is not there, or not yours to read", b.Namespace, b.Spec.ContentsID)
	}
	objects, err := src.objects(ctx, result, access)
	if err != nil {
		return err
	}
	return o.print(std, b, result, objects)
}

// live is a session in one workspace.
func (g *globals) live(ctx context.Context, std printer.Stdio, namespace string) (*session, error) {
	g.namespace = namespace
	return g.connectWithin(ctx, std, false)
}

// blamed says whether the input is to blame for an error.
func blamed(b *fleet.Bundle, err error) error {
	if reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return fmt.Errorf("%w: bundle %q: %w", errInput, b.Name, err)
	}
	return err
}

// dump prints what targeting depends on, in a form that --cluster-file takes.
func dump(std printer.Stdio, in preview.Input) error {
	var docs []any
	reach := preview.ReachOf(in)
	for _, g := range in.Groups {
		if reached, _ := reach.Includes(g.Namespace); !reached {
			continue
		}
		g.APIVersion, g.Kind = fleet.GroupVersion.String(), "ClusterGroup"
		doc, err := plainObject(g)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	for _, m := range in.Mappings {
		m.APIVersion, m.Kind = fleet.GroupVersion.String(), "BundleNamespaceMapping"
		doc, err := plainObject(m)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	for _, ns := range in.Namespaces {
		if reached, _ := reach.Includes(ns.Name); !reached {
			continue
		}
		docs = append(docs, map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": ns.Name, "labels": ns.Labels}})
	}
	for _, c := range in.Clusters {
		if reached, _ := reach.Includes(c.Namespace); !reached {
			continue
		}
		c.APIVersion, c.Kind = fleet.GroupVersion.String(), "Cluster"
		doc, err := plainObject(c)
		if err != nil {
			return err
		}
		doc["status"] = map[string]any{"namespace": c.Status.Namespace, "display": map[string]any{"state": c.Status.Display.State}}
		docs = append(docs, doc)
	}
	return printObjects(std.Err, printer.FormatYAML, docs)
}

// objects are all that would be written, in that order. access is the Secret of
// the Bundle's registry, if it has one.
func (s *source) objects(ctx context.Context, r preview.Result, access *corev1.Secret) ([]any, error) {
	contents, err := s.contents(ctx, r.Content)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, c := range contents {
		out = append(out, c)
	}
	for _, c := range r.Clusters {
		if c.Object == nil {
			continue
		}
		if access != nil {
			secret, err := readersCopy(access, c.Object.Namespace)
			if err != nil {
				return nil, err
			}
			out = append(out, secret)
		}
		if c.Secret != nil {
			out = append(out, c.Secret)
		}
		out = append(out, c.Object)
	}
	return out, nil
}

// print writes the answer: objects, or with -o the whole document. It notes on stderr
// what is not deployed.
func (o targetOptions) print(std printer.Stdio, b *fleet.Bundle, r preview.Result, objects []any) error {
	doc := Targeting{Document: printer.NewDocument("Targeting"), Bundle: b.Namespace + "/" + b.Name, Content: r.Content, Objects: []map[string]any{}}
	for _, obj := range objects {
		plain, err := plainObject(obj)
		if err != nil {
			return err
		}
		doc.Objects = append(doc.Objects, plain)
	}
	broken := 0
	for _, c := range r.Clusters {
		doc.Clusters = append(doc.Clusters, targeted(c))
		if c.Broken != "" {
			broken++
		}
	}
	if err := o.answer(std, doc); err != nil {
		return err
	}
	o.explain(std, b, r)
	if broken > 0 {
		return fmt.Errorf("%w: bundle %q cannot be worked out for %s", errInput, b.Name, printer.Plural(broken, "cluster"))
	}
	return nil
}

func (o targetOptions) answer(std printer.Stdio, doc Targeting) error {
	if o.output.Machine() {
		return o.output.Print(std, doc, false)
	}
	docs := make([]any, len(doc.Objects))
	for i, obj := range doc.Objects {
		docs[i] = obj
	}
	return printObjects(std.Out, printer.FormatYAML, docs)
}

// warnUnknown says which targets of a Bundle name a cluster or cluster group that
// does not exist. Where mappings lead the Bundle to other workspaces, it says nothing.
func warnUnknown(std printer.Stdio, in preview.Input) {
	if len(in.Mappings) > 0 {
		return
	}
	known := knownOf(in.Bundle.Namespace, in.Clusters, in.Groups)
	for _, f := range lint.Unknown(&fleetyaml.File{Spec: in.Bundle.Spec}, known) {
		std.Note("warning: %s", f.Message)
		if f.Hint != "" {
			std.Note("    %s", f.Hint)
		}
	}
}

// explain says on stderr what does not stand among the objects.
func (o targetOptions) explain(std printer.Stdio, b *fleet.Bundle, r preview.Result) {
	for _, text := range r.Ignored {
		std.Note("warning: %s", text)
	}
	if len(r.Clusters) == 0 {
		std.Note("there is no cluster in %s", b.Namespace)
	}
	for _, c := range r.Clusters {
		name := c.Name
		if c.Namespace != b.Namespace {
			name = c.Namespace + "/" + c.Name
		}
		switch {
		case c.Broken != "":
			std.Note("error: %s: %s", name, c.Broken)
		case !c.Deploy:
			std.Note("not for %s: %s", name, c.Why)
		case !c.Step.Move:
			std.Note("not now on %s: %s", name, c.Step.Reason)
		}
	}
}

func targeted(c preview.Cluster) TargetedCluster {
	out := TargetedCluster{
		Name: c.Namespace + "/" + c.Name, Deploy: c.Deploy, Reason: c.Why, Target: c.Target, Customizations: c.Customizations,
		DeploymentID: c.ID, Error: c.Broken,
	}
	if c.Deploy && c.Broken == "" {
		out.Released, out.Rollout = c.Step.Move, c.Step.Reason
	}
	return out
}

// A source is where a preview takes its input from: a file, or a live cluster.
type source struct {
	bundle *fleet.Bundle
	file   objects
	live   *session // nil: there is none
}

// add reads the file of clusters beside that of the Bundle. Objects without a namespace
// are in that of the Bundle.
func (s *source) add(name string, std printer.Stdio) error {
	more, err := readObjects(name, std)
	if err != nil {
		return ofFlag("cluster-file", err)
	}
	s.file.clusters, s.file.groups = more.clusters, more.groups
	s.file.mappings, s.file.namespaces = more.mappings, more.namespaces
	s.file.deployments = append(s.file.deployments, more.deployments...)
	s.file.secrets = append(s.file.secrets, more.secrets...)
	s.file.contents = append(s.file.contents, more.contents...)
	for _, c := range s.file.clusters {
		c.Namespace = cmp.Or(c.Namespace, s.bundle.Namespace)
	}
	for _, g := range s.file.groups {
		g.Namespace = cmp.Or(g.Namespace, s.bundle.Namespace)
	}
	for _, m := range s.file.mappings {
		m.Namespace = cmp.Or(m.Namespace, s.bundle.Namespace)
	}
	if n := len(s.file.clusters); n == 0 {
		return fmt.Errorf("%w: no Cluster in %s", errInput, shownFile(name))
	}
	return nil
}

// preview works it out. A live cluster is asked for Secrets only where they
// are needed.
func (s *source) preview(ctx context.Context) (preview.Input, preview.Result, error) {
	in := preview.Input{
		Bundle: s.bundle, Clusters: s.file.clusters, Groups: s.file.groups, Deployments: s.file.deployments, Secrets: s.file.secrets,
		Mappings: s.file.mappings, Namespaces: s.file.namespaces,
	}
	if s.live == nil {
		r, err := preview.Of(in)
		return in, r, err
	}
	if err := s.look(ctx, &in); err != nil {
		return in, preview.Result{}, err
	}
	r, err := preview.Of(in)
	if err != nil {
		return in, r, err
	}
	missing := 0
	for _, c := range r.Clusters {
		if namespace, name, ok := strings.Cut(c.Needs, "/"); ok {
			missing++
			if err := s.addSecret(ctx, &in, namespace, name); err != nil {
				return in, r, err
			}
		}
	}
	if missing > 0 {
		r, err = preview.Of(in)
	}
	return in, r, err
}

// look reads what is there.
func (s *source) look(ctx context.Context, in *preview.Input) error {
	var err error
	if in.Clusters, err = listAs[fleet.Cluster](ctx, s.live, mustKind("clusters"), ""); err != nil {
		return err
	}
	if in.Groups, err = listAs[fleet.ClusterGroup](ctx, s.live, mustKind("groups"), ""); err != nil {
		return err
	}
	labels := fleet.LabelBundleName + "=" + s.bundle.Name + "," + fleet.LabelBundleNamespace + "=" + s.bundle.Namespace
	if in.Deployments, err = listAs[fleet.BundleDeployment](ctx, s.live, mustKind("deployments"), labels); err != nil {
		return err
	}
	if err := s.lookFurther(ctx, in); err != nil {
		return err
	}
	if s.bundle.Spec.ValuesHash == "" {
		return nil
	}
	return s.addSecret(ctx, in, s.bundle.Namespace, s.bundle.Name)
}

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

func (s *source) addSecret(ctx context.Context, in *preview.Input, namespace, name string) error {
	secret, err := getAs[corev1.Secret](ctx, s.live, secrets, namespace, name)
	if secret != nil {
		in.Secrets = append(in.Secrets, secret)
	}
	return err
}
