package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/takeover"
)

// CheckFormats are the values of -o that fleet takeover check has.
var CheckFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// CheckOptions are the flags and the arguments of fleet takeover check.
type CheckOptions struct {
	Output printer.Output
}

// Check judges every Bundle.
func Check(ctx context.Context, o CheckOptions, s *client.Session) error {
	sight, err := readVisibleFleet(ctx, s)
	if err != nil {
		return err
	}
	doc := TakeoverReport{Document: printer.NewDocument("TakeoverReport"), Bundles: []TakeoverBundle{}}
	alike := true
	for _, b := range sight.bundles {
		if b.DeletionTimestamp != nil {
			s.Std.Note("bundle %s/%s is being deleted and is left out", b.Namespace, b.Name)
			continue
		}
		in, err := sight.input(ctx, s, b)
		if err != nil {
			return err
		}
		judged := comparedBundle(b, takeover.Compare(in))
		doc.Bundles = append(doc.Bundles, judged)
		alike = alike && judged.Verdict == string(takeover.Identical)
	}
	if err := o.printReport(s, doc); err != nil {
		return err
	}
	if !alike {
		return cli.EndingWith(cli.ErrDifferences)
	}
	return nil
}

func comparedBundle(b *fleet.Bundle, f takeover.Finding) TakeoverBundle {
	out := TakeoverBundle{
		Name: b.Namespace + "/" + b.Name, Shard: b.Labels[fleet.LabelShardRef],
		Verdict: string(f.Verdict), Clusters: f.Clusters, Reasons: f.Reasons,
	}
	for _, d := range f.Differences {
		out.Differences = append(out.Differences, TakeoverDifference{Cluster: d.Cluster, What: d.What})
	}
	return out
}

// printReport prints the answer.
func (o CheckOptions) printReport(s *client.Session, doc TakeoverReport) error {
	if o.Output.IsMachineReadable() {
		return o.Output.Print(s.Std, doc, false)
	}
	if len(doc.Bundles) == 0 {
		fmt.Fprintln(s.Std.Out, "there are no bundles")
		return nil
	}
	rows := make([][]string, len(doc.Bundles))
	counts := map[string]int{}
	for i, b := range doc.Bundles {
		workspace, name, _ := strings.Cut(b.Name, "/")
		rows[i] = []string{workspace, name, cmp.Or(b.Shard, "-"), b.Verdict, fmt.Sprint(b.Clusters), strings.Join(b.Reasons, "; ")}
		counts[b.Verdict]++
	}
	t := &printer.Table{Out: s.Std.Out, Width: s.Std.Width(), Columns: []printer.Column{
		{Title: "WORKSPACE"}, {Title: "BUNDLE"}, {Title: "SHARD", Drop: 1}, {Title: "VERDICT"}, {Title: "CLUSTERS"}, {Title: "REASON", Text: true}}}
	if o.Output.IsWide() {
		t.Width = 0
	}
	t.Print(rows, false)
	if o.Output.IsWide() {
		o.printClusters(s, doc)
	}
	var sums []string
	for _, v := range takeover.Verdicts {
		if n := counts[string(v)]; n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, v))
		}
	}
	s.Std.Note("%s: %s", printer.Plural(len(doc.Bundles), "bundle"), cmp.Or(strings.Join(sums, ", "), "nothing to compare"))
	return nil
}

// printClusters prints what differs on each cluster.
func (o CheckOptions) printClusters(s *client.Session, doc TakeoverReport) {
	for _, b := range doc.Bundles {
		for _, d := range b.Differences {
			printer.Fprintf(s.Std.Out, "\n%s on %s:\n", b.Name, d.Cluster)
			for _, what := range d.What {
				printer.Fprintf(s.Std.Out, "  %s\n", what)
			}
		}
	}
}

// visibleFleet is what can be seen of a fleet.
type visibleFleet struct {
	bundles     []*fleet.Bundle
	clusters    []*fleet.Cluster
	groups      []*fleet.ClusterGroup
	repos       map[string]*fleet.GitRepo            // by workspace and name
	deployments map[string][]*fleet.BundleDeployment // by the Bundle's workspace and name
	restricted  []*fleet.GitRepoRestriction
	policies    []*fleet.Policy
	mapped      map[string]bool   // workspaces with mappings
	unplaced    map[string]string // why nothing can be deployed to a Cluster, by workspace and name
}

