package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/takeover"
)

const takeoverCheckText = `Compares what is deployed with what this version would deploy, for every Bundle, and writes nothing.

identical: every deployment keeps its id, so no agent touches what it runs. differs: something would be deployed, released, held back or withdrawn,
or could not be deployed because a cluster has no namespace that this version accepts.
not supported: it uses what this version does not act on, as every HelmOp is. not known: it cannot be worked out with what you may read.

Bundles are compared as they are in the cluster; how their files are read from a repository is not looked at. -o wide says what differs on which
cluster.

Exit codes: 0 all are identical; 2 not all are.`

var takeoverCheckFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

type takeoverCheckOptions struct {
	output printer.Output
}

func newTakeoverCheckCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o takeoverCheckOptions
	cmd := &cobra.Command{
		Use: "check", Short: "Show what a takeover would change", Long: takeoverCheckText, Args: noArguments,
		Example: "  fleet takeover check\n  fleet takeover check -n fleet-default -o wide\n" +
			"  fleet takeover check -o json | jq -r '.bundles[] | select(.verdict != \"identical\") | .name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Check(takeoverCheckFormats...); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runTakeoverCheck(cmd.Context(), o, s)
		},
	}
	o.output.AddFlag(cmd.Flags(), takeoverCheckFormats...)
	return cmd
}

// runTakeoverCheck judges every Bundle.
func runTakeoverCheck(ctx context.Context, o takeoverCheckOptions, s *session) error {
	sight, err := s.takeoverSight(ctx)
	if err != nil {
		return err
	}
	doc := TakeoverReport{Document: printer.NewDocument("TakeoverReport"), Bundles: []TakeoverBundle{}}
	alike := true
	for _, b := range sight.bundles {
		if b.DeletionTimestamp != nil {
			s.std.Note("bundle %s/%s is being deleted and is left out", b.Namespace, b.Name)
			continue
		}
		in, err := sight.input(ctx, s, b)
		if err != nil {
			return err
		}
		judged := judgedBundle(b, takeover.Judge(in))
		doc.Bundles = append(doc.Bundles, judged)
		alike = alike && judged.Verdict == string(takeover.Identical)
	}
	if doc.HelmOps, err = s.helmOps(ctx); err != nil {
		return err
	}
	if err := o.show(s, doc); err != nil {
		return err
	}
	if !alike || len(doc.HelmOps) > 0 {
		return endingWith(errDifferences)
	}
	return nil
}

func judgedBundle(b *fleet.Bundle, f takeover.Finding) TakeoverBundle {
	out := TakeoverBundle{
		Name: b.Namespace + "/" + b.Name, Shard: b.Labels[fleet.LabelShardRef],
		Verdict: string(f.Verdict), Clusters: f.Clusters, Reasons: f.Reasons,
	}
	for _, d := range f.Differences {
		out.Differences = append(out.Differences, TakeoverDifference{Cluster: d.Cluster, What: d.What})
	}
	return out
}

// show prints the answer.
func (o takeoverCheckOptions) show(s *session, doc TakeoverReport) error {
	if o.output.Machine() {
		return o.output.Print(s.std, doc, false)
	}
	if len(doc.Bundles)+len(doc.HelmOps) == 0 {
		fmt.Fprintln(s.std.Out, "there are no bundles")
		return nil
	}
	rows := make([][]string, len(doc.Bundles), len(doc.Bundles)+len(doc.HelmOps))
	counts := map[string]int{}
	for i, b := range doc.Bundles {
		workspace, name, _ := strings.Cut(b.Name, "/")
		rows[i] = []string{workspace, name, cmp.Or(b.Shard, "-"), b.Verdict, fmt.Sprint(b.Clusters), strings.Join(b.Reasons, "; ")}
		counts[b.Verdict]++
	}
	autoscaler := 0
	for _, op := range doc.HelmOps {
		workspace, name, _ := strings.Cut(op.Name, "/")
		rows = append(rows, []string{workspace, "helmop/" + name, cmp.Or(op.Shard, "-"), op.Verdict, "-", op.Reason})
		if op.Autoscaler {
			autoscaler++
		}
	}
	t := &printer.Table{Out: s.std.Out, Width: s.std.Width(), Columns: []printer.Column{
		{Title: "WORKSPACE"}, {Title: "BUNDLE"}, {Title: "SHARD", Drop: 1}, {Title: "VERDICT"}, {Title: "CLUSTERS"}, {Title: "REASON", Text: true}}}
	if o.output.Wide() {
		t.Width = 0
	}
	t.Print(rows, false)
	if o.output.Wide() {
		o.each(s, doc)
	}
	var sums []string
	for _, v := range takeover.Verdicts {
		if n := counts[string(v)]; n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, v))
		}
	}
	s.std.Note("%s: %s", printer.Plural(len(doc.Bundles), "bundle"), cmp.Or(strings.Join(sums, ", "), "nothing to compare"))
	if n := len(doc.HelmOps); n > 0 {
		s.std.Note("%s: %d %s, %d of Rancher's cluster autoscaler", printer.Plural(n, "HelmOp"), n, takeover.Unsupported, autoscaler)
	}
	return nil
}

