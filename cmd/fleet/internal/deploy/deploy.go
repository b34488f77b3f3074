package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Options are the flags of fleet deploy; they are rancher/fleet's, except
// --cluster and -o.
type Options struct {
	Input          string
	dryRun         bool
	namespace      string
	KubeVersion    string
	agentNamespace string
	cluster        string
	Output         printer.Output
}

// kubeVersionDry is what charts see in a dry run; rancher/fleet's default.
const kubeVersionDry = "v1.25.0"

// AddFlags adds the flags of the command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.Input, "input-file", "i", "", "`file` with Content, BundleDeployment and its Secret; - is stdin")
	fs.BoolVarP(&o.dryRun, "dry-run", "d", false, "print what would be installed, without a cluster")
	fs.StringVarP(&o.namespace, "namespace", "n", "default", "`namespace` of what names none")
	fs.StringVar(&o.KubeVersion, "kube-version", kubeVersionDry, "`version` of Kubernetes that charts see with --dry-run")
	fs.StringVarP(&o.agentNamespace, "agent-namespace", "a", fleet.NamespaceSystem, "`namespace` of the agent that may take the release over; service accounts are looked up there")
	cli.NameVar(fs, &o.cluster, "clusters", "cluster", "", "`name` of the cluster whose deployment is meant, where the file holds several")
	o.Output.AddFlag(fs, printer.FormatJSON, printer.FormatYAML)
}

// Run deploys what a file holds.
func Run(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) error {
	all, err := sources.ReadObjects(o.Input, std)
	if err != nil {
		return cli.OfFlag("input-file", err)
	}
	bd, err := o.chooseDeployment(all)
	if err != nil {
		return err
	}
	d, err := o.deployment(ctx, bd, all)
	if err != nil {
		err = fmt.Errorf("%s: deployment %q: %w", cli.ShownFile(o.Input), bd.Name, err)
		if errors.Is(err, sources.ErrPull) {
			return err
		}
		return fmt.Errorf("%w: %w", cli.ErrInput, err)
	}
	o.warnDifferences(bd, std)
	doc := Deployed{
		Document: printer.NewDocument("Deployed"), Deployment: bd.Namespace + "/" + bd.Name, DeploymentID: bd.Spec.DeploymentID,
		Release: d.ID.String(), DryRun: o.dryRun,
	}
	if o.dryRun {
		return o.printDryRun(d, doc, std)
	}
	if bd.Spec.Paused {
		return fmt.Errorf("%w: deployment %q is paused", cli.ErrRefused, bd.Name)
	}
	a, err := g.Dial(std)
	if err != nil {
		return err
	}
	if err := checkNamespaceAllowed(ctx, a, d); err != nil {
		return client.DescribeServerError(a.Server, err)
	}
	std.Note("%s, release %s", a.Server, d.ID)
	return o.deploy(ctx, installer{api: a, agent: o.agentNamespace}, d, doc, std)
}

// chooseDeployment finds the deployment that is meant.
func (o Options) chooseDeployment(all sources.Objects) (*fleet.BundleDeployment, error) {
	var found []*fleet.BundleDeployment
	var clusters []string
	for _, bd := range all.Deployments {
		name := bd.Labels[fleet.LabelCluster]
		clusters = append(clusters, name)
		if o.cluster == "" || o.cluster == name {
			found = append(found, bd)
		}
	}
	switch {
	case len(all.Deployments) == 0:
		return nil, fmt.Errorf("%w: no BundleDeployment in %s; fleet target prints them", cli.ErrInput, cli.ShownFile(o.Input))
	case len(found) == 0:
		return nil, fmt.Errorf("no deployment for cluster %q in %s; there are %s", o.cluster, cli.ShownFile(o.Input), strings.Join(clusters, ", "))
	case len(found) > 1:
		return nil, fmt.Errorf("%s holds %d deployments: choose one with --cluster: %s", cli.ShownFile(o.Input), len(found), strings.Join(clusters, ", "))
	}
	return found[0], nil
}

