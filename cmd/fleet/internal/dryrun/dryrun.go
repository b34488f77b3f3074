package dryrun

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	planvalues "github.com/fleetworkspace/fleet/pkg/plan/values"
)

// Options are the flags of fleet test; they are rancher/fleet's, except
// --kube-version, --offline and -o.
type Options struct {
	Dir         string
	file        string // options
	bundleFile  string // a Bundle
	quiet       bool
	group       string
	cluster     string
	labels      map[string]string
	groupLabels map[string]string
	target      string
	kubeVersion string
	offline     bool
	output      printer.Output
	helm        sources.HelmAccess
}

// AddFlags adds the flags of the command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.file, "file", "f", "", "`file` below PATH with the options, instead of fleet.yaml")
	fs.StringVarP(&o.bundleFile, "bundle-file", "b", "", "`file` with a Bundle, instead of PATH; - is stdin")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print which target matches, and nothing else")
	fs.StringVarP(&o.group, "group", "g", "", "cluster `group` that the cluster is in; default: default, if nothing else is said about the cluster")
	fs.StringVarP(&o.cluster, "name", "N", "", "`name` of the cluster")
	cli.LabelsVar(fs, &o.labels, "label", "l", "labels of the cluster, `k=v,...`")
	cli.LabelsVar(fs, &o.groupLabels, "group-label", "L", "labels of the cluster group, `k=v,...`")
	fs.StringVarP(&o.target, "target", "t", "", "`name` of the target to take, whatever the cluster")
	fs.StringVar(&o.kubeVersion, "kube-version", "", "`version` of Kubernetes that charts see; default: that of Helm's library")
	fs.BoolVar(&o.offline, "offline", false, "download nothing: a chart that is not here is an error")
	o.output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
	o.helm.AddFlags(fs)
}

// Complete takes from the environment what no flag says, and refuses what is not possible.
func (o *Options) Complete(env func(string) string) error {
	if err := o.output.Check(printer.FormatJSON, printer.FormatYAML); err != nil {
		return err
	}
	if err := cli.CheckKubeVersion(o.kubeVersion); err != nil {
		return err
	}
	if o.group == "" && len(o.labels) == 0 && len(o.groupLabels) == 0 && o.target == "" {
		o.group = fleet.ClusterGroupDefault
	}
	return o.helm.Complete(env)
}

// noMatch is the error where no target matches. A cluster that is described without -g is
// in no group, and a bundle without targets of its own is for group default.
func (o *Options) noMatch(b *fleet.Bundle, reason string) error {
	if wants := func(t fleet.BundleTarget) bool { return t.ClusterGroup == fleet.ClusterGroupDefault }; o.group == "" && slices.ContainsFunc(b.Spec.Targets, wants) {
		return fmt.Errorf("no match: %s; with -l and without -g the cluster is in no group: add -g %s", reason, fleet.ClusterGroupDefault)
	}
	return fmt.Errorf("no match: %s; say more about the cluster with -N, -l and -g, or choose one of %s with -t", reason, targetNames(b))
}

// Run prints the objects of a bundle on the cluster that the flags describe.
func Run(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) error {
	in, err := o.loadBundle(ctx, g, std)
	if err != nil {
		return err
	}
	b := in.Bundle
	m := content.Manifest{Resources: b.Spec.Resources}
	compiled, err := deployment.Compile(b, content.ID(m), in.secret)
	if err != nil {
		return fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, b.Name, err)
	}
	place := o.flagCluster(b.Namespace)
	verdict, err := in.matchCluster(compiled, place)
	if err != nil {
		return fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, b.Name, err)
	}
	if o.target != "" {
		i := targetNamed(b, o.target)
		if i < 0 {
			return fmt.Errorf("no target %q in bundle %q; there are %s", o.target, b.Name, targetNames(b))
		}
		verdict.Deploy, verdict.Target, verdict.Customizations, verdict.Reason = true, i, nil, "chosen with --target"
	}
	if !verdict.Deploy {
		return o.noMatch(b, verdict.Reason)
	}
	doc := Rendering{
		Document: printer.NewDocument("Rendering"), Bundle: b.Name, Cluster: place.Name,
		Reason: verdict.Reason, Objects: []map[string]any{},
	}
	doc.Target, doc.Customizations = in.decidingNames(verdict)
	if o.quiet && !o.output.IsMachineReadable() {
		printer.Fprintf(std.Out, "# Matched: %s\n", doc.matched())
		return nil
	}
	version, err := compiled.Render(verdict, place)
	if err != nil {
		return fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, b.Name, err)
	}
	doc.DeploymentID = version.ID
	d := helm.Deployment{Content: m, Memory: release.Record{Owner: release.Owner{BundleID: b.Name}, Commit: b.Labels[fleet.LabelCommit]}}
	_, d.AdminNamespace = b.Labels[fleet.LabelAdminNamespace]
	if d.Options, err = sources.WithValues(version); err != nil {
		return err
	}
	d.ID = helm.IDOf(b.Name, d.Options)
	if planvalues.Templated(d.Options.Helm) && !planvalues.Renders(place.Labels) {
		doc.NotRendered = in.templates() + " are not rendered: the cluster has no labels; say some: " + groupFlag(o.group) + "-l KEY=VALUE"
	}
	return o.render(d, &in, doc, std)
}

