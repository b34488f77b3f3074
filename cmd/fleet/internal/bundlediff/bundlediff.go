package bundlediff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Bundle     string
	Deployment string
	Cluster    string
	JSON       bool
	FleetYAML  bool
	Missing    bool
	Output     printer.Output
	Bare       bool
	Watch      bool
}

// Complete reads the arguments, and refuses flags that do not go together.
func (o *Options) Complete(args []string) error {
	bundle, cluster, err := cli.BundleGrammar.ParsePair(args)
	if err != nil {
		return err
	}
	for _, v := range []struct{ flag, arg *string }{{&o.Bundle, &bundle}, {&o.Cluster, &cluster}} {
		if *v.flag != "" && *v.arg != "" && *v.flag != *v.arg {
			return fmt.Errorf("%q and %q: want one of them", *v.flag, *v.arg)
		}
		*v.flag = cmp.Or(*v.flag, *v.arg)
	}
	if o.JSON {
		o.Output = printer.FormatJSON
	}
	switch {
	case o.FleetYAML && o.Output != "":
		return errors.New("--fleet-yaml goes neither with --json nor with -o")
	case o.FleetYAML && o.Bundle == "" && o.Deployment == "":
		return errors.New("--fleet-yaml wants a BUNDLE, or --bundle-deployment")
	case o.FleetYAML && o.Watch:
		return errors.New("--fleet-yaml does not go with --watch")
	case o.Missing && !o.FleetYAML:
		return errors.New("--missing goes with --fleet-yaml")
	}
	return o.Output.Check(Formats...)
}

// Run prints what differs from what was deployed.
func Run(ctx context.Context, o Options, s *client.Session) error {
	all, err := o.deployments(ctx, s)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		s.NoteNoManager(ctx)
		if err := s.NoteEmpty(ctx); err != nil {
			return err
		}
	}
	differing := slices.DeleteFunc(slices.Clone(all), func(bd *fleet.BundleDeployment) bool { return len(bd.Status.ModifiedStatus) == 0 })
	sortDeployments(differing)
	for _, bd := range differing {
		if bd.Status.IncompleteState {
			s.Std.Note("%s on %s: only the first %d objects that differ are known", bd.Name, view.ClusterOf(bd).Name, fleet.StatusListLimit)
		}
	}
	away, err := noteAway(ctx, s, all)
	if err != nil {
		return err
	}
	if !o.FleetYAML {
		noteFailed(s, all)
		err = o.printDifferences(s, len(all), differing)
	} else {
		err = o.suggest(ctx, s, differing)
	}
	if err == nil && away && len(differing) == 0 {
		return cli.EndingWith(cli.ErrPartly)
	}
	return err
}

// noteAway prints which clusters of deployments are Offline: their differences are
// known as of their last check-in. It reports whether there are any. Clusters that the
// user may not read are left out.
func noteAway(ctx context.Context, s *client.Session, all []*fleet.BundleDeployment) (bool, error) {
	var keys []view.Key
	for _, bd := range all {
		keys = append(keys, view.ClusterOf(bd))
	}
	clusters, err := client.FetchAs[fleet.Cluster](ctx, s, cli.MustKind("clusters"), keys)
	if err != nil {
		return false, err
	}
	var away []string
	for key, c := range clusters {
		if view.ClusterState(c) == fleet.Offline {
			seen := c.Status.Agent.LastSeen.Time
			away = append(away, fmt.Sprintf("%s as of %s (%s ago)", key, view.Clock(seen, s.Now()), view.Ago(seen, s.Now())))
		}
	}
	if len(away) == 0 {
		return false, nil
	}
	slices.Sort(away)
	s.Std.Note("Offline, so that what differs is known as of the last check-in only: %s", view.List(away, client.MaxNames))
	return true, nil
}