// deployment is what Helm is given, verified: content by its id, values by
// their hash. Content that is not in the file is pulled from its registry.
func (o Options) deployment(ctx context.Context, bd *fleet.BundleDeployment, all sources.Objects) (helm.Deployment, error) {
	d := helm.Deployment{Options: bd.Spec.Options, Memory: release.Record{
		Owner:        release.Owner{AgentNamespace: o.agentNamespace, BundleID: bd.Name},
		DeploymentID: bd.Spec.DeploymentID, Commit: bd.Labels[fleet.LabelCommit],
	}}
	_, d.AdminNamespace = bd.Labels[fleet.LabelAdminNamespace]
	switch {
	case bd.Spec.DeploymentID == "":
		return d, errors.New("it has no deploymentID: it is only staged, and nothing is released to the cluster yet")
	case bd.Spec.HelmChartOptions != nil:
		return d, errors.New("its chart belongs to a HelmOp, which an agent downloads itself; that is not possible here")
	}
	id, _, _ := strings.Cut(bd.Spec.DeploymentID, ":")
	var err error
	if bd.Spec.OCIContents {
		d.Content, err = sources.Pull(ctx, all, bd, id)
	} else {
		d.Content, err = sources.ManifestOf(all, id)
	}
	if err != nil {
		return d, err
	}
	if d.Options.DefaultNamespace == "" {
		d.Options.DefaultNamespace = o.namespace
	}
	d.ID = helm.IDOf(bd.Name, d.Options)
	if bd.Spec.ValuesHash == "" {
		return d, nil
	}
	for _, s := range all.Secrets {
		if s.Type != fleet.SecretTypeBundleDeployment || s.Name != bd.Name || s.Namespace != bd.Namespace {
			continue
		}
		if options.DeploymentValuesHash(s.Data[fleet.KeyValues], s.Data[fleet.KeyStagedValues]) != bd.Spec.ValuesHash {
			return d, fmt.Errorf("the values in Secret %q are not those that it was made with (valuesHash)", s.Name)
		}
		d.Options, err = options.WithValues(d.Options, s.Data[fleet.KeyValues])
		return d, err
	}
	return d, fmt.Errorf("its values are missing: Secret %s/%s", bd.Namespace, bd.Name)
}

// warnDifferences says what an agent would do and this command does not.
func (o Options) warnDifferences(bd *fleet.BundleDeployment, std printer.Stdio) {
	if len(bd.Spec.DependsOn) > 0 {
		std.Note("warning: dependsOn is not waited for")
	}
	if len(bd.Spec.Options.DownstreamResources) > 0 {
		std.Note("warning: downstreamResources are not copied")
	}
	if o.dryRun && bd.Spec.Options.AllowedTargetNamespaceSelector != nil {
		std.Note("warning: the labels of the namespace are not known here, so allowedTargetNamespaceSelector is not checked")
	}
}

// printDryRun prints what would be installed.
func (o Options) printDryRun(d helm.Deployment, doc Deployed, std printer.Stdio) error {
	r, err := helm.Render(d, helm.RenderOptions{KubeVersion: o.KubeVersion, Marks: true})
	if err != nil {
		return undeployed(d, err)
	}
	for _, place := range r.Unknown {
		std.Note("warning: the values of %s are not known here", place)
	}
	doc.Reason = "dry run"
	return o.printDeployed(std, doc, r.AllObjects())
}

// printDeployed writes the objects, or with -o the whole document.
func (o Options) printDeployed(std printer.Stdio, doc Deployed, manifest string) error {
	if !o.Output.IsMachineReadable() {
		_, err := fmt.Fprint(printer.DocumentWriter(std.Out), manifest)
		return err
	}
	var err error
	if doc.Objects, err = sources.DocumentsOf(manifest); err != nil {
		return err
	}
	return o.Output.Print(std, doc, false)
}

// undeployed says whether the input is to blame for an error of Helm's.
func undeployed(d helm.Deployment, err error) error {
	err = fmt.Errorf("release %s: %w", d.ID, err)
	switch reconcile.ReasonOf(err) {
	case release.ReasonBadContent, release.ReasonBadChart, release.ReasonBadTemplate, release.ReasonBadValues, release.ReasonBadYAML,
		release.ReasonBadKustomization, release.ReasonClusterScoped, release.ReasonInvalidObject, release.ReasonNotImplemented,
		release.ReasonIncompatible, release.ReasonEmptyResult:
		return fmt.Errorf("%w: %w", cli.ErrInput, err)
	case release.ReasonNotOwned, release.ReasonForeignRelease, release.ReasonReleaseTaken:
		return fmt.Errorf("%w: %w", cli.ErrRefused, err)
	}
	return err
}