// render prints what a deployment would install.
func (o *Options) render(d helm.Deployment, in *testInput, doc Rendering, std printer.Stdio) error {
	r, err := helm.Render(d, helm.RenderOptions{KubeVersion: o.kubeVersion})
	if err != nil {
		if reconcile.IsTerminal(err) {
			err = fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, doc.Bundle, err)
		}
		return err
	}
	empty := strings.TrimSpace(r.AllObjects()) == ""
	if empty && in.root != "" && !in.file.Decoded() {
		return o.noBundle(in)
	}
	doc.Release, doc.Unknown = d.ID.String(), r.Unknown
	if o.output.IsMachineReadable() {
		if doc.Objects, err = sources.DocumentsOf(r.AllObjects()); err != nil {
			return err
		}
		err = o.output.Print(std, doc, false)
	} else {
		std.Note("# Matched: %s", doc.matched())
		if doc.Target == noCustomization {
			std.Note("%s", doc.Reason)
		}
		for _, place := range r.Unknown {
			std.Note("warning: the values of %s are not known here", place)
		}
		if empty && in.empty == "" {
			std.Note("warning: %s", sources.NothingRendered)
		}
		_, err = fmt.Fprint(printer.DocumentWriter(std.Out), r.AllObjects())
	}
	if err != nil || doc.NotRendered == "" {
		return err
	}
	std.Note("warning: %s", doc.NotRendered)
	return cli.EndingWith(cli.ErrPartly)
}

// groupFlag is the flag that keeps the cluster in its group beside other flags.
func groupFlag(group string) string {
	if group == "" {
		return ""
	}
	return "-g " + group + " "
}

// A testInput is what is rendered.
type testInput struct {
	*fleet.Bundle
	secret map[string][]byte // of its values, where they stand beside it
	file   fleetyaml.File    // empty for a Bundle from a file
	root   string            // below which its directory is; empty for a Bundle from a file
	dir    string            // relative to root
	empty  string            // the reason if nothing is left to deploy
}

// templates names the templates of values, with the place of the first of them in
// fleet.yaml.
func (in *testInput) templates() string {
	line, _ := lint.FirstTemplate(&in.file)
	if line == 0 {
		return "templates of values, ${ },"
	}
	return fmt.Sprintf("templates of values, ${ } (%s:%d),", in.file.Path, line)
}

// loadBundle reads the bundle.
func (o *Options) loadBundle(ctx context.Context, g *client.Globals, std printer.Stdio) (testInput, error) {
	if o.bundleFile == "" {
		return o.assembleBundle(ctx, g, std)
	}
	all, err := sources.ReadObjects(o.bundleFile, std)
	if err != nil {
		return testInput{}, cli.OfFlag("bundle-file", err)
	}
	b, err := sources.OneBundle(g, all, o.bundleFile)
	if err != nil {
		return testInput{}, err
	}
	for _, s := range all.Secrets {
		if s.Type == fleet.SecretTypeBundleValues && s.Name == b.Name {
			return testInput{Bundle: b, secret: s.Data}, nil
		}
	}
	return testInput{Bundle: b}, nil
}

// nameless is what a directory without a name of its own is called.
const nameless = "test"

// assembleBundle makes the bundle of the directory. Paths of it are relative to the
// working directory, if it is below.
func (o *Options) assembleBundle(ctx context.Context, g *client.Globals, std printer.Stdio) (testInput, error) {
	access, err := o.helm.Access()
	if err != nil {
		return testInput{}, err
	}
	root, dir := ".", filepath.ToSlash(filepath.Clean(o.Dir))
	if !filepath.IsLocal(o.Dir) {
		root, dir = o.Dir, "."
	}
	namespace := g.Namespace
	if namespace == "" {
		namespace = g.DefaultNamespace
	}
	set, err := sources.ReadTree(ctx, root, bundlesource.Input{
		Entries: []fleet.BundlePath{{Base: dir, Options: o.file}},
		Options: bundle.Options{Repo: nameless, Namespace: namespace, ImageScans: true},
		Access:  access,
	}, bundlesource.Config{Offline: o.offline})
	if err != nil {
		return testInput{}, err
	}
	if err := sources.ReportFindings(std, set, false, true); err != nil {
		return testInput{}, err
	}
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		if r.Bundle.Name == naming.BundleName(nameless, dir, o.file) {
			r.Bundle.Name = nameless
		}
		in := testInput{Bundle: r.Bundle, file: lint.Options(os.DirFS(root), r.Dir), root: root, dir: dir}
		if i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Rule == finding.RuleEmpty }); i >= 0 {
			in.empty = r.Findings[i].Message
		}
		return in, nil
	}
	return testInput{}, fmt.Errorf("%w: nothing to deploy in %s", cli.ErrInput, o.Dir)
}

// flagCluster is the cluster that the flags describe.
func (o *Options) flagCluster(namespace string) *deployment.Place {
	p := &deployment.Place{Namespace: naming.ClusterNamespace(namespace, o.cluster)}
	p.Cluster.Namespace, p.Name, p.Labels = namespace, o.cluster, o.labels
	if o.group != "" || len(o.groupLabels) > 0 {
		p.Groups = append(p.Groups, groupOf(o.group, o.groupLabels))
	}
	if p.Name == "" {
		p.Name = "cluster"
	}
	p.Seal()
	return p
}

func targetNames(b *fleet.Bundle) string {
	var names []string
	for i := range b.Spec.Targets {
		names = append(names, preview.TargetName(b, i))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// targetNamed returns the index of the target that targetNames calls so; below 0: there is
// none.
func targetNamed(b *fleet.Bundle, name string) int {
	for i := range b.Spec.Targets {
		if preview.TargetName(b, i) == name {
			return i
		}
	}
	return -1
}
