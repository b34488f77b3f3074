package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/reader"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

const testText = `Renders one directory for one cluster, without any cluster: what the agent there would install. The cluster is described by flags; without
any it is a member of cluster group default. What it says of targets, of values and of templates is what manager and agent would do.

Nothing is looked up in a cluster, no host name is resolved, and values of helm.valuesFrom are missing. Charts are downloaded, unless --offline.

fleet target shows more than one cluster, and deployments as they are written.`

// testOptions are the flags of fleet test; they are the reference's, but for
// --kube-version, --offline and -o.
type testOptions struct {
	dir         string
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
	output      output
	helm        helmAccess
}

func newTestCommand(g *globals, std stdio) *cobra.Command {
	o := testOptions{}
	cmd := &cobra.Command{
		Use: "test [PATH]", Short: "Render a directory for one cluster, without a cluster", Long: testText, Args: cobra.MaximumNArgs(1),
		Example: `  fleet test web
  fleet test -l env=prod -N c1 web
  fleet test -t prod -o json web | jq .objects
  fleet test -q -g canary web`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = "."
			if len(args) == 1 {
				o.dir = args[0]
			}
			if err := o.complete(os.Getenv); err != nil {
				return err
			}
			return runTest(cmd.Context(), g, o, std)
		},
	}
	o.addFlags(cmd.Flags())
	completeFiles(cmd, "file", "bundle-file", "password-file", "cacerts-file", "ssh-privatekey-file", "helm-credentials-by-path-file")
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return cmd
}

func (o *testOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.file, "file", "f", "", "`file` below PATH with the options, instead of fleet.yaml")
	fs.StringVarP(&o.bundleFile, "bundle-file", "b", "", "`file` with a Bundle, instead of PATH; - is stdin")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "print which target matches, and nothing else")
	fs.StringVarP(&o.group, "group", "g", "", "cluster `group` that the cluster is in; default: default, if nothing else is said about the cluster")
	fs.StringVarP(&o.cluster, "name", "N", "", "`name` of the cluster")
	fs.StringToStringVarP(&o.labels, "label", "l", nil, "labels of the cluster, `k=v,...`")
	fs.StringToStringVarP(&o.groupLabels, "group-label", "L", nil, "labels of the cluster group, `k=v,...`")
	fs.StringVarP(&o.target, "target", "t", "", "`name` of the target to take, whatever the cluster")
	fs.StringVar(&o.kubeVersion, "kube-version", "", "`version` of Kubernetes that charts see; default: that of Helm's library")
	fs.BoolVar(&o.offline, "offline", false, "download nothing: a chart that is not here is an error")
	o.output.addFlag(fs, formatJSON, formatYAML)
	o.helm.addFlags(fs)
}

func (o *testOptions) complete(env func(string) string) error {
	if err := o.output.check(formatJSON, formatYAML); err != nil {
		return err
	}
	if o.group == "" && len(o.labels) == 0 && len(o.groupLabels) == 0 && o.target == "" {
		o.group = fleet.ClusterGroupDefault
	}
	return o.helm.complete(env)
}