// noteFailed prints the deployments whose previous version was compared, because the
// current one could not be applied.
func noteFailed(s *client.Session, all []*fleet.BundleDeployment) {
	var failed []*fleet.BundleDeployment
	for _, bd := range all {
		if view.AttemptFailed(bd) {
			failed = append(failed, bd)
		}
	}
	if len(failed) == 0 {
		return
	}
	sortDeployments(failed)
	first := failed[0]
	where := fmt.Sprintf("%s on %s", first.Name, view.ClusterOf(first).Name)
	if n := len(failed) - 1; n > 0 {
		where += fmt.Sprintf(" and %d more", n)
	}
	s.Std.Note("%s: the wanted version could not be applied; compared with the version before it", where)
}

// deployments are those that are asked for, by name and cluster.
func (o Options) deployments(ctx context.Context, s *client.Session) ([]*fleet.BundleDeployment, error) {
	k := cli.MustKind("deployments")
	if o.Deployment != "" && s.Scope != "" {
		// As rancher/fleet has it, -n is where the BundleDeployment stands.
		bd, err := client.GetAs[fleet.BundleDeployment](ctx, s, k.Resource(), s.Scope, o.Deployment)
		if bd != nil || err != nil {
			return []*fleet.BundleDeployment{bd}, err
		}
	}
	list, err := client.ListAs[fleet.BundleDeployment](ctx, s, k, o.labels())
	if err != nil {
		return nil, err
	}
	if o.Deployment != "" {
		list = slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool {
			return bd.Name != o.Deployment && bd.Namespace+"/"+bd.Name != o.Deployment
		})
	}
	if len(list) == 0 && (o.Bundle != "" || o.Deployment != "" || o.Cluster != "") {
		return nil, o.noDeployment(ctx, s, k)
	}
	return list, nil
}

// labels select the deployments of the bundle and the cluster that are asked for.
func (o Options) labels() string {
	labels := ""
	if o.Bundle != "" {
		labels = fleet.LabelBundleName + "=" + o.Bundle
	}
	if o.Cluster != "" {
		labels = client.JoinSelectors(labels, fleet.LabelCluster+"="+o.Cluster)
	}
	return labels
}

// noDeployment returns the error if no deployment matches the request.
func (o Options) noDeployment(ctx context.Context, s *client.Session, k cli.Kind) error {
	if o.Deployment != "" {
		return o.unknownDeployment(ctx, s, k)
	}
	bundle, cluster := cli.ObjectRef{Kind: cli.MustKind("bundles"), Name: o.Bundle}, cli.ObjectRef{Kind: cli.MustKind("clusters"), Name: o.Cluster}
	missing := s.NotThere(ctx, bundle)
	if missing != nil {
		if err := s.SwappedArgumentsError(ctx, "bundlediff", o.Bundle, o.Cluster); err != nil {
			return err
		}
	}
	if err := errors.Join(missing, s.NotThere(ctx, cluster)); err != nil {
		return err
	}
	switch {
	case o.Cluster == "":
		return fmt.Errorf("%s is deployed to no cluster; why: %s", bundle, s.CommandLine("explain", o.Bundle))
	case o.Bundle == "":
		return fmt.Errorf("nothing is deployed to %s", cluster)
	}
	return fmt.Errorf("%s is not deployed to %s; why: %s", bundle, cluster, s.CommandLine("explain", o.Bundle, o.Cluster))
}

// unknownDeployment is the error for a BundleDeployment that is not there.
func (o Options) unknownDeployment(ctx context.Context, s *client.Session, k cli.Kind) error {
	list, err := client.ListAs[fleet.BundleDeployment](ctx, s, k, o.labels())
	if err != nil {
		return err
	}
	var names []view.Key
	for _, bd := range list {
		names = append(names, view.Key{Namespace: view.ClusterOf(bd).Namespace, Name: bd.Name})
	}
	slices.SortFunc(names, func(a, b view.Key) int { return strings.Compare(a.String(), b.String()) })
	return client.Unknown(k, o.Deployment, s.Scope, slices.Compact(names))
}

var diffColumns = []printer.Column{
	{Title: "WORKSPACE"}, {Title: "BUNDLE"}, {Title: "CLUSTER"}, {Title: "OBJECT"}, {Title: "FIELD"}, {Title: "BY", Text: true},
	{Title: "WANTED", Text: true}, {Title: "THERE", Text: true},
}