// readVisibleFleet reads all that Bundles depend on, within -n.
func readVisibleFleet(ctx context.Context, s *client.Session) (*visibleFleet, error) {
	t := &visibleFleet{
		repos: map[string]*fleet.GitRepo{}, deployments: map[string][]*fleet.BundleDeployment{},
		mapped: map[string]bool{},
	}
	var repos []*fleet.GitRepo
	var deployments []*fleet.BundleDeployment
	err := errors.Join(
		listInto(ctx, s, "bundles", &t.bundles), listInto(ctx, s, "clusters", &t.clusters), listInto(ctx, s, "groups", &t.groups),
		listInto(ctx, s, "repos", &repos), listInto(ctx, s, "deployments", &deployments),
		limitsInto(ctx, s, policy.KindRestriction, &t.restricted), limitsInto(ctx, s, policy.KindPolicy, &t.policies),
		eachOf(ctx, s, "BundleNamespaceMapping", func(namespace, _ string) { t.mapped[namespace] = true }))
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
func (v *visibleFleet) findUnplaced(ctx context.Context, s *client.Session) error {
	items, _, err := s.Listed(ctx, client.Query{Resource: client.Namespaces, Labels: fleet.LabelManaged + "=" + registration.True})
	if apierrors.IsForbidden(err) {
		s.Std.Note("warning: you may not list namespaces: fleet could not check whether each cluster has a namespace for its deployments")
		return nil
	}
	if err != nil {
		return client.DescribeServerError(s.Server, err)
	}
	owners := registration.Owners{}
	for _, u := range items {
		if owner := registration.NamespaceOwner(u); owner != "" && u.GetDeletionTimestamp() == nil {
			owners[u.GetName()] = owner
		}
	}
	v.unplaced = map[string]string{}
	for _, c := range v.clusters {
		if _, why := registration.PlaceOf(c, owners); why != "" {
			v.unplaced[c.Namespace+"/"+c.Name] = why
		}
	}
	return nil
}

func listInto[T any](ctx context.Context, s *client.Session, plural string, into *[]*T) (err error) {
	*into, err = client.ListAs[T](ctx, s, cli.MustKind(plural), "")
	return err
}

func limitsInto[T any](ctx context.Context, s *client.Session, kind string, into *[]*T) (err error) {
	*into, err = client.LimitsAs[T](ctx, s, kind, s.Scope)
	return err
}

// eachOf reports the objects of a kind that is not one of kinds, within -n. A server
// that does not know the kind has none.
func eachOf(ctx context.Context, s *client.Session, kind string, report func(namespace, name string)) error {
	plural, _, _ := fleet.Resource(kind)
	items, _, err := s.Listed(ctx, client.Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: s.Scope})
	if client.UnknownResource(err) {
		return nil
	}
	for _, u := range items {
		report(u.GetNamespace(), u.GetName())
	}
	return client.DescribeServerError(s.Server, err)
}

// input is what the deployments of a Bundle depend on.
func (v *visibleFleet) input(ctx context.Context, s *client.Session, b *fleet.Bundle) (takeover.Input, error) {
	key := b.Namespace + "/" + b.Name
	in := takeover.Input{
		Input: preview.Input{Bundle: b, Clusters: v.clusters, Groups: v.groups, Deployments: v.deployments[key], Restrictions: v.restricted, Policies: v.policies},
		Repo:  v.repos[b.Namespace+"/"+b.Labels[fleet.LabelRepoName]], Unplaced: v.unplaced,
	}
	src := sources.Source{Bundle: b, Live: s}
	if v.mapped[b.Namespace] {
		in.Clusters, in.Groups = withinNamespace(v.clusters, b.Namespace), withinNamespace(v.groups, b.Namespace)
		in.Deployments = slices.DeleteFunc(slices.Clone(in.Deployments), func(bd *fleet.BundleDeployment) bool {
			return bd.Labels[fleet.LabelClusterNamespace] != b.Namespace
		})
		if err := src.LookFurther(ctx, &in.Input); err != nil {
			return in, err
		}
	}
	for _, bd := range in.Deployments {
		if bd.Spec.ValuesHash == "" || bd.Spec.DeploymentID == bd.Spec.StagedDeploymentID {
			continue
		}
		if err := src.AddSecret(ctx, &in.Input, bd.Namespace, bd.Name); err != nil { // both versions' values are in it
			return in, err
		}
	}
	if b.Spec.ValuesHash == "" {
		return in, nil
	}
	return in, src.AddSecret(ctx, &in.Input, b.Namespace, b.Name)
}

func withinNamespace[T interface{ GetNamespace() string }](list []T, namespace string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return o.GetNamespace() != namespace })
}