// runTest prints what a bundle is on the cluster that the flags describe.
func runTest(ctx context.Context, g *globals, o testOptions, std stdio) error {
	b, values, err := o.load(ctx, g, std)
	if err != nil {
		return err
	}
	m := content.Manifest{Resources: b.Spec.Resources}
	kit, err := deployment.NewKit(b, content.ID(m), values)
	if err != nil {
		return fmt.Errorf("%w: bundle %q: %w", errInput, b.Name, err)
	}
	place := o.place(b.Namespace)
	verdict := kit.Match(&place.Cluster)
	if o.target != "" {
		i := slices.IndexFunc(b.Spec.Targets, func(t fleet.BundleTarget) bool { return t.Name == o.target })
		if i < 0 {
			return fmt.Errorf("no target %q in bundle %q; there are %s", o.target, b.Name, targetNames(b))
		}
		verdict.Deploy, verdict.Target, verdict.Customizations, verdict.Reason = true, i, nil, "chosen with --target"
	}
	if !verdict.Deploy {
		return fmt.Errorf("no match: %s; say more about the cluster with -N, -l and -g, or choose one of %s with -t", verdict.Reason, targetNames(b))
	}
	doc := Rendering{
		Document: document("Rendering"), Bundle: b.Name, Cluster: place.Name,
		Target: preview.TargetName(b, verdict.Target), Reason: verdict.Reason, Objects: []map[string]any{},
	}
	for _, i := range verdict.Customizations {
		doc.Customizations = append(doc.Customizations, preview.TargetName(b, i))
	}
	if o.quiet && !o.output.machine() {
		_, err := fmt.Fprintf(std.out, "# Matched: %s\n", doc.matched())
		return err
	}
	version, err := kit.Work(verdict, place)
	if err != nil {
		return fmt.Errorf("%w: bundle %q: %w", errInput, b.Name, err)
	}
	doc.DeploymentID = version.ID
	d := helm.Deployment{Content: m, Memory: release.Memory{Owner: release.Owner{BundleID: b.Name}, Commit: b.Labels[fleet.LabelCommit]}}
	if d.Options, err = withValues(version); err != nil {
		return err
	}
	d.ID = helm.IDOf(b.Name, d.Options)
	return o.render(d, doc, std)
}

// render prints what a deployment would install.
func (o *testOptions) render(d helm.Deployment, doc Rendering, std stdio) error {
	r, err := helm.Render(d, helm.RenderOptions{KubeVersion: o.kubeVersion})
	if err != nil {
		if fault.IsPermanent(err) {
			err = fmt.Errorf("%w: bundle %q: %w", errInput, doc.Bundle, err)
		}
		return err
	}
	doc.Release, doc.Unknown = d.ID.String(), r.Unknown
	if o.output.machine() {
		if doc.Objects, err = documentsOf(r.All()); err != nil {
			return err
		}
		return o.output.print(std.out, doc, false)
	}
	std.note("# Matched: %s", doc.matched())
	for _, place := range r.Unknown {
		std.note("warning: the values of %s are not known here", place)
	}
	_, err = fmt.Fprint(std.out, r.All())
	return err
}

// load reads the bundle, and the data of its values Secret where it stands
// beside it.
func (o *testOptions) load(ctx context.Context, g *globals, std stdio) (*fleet.Bundle, map[string][]byte, error) {
	if o.bundleFile == "" {
		b, err := o.assemble(ctx, g, std)
		return b, nil, err
	}
	all, err := readObjects(o.bundleFile, std)
	if err != nil {
		return nil, nil, err
	}
	b, err := g.oneBundle(all, o.bundleFile)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range all.secrets {
		if s.Type == fleet.SecretTypeBundleValues && s.Name == b.Name {
			return b, s.Data, nil
		}
	}
	return b, nil, nil
}

// nameless is what a directory without a name of its own is called.
const nameless = "test"

// assemble makes the bundle of the directory. Paths of it are relative to the
// working directory, if it is below.
func (o *testOptions) assemble(ctx context.Context, g *globals, std stdio) (*fleet.Bundle, error) {
	access, err := o.helm.access()
	if err != nil {
		return nil, err
	}
	root, dir := ".", filepath.ToSlash(filepath.Clean(o.dir))
	if !filepath.IsLocal(o.dir) {
		root, dir = o.dir, "."
	}
	namespace := g.namespace
	if namespace == "" {
		namespace = g.defaultNamespace
	}
	set, err := readTree(ctx, root, reader.Input{
		Entries: []fleet.BundlePath{{Base: dir, Options: o.file}},
		Options: bundle.Options{Repo: nameless, Namespace: namespace, ImageScans: true},
		Access:  access,
	}, reader.Config{Offline: o.offline})
	if err != nil {
		return nil, err
	}
	if err := tellFindings(std, set, false, true); err != nil {
		return nil, err
	}
	for _, r := range set.Results {
		if r.Bundle == nil {
			continue
		}
		if r.Bundle.Name == naming.BundleName(nameless, dir, o.file) {
			r.Bundle.Name = nameless
		}
		return r.Bundle, nil
	}
	return nil, fmt.Errorf("%w: nothing to deploy in %s", errInput, o.dir)
}

// place is the cluster that the flags describe.
func (o *testOptions) place(namespace string) *deployment.Place {
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