// printDifferences prints what differs, one line for each field.
func (o Options) printDifferences(s *client.Session, all int, differing []*fleet.BundleDeployment) error {
	if o.Output.IsMachineReadable() {
		if err := o.Output.Print(s.Std, o.document(s, differing), false); err != nil {
			return err
		}
	} else if len(differing) > 0 {
		o.table(s, differing)
	}
	if len(differing) == 0 {
		s.Std.Note("nothing differs; looked at: %d", all)
		return nil
	}
	return cli.EndingWith(cli.ErrDifferences)
}

func (o Options) table(s *client.Session, differing []*fleet.BundleDeployment) {
	anyOf := func(f func(m fleet.ModifiedStatus) bool) bool {
		return slices.ContainsFunc(differing, func(bd *fleet.BundleDeployment) bool { return slices.ContainsFunc(bd.Status.ModifiedStatus, f) })
	}
	known := anyOf(func(m fleet.ModifiedStatus) bool { return len(m.Changes) > 0 })
	wanted := anyOf(func(m fleet.ModifiedStatus) bool { return len(m.Changes) > 0 || m.Patch != "" })
	spaces := map[string]bool{}
	for _, bd := range differing {
		spaces[view.ClusterOf(bd).Namespace] = true
	}
	t, show := o.newTable(s, map[string]bool{"WORKSPACE": len(spaces) < 2 && !o.Output.IsWide(), "BY": !known, "WANTED": !wanted})
	t.Print(diffRows(differing, s.Now(), show), o.Bare)
}

// newTable is an empty table without these columns, and a function that picks cells.
func (o Options) newTable(s *client.Session, hidden map[string]bool) (*printer.Table, func([]string) []string) {
	t := &printer.Table{Out: s.Std.Out}
	if !o.Output.IsWide() {
		t.Width = s.Std.Width()
	}
	return t, t.Show(diffColumns, func(c printer.Column) bool { return !hidden[c.Title] })
}

// diffRows are the rows of deployments, one for each field.
func diffRows(differing []*fleet.BundleDeployment, now time.Time, show func([]string) []string) [][]string {
	var rows [][]string
	for _, bd := range differing {
		at := view.ClusterOf(bd)
		for _, m := range bd.Status.ModifiedStatus {
			for _, f := range fieldsOf(m, now) {
				rows = append(rows, show(append([]string{at.Namespace, bd.Name, at.Name, objectOf(m)}, f...)))
			}
		}
	}
	return rows
}

// objectOf is an object as kubectl takes it: "deployment.apps/web -n prod".
func objectOf(m fleet.ModifiedStatus) string {
	group, _, ok := strings.Cut(m.APIVersion, "/")
	text := strings.ToLower(m.Kind)
	if ok {
		text += "." + group
	}
	text += "/" + m.Name
	if m.Namespace != "" {
		text += " -n " + m.Namespace
	}
	return text
}

// nothing is shown for a missing field.
const nothing = "nothing"

// fieldsOf are the fields of an object that differ: which, changed by whom, what
// was deployed, and what is there.
func fieldsOf(m fleet.ModifiedStatus, now time.Time) [][]string {
	whole := func(there string) [][]string { return [][]string{{"-", "-", "-", there}} }
	switch {
	case m.Create && m.Exist:
		return whole("an object that does not belong to this release")
	case m.Create:
		return whole("nothing: it is gone")
	case m.Delete:
		return whole("an object that should not be there")
	}
	fields, err := drift.Fields(m.Patch)
	if err != nil {
		return whole(m.Patch)
	}
	var out [][]string
	for _, c := range m.Changes {
		by := printer.OrDash(c.Manager)
		if c.Time != nil {
			by += ", " + view.Ago(c.Time.Time, now) + " ago"
		}
		out = append(out, []string{c.Field, by, printer.OrDash(c.Wanted), cmp.Or(c.Live, nothing)})
	}
	if len(m.Changes) > 0 {
		return out
	}
	for _, f := range fields { // which names the desired state
		wanted := f.Value
		if wanted == "null" {
			wanted = nothing
		}
		out = append(out, []string{f.Pointer, "-", wanted, "-"})
	}
	return out
}