// each prints what differs on each cluster.
func (o takeoverCheckOptions) each(s *session, doc TakeoverReport) {
	for _, b := range doc.Bundles {
		for _, d := range b.Differences {
			printer.Say(s.std.Out, "\n%s on %s:\n", b.Name, d.Cluster)
			for _, what := range d.What {
				printer.Say(s.std.Out, "  %s\n", what)
			}
		}
	}
}

// takeoverSight is what can be seen of a fleet.
type takeoverSight struct {
	bundles     []*fleet.Bundle
	clusters    []*fleet.Cluster
	groups      []*fleet.ClusterGroup
	repos       map[string]*fleet.GitRepo            // by workspace and name
	deployments map[string][]*fleet.BundleDeployment // by the Bundle's workspace and name
	limits      map[string][]support.Limit           // by workspace
	mapped      map[string]bool                      // workspaces with mappings
	unplaced    map[string]string                    // why nothing can be deployed to a Cluster, by workspace and name
}

// takeoverSight reads all that Bundles depend on, within -n.
func (s *session) takeoverSight(ctx context.Context) (*takeoverSight, error) {
	t := &takeoverSight{
		repos: map[string]*fleet.GitRepo{}, deployments: map[string][]*fleet.BundleDeployment{},
		limits: map[string][]support.Limit{}, mapped: map[string]bool{},
	}
	var repos []*fleet.GitRepo
	var deployments []*fleet.BundleDeployment
	err := errors.Join(
		listInto(ctx, s, "bundles", &t.bundles), listInto(ctx, s, "clusters", &t.clusters), listInto(ctx, s, "groups", &t.groups),
		listInto(ctx, s, "repos", &repos), listInto(ctx, s, "deployments", &deployments),
		s.eachOf(ctx, "BundleNamespaceMapping", func(namespace, _ string) { t.mapped[namespace] = true }))
	for _, kind := range support.Limiting() {
		err = errors.Join(err, s.eachOf(ctx, kind, func(namespace, name string) {
			t.limits[namespace] = append(t.limits[namespace], support.Limit{Kind: kind, Name: name})
		}))
	}
	err = errors.Join(err, t.findUnplaced(ctx, s))
	for _, r := range repos {
		t.repos[r.Namespace+"/"+r.Name] = r
	}
	for _, bd := range deployments {
		key := bd.Labels[fleet.LabelBundleNamespace] + "/" + bd.Labels[fleet.LabelBundleName]
		t.deployments[key] = append(t.deployments[key], bd)
	}
	slices.SortStableFunc(t.bundles, func(a, b *fleet.Bundle) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return t, err
}

// findUnplaced finds the Clusters that a manager of a shard could not deploy to.
func (t *takeoverSight) findUnplaced(ctx context.Context, s *session) error {
	items, _, err := s.listed(ctx, query{resource: namespaces, labels: fleet.LabelManaged + "=" + registration.True})
	if apierrors.IsForbidden(err) {
		s.std.Note("warning: you may not list namespaces: fleet could not check whether each cluster has a namespace for its deployments")
		return nil
	}
	if err != nil {
		return reached(s.server, err)
	}
	owners := registration.Owners{}
	for _, u := range items {
		if owner := registration.NamespaceOwner(u); owner != "" && u.GetDeletionTimestamp() == nil {
			owners[u.GetName()] = owner
		}
	}
	t.unplaced = map[string]string{}
	for _, c := range t.clusters {
		if _, why := registration.PlaceOf(c, owners); why != "" {
			t.unplaced[c.Namespace+"/"+c.Name] = why
		}
	}
	return nil
}

func listInto[T any](ctx context.Context, s *session, plural string, into *[]*T) (err error) {
	*into, err = listAs[T](ctx, s, mustKind(plural), "")
	return err
}

// eachOf reports the objects of a kind that is not one of kinds, within -n. A server
// that does not know the kind has none.
func (s *session) eachOf(ctx context.Context, kind string, report func(namespace, name string)) error {
	plural, _, _ := fleet.Resource(kind)
	items, _, err := s.listed(ctx, query{resource: fleet.GroupVersion.WithResource(plural), namespace: s.scope})
	if unknownResource(err) {
		return nil
	}
	for _, u := range items {
		report(u.GetNamespace(), u.GetName())
	}
	return reached(s.server, err)
}

// helmOps are the HelmOps within -n, by name, and why nothing acts on them. A server
// that does not know the kind has none.
func (s *session) helmOps(ctx context.Context) ([]TakeoverHelmOp, error) {
	plural, _, _ := fleet.Resource("HelmOp")
	items, _, err := s.listed(ctx, query{resource: fleet.GroupVersion.WithResource(plural), namespace: s.scope})
	if unknownResource(err) {
		return nil, nil
	}
	var out []TakeoverHelmOp
	for _, u := range items {
		labels := u.GetLabels()
		reason := takeover.HelmOp(labels)
		if reason == "" {
			continue
		}
		out = append(out, TakeoverHelmOp{Name: u.GetNamespace() + "/" + u.GetName(), Shard: labels[fleet.LabelShardRef],
			Verdict: string(takeover.Unsupported), Autoscaler: labels[takeover.LabelAutoscaled] != "", Reason: reason})
	}
	slices.SortFunc(out, func(a, b TakeoverHelmOp) int { return strings.Compare(a.Name, b.Name) })
	return out, reached(s.server, err)
}

// input is what the deployments of a Bundle depend on.
func (t *takeoverSight) input(ctx context.Context, s *session, b *fleet.Bundle) (takeover.Input, error) {
	key := b.Namespace + "/" + b.Name
	in := takeover.Input{
		Input: preview.Input{Bundle: b, Clusters: t.clusters, Groups: t.groups, Deployments: t.deployments[key]},
		Repo:  t.repos[b.Namespace+"/"+b.Labels[fleet.LabelRepoName]], Limits: t.limits[b.Namespace], Unplaced: t.unplaced,
	}
	src := source{bundle: b, live: s}
	if t.mapped[b.Namespace] {
		in.Clusters, in.Groups = withinNamespace(t.clusters, b.Namespace), withinNamespace(t.groups, b.Namespace)
		in.Deployments = slices.DeleteFunc(slices.Clone(in.Deployments), func(bd *fleet.BundleDeployment) bool {
			return bd.Labels[fleet.LabelClusterNamespace] != b.Namespace
		})
		if err := src.lookFurther(ctx, &in.Input); err != nil {
			return in, err
		}
	}
	for _, bd := range in.Deployments {
		if bd.Spec.ValuesHash == "" || bd.Spec.DeploymentID == bd.Spec.StagedDeploymentID {
			continue
		}
		if err := src.addSecret(ctx, &in.Input, bd.Namespace, bd.Name); err != nil { // both versions' values are in it
			return in, err
		}
	}
	if b.Spec.ValuesHash == "" {
		return in, nil
	}
	return in, src.addSecret(ctx, &in.Input, b.Namespace, b.Name)
}

func withinNamespace[T interface{ GetNamespace() string }](list []T, namespace string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return o.GetNamespace() != namespace })
}