// BundleDiff is what fleet bundlediff prints. Its fields are rancher/fleet's.
type BundleDiff struct {
	printer.Document
	// BundleName is the bundle that was asked for.
	BundleName string `json:"bundleName,omitempty"`
	// Namespace is the one that was asked for with -n.
	Namespace string `json:"namespace"`
	// BundleDeploymentDiffs are the deployments with differences.
	BundleDeploymentDiffs []DeploymentDiff `json:"bundleDeploymentDiffs"`
}

// DeploymentDiff is what differs on one cluster.
type DeploymentDiff struct {
	// BundleDeploymentName is the name of the BundleDeployment.
	BundleDeploymentName string `json:"bundleDeploymentName"`
	// BundleName is that of its bundle.
	BundleName string `json:"bundleName"`
	// Namespace is where the BundleDeployment stands.
	Namespace string `json:"namespace"`
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// ModifiedResources are the objects that differ.
	ModifiedResources []fleet.ModifiedStatus `json:"modifiedResources"`
	// NonReadyResources are the objects that are not Ready.
	NonReadyResources []fleet.NonReadyStatus `json:"nonReadyResources,omitempty"`
}

func (o Options) document(s *client.Session, differing []*fleet.BundleDeployment) BundleDiff {
	doc := BundleDiff{
		Document: printer.NewDocument("BundleDiff"), BundleName: o.Bundle, Namespace: s.Scope, BundleDeploymentDiffs: []DeploymentDiff{},
	}
	for _, bd := range differing {
		doc.BundleDeploymentDiffs = append(doc.BundleDeploymentDiffs, DeploymentDiff{
			BundleDeploymentName: bd.Name, BundleName: bd.Labels[fleet.LabelBundleName], Namespace: bd.Namespace,
			Cluster: view.ClusterOf(bd).String(), ModifiedResources: append([]fleet.ModifiedStatus{}, bd.Status.ModifiedStatus...), NonReadyResources: bd.Status.NonReadyStatus,
		})
	}
	return doc
}

// suggest prints how the differences of one bundle can be ignored, on all the
// clusters that were asked for.
func (o Options) suggest(ctx context.Context, s *client.Session, differing []*fleet.BundleDeployment) error {
	var modified []fleet.ModifiedStatus
	bundles := map[view.Key]bool{}
	for _, bd := range differing {
		modified = append(modified, bd.Status.ModifiedStatus...)
		bundles[view.Key{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}] = true
	}
	if len(modified) == 0 {
		s.Std.Note("nothing differs: there is nothing to ignore")
		return nil
	}
	if len(bundles) > 1 {
		var names []string
		for key := range bundles {
			names = append(names, key.String())
		}
		slices.Sort(names)
		return fmt.Errorf("these are deployments of %s, each with a fleet.yaml of its own; choose one", strings.Join(names, " and "))
	}
	existing, err := existingPatches(ctx, s, bundles)
	if err != nil {
		return err
	}
	sg := drift.Suggest(modified, existing, drift.SuggestOptions{Missing: o.Missing})
	text, err := sg.YAML()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(printer.DocumentWriter(s.Std.Out), text); err != nil {
		return err
	}
	for _, wide := range printer.Unique(sg.Wide) {
		s.Std.Note("ignores the whole list, a part of it cannot be named: %s", wide)
	}
	left := printer.Unique(sg.Left)
	for _, l := range left {
		s.Std.Note("cannot be ignored: %s", l)
	}
	if len(left) > 0 {
		return cli.EndingWith(cli.ErrPartly)
	}
	return nil
}

// existingPatches are the comparePatches of the one bundle, for all clusters.
func existingPatches(ctx context.Context, s *client.Session, bundles map[view.Key]bool) ([]fleet.ComparePatch, error) {
	for key := range bundles {
		b, err := client.GetAs[fleet.Bundle](ctx, s, cli.MustKind("bundles").Resource(), key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if b == nil {
			s.Std.Note("bundle %s cannot be read: what it ignores already is not part of this", key)
			return nil, nil
		}
		if b.Spec.Diff != nil {
			return b.Spec.Diff.ComparePatches, nil
		}
	}
	return nil, nil
}
