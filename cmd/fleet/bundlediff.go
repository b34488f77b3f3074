package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/suggest"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const bundleDiffText = `Shows what differs on clusters from what was deployed there: fields that somebody has changed, objects that are gone.

Where the wanted version could not be applied, objects are compared with the version before it, and stderr says so.

With --fleet-yaml it prints how that can be ignored, as the part "diff" of fleet.yaml: paste it there, in the place of the one that stands there,
and commit. What the bundle ignores already is part of it. A field in a list is ignored together with the whole list. Objects that are gone are
left out unless --missing; what no comparePatch can ignore is named on stderr.

Of a cluster that is Offline it shows what differed at its last check-in, and stderr says so.

Exit codes: 0 nothing differs, or with --fleet-yaml all of it can be ignored; 2 there are differences; 6 nothing is known to differ, and a cluster is
Offline, or with --fleet-yaml: a part of it cannot be ignored.`

var bundleDiffFormats = []string{printer.FormatWide, printer.FormatJSON, printer.FormatYAML}

type bundleDiffOptions struct {
	bundle     string
	deployment string
	cluster    string
	json       bool
	fleetYAML  bool
	missing    bool
	output     printer.Output
	bare       bool
	watch      bool
}

func newBundleDiffCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o bundleDiffOptions
	cmd := &cobra.Command{
		Use: "bundlediff [BUNDLE [CLUSTER]]", Short: "Show what was changed on clusters, or ignore it", Long: bundleDiffText,
		Example:           "  fleet bundlediff\n  fleet bundlediff shop-web c3\n  fleet bundlediff shop-web c3 --fleet-yaml",
		ValidArgsFunction: g.completeObjects(std, bundleGrammar),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			connect := g.connectWithin
			if o.deployment != "" {
				connect = g.connect // -n may be the namespace of the BundleDeployment
			}
			s, err := connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.watch {
				return watchBundleDiff(cmd.Context(), o, s)
			}
			return runBundleDiff(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.AddFlag(fs, bundleDiffFormats...)
	nameVar(fs, &o.bundle, "bundles", "bundle", "b", "only this `bundle`")
	fs.StringVar(&o.deployment, "bundle-deployment", "", "only the BundleDeployment of this `name`; -n may be its namespace")
	nameVar(fs, &o.cluster, "clusters", "cluster", "", "only on this `cluster`")
	fs.BoolVar(&o.json, "json", false, "the same as -o json")
	fs.BoolVar(&o.fleetYAML, "fleet-yaml", false, "print comparePatches that ignore it")
	fs.BoolVar(&o.missing, "missing", false, "with --fleet-yaml: ignore that objects are gone, too")
	fs.BoolVarP(&o.watch, "watch", "w", false, "then print what changes, until interrupted")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	g.completeObjectFlags(cmd, std)
	return cmd
}

func (o *bundleDiffOptions) complete(args []string) error {
	bundle, cluster, err := bundleGrammar.pair(args)
	if err != nil {
		return err
	}
	for _, v := range []struct{ flag, arg *string }{{&o.bundle, &bundle}, {&o.cluster, &cluster}} {
		if *v.flag != "" && *v.arg != "" && *v.flag != *v.arg {
			return fmt.Errorf("%q and %q: want one of them", *v.flag, *v.arg)
		}
		*v.flag = cmp.Or(*v.flag, *v.arg)
	}
	if o.json {
		o.output = printer.FormatJSON
	}
	switch {
	case o.fleetYAML && o.output != "":
		return errors.New("--fleet-yaml goes neither with --json nor with -o")
	case o.fleetYAML && o.bundle == "" && o.deployment == "":
		return errors.New("--fleet-yaml wants a BUNDLE, or --bundle-deployment")
	case o.fleetYAML && o.watch:
		return errors.New("--fleet-yaml does not go with --watch")
	case o.missing && !o.fleetYAML:
		return errors.New("--missing goes with --fleet-yaml")
	}
	return o.output.Check(bundleDiffFormats...)
}

func runBundleDiff(ctx context.Context, o bundleDiffOptions, s *session) error {
	all, err := o.deployments(ctx, s)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		s.noteNoManager(ctx)
		if err := s.noteEmpty(ctx); err != nil {
			return err
		}
	}
	differing := slices.DeleteFunc(slices.Clone(all), func(bd *fleet.BundleDeployment) bool { return len(bd.Status.ModifiedStatus) == 0 })
	sortDeployments(differing)
	for _, bd := range differing {
		if bd.Status.IncompleteState {
			s.std.Note("%s on %s: only the first %d objects that differ are known", bd.Name, view.ClusterOf(bd).Name, fleet.StatusListLimit)
		}
	}
	away, err := s.noteAway(ctx, all)
	if err != nil {
		return err
	}
	if !o.fleetYAML {
		noteFailed(s, all)
		err = o.show(s, len(all), differing)
	} else {
		err = o.suggest(ctx, s, differing)
	}
	if err == nil && away && len(differing) == 0 {
		return endingWith(errPartly)
	}
	return err
}

// noteAway prints which clusters of deployments are Offline: their differences are
// known as of their last check-in. It reports whether there are any. Clusters that the
// user may not read are left out.
func (s *session) noteAway(ctx context.Context, all []*fleet.BundleDeployment) (bool, error) {
	var keys []view.Key
	for _, bd := range all {
		keys = append(keys, view.ClusterOf(bd))
	}
	clusters, err := fetchAs[fleet.Cluster](ctx, s, mustKind("clusters"), keys)
	if err != nil {
		return false, err
	}
	var away []string
	for key, c := range clusters {
		if view.ClusterState(c) == fleet.Offline {
			seen := c.Status.Agent.LastSeen.Time
			away = append(away, fmt.Sprintf("%s as of %s (%s ago)", key, view.Clock(seen, s.now()), view.Ago(seen, s.now())))
		}
	}
	if len(away) == 0 {
		return false, nil
	}
	slices.Sort(away)
	s.std.Note("Offline, so that what differs is known as of the last check-in only: %s", view.List(away, maxNames))
	return true, nil
}

// noteFailed prints the deployments whose previous version was compared, because the
// current one could not be applied.
func noteFailed(s *session, all []*fleet.BundleDeployment) {
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
	s.std.Note("%s: the wanted version could not be applied; compared with the version before it", where)
}

// deployments are those that are asked for, by name and cluster.
func (o bundleDiffOptions) deployments(ctx context.Context, s *session) ([]*fleet.BundleDeployment, error) {
	k := mustKind("deployments")
	if o.deployment != "" && s.scope != "" {
		// As the reference has it, -n is where the BundleDeployment stands.
		bd, err := getAs[fleet.BundleDeployment](ctx, s, k.resource(), s.scope, o.deployment)
		if bd != nil || err != nil {
			return []*fleet.BundleDeployment{bd}, err
		}
	}
	list, err := listAs[fleet.BundleDeployment](ctx, s, k, o.labels())
	if err != nil {
		return nil, err
	}
	if o.deployment != "" {
		list = slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool {
			return bd.Name != o.deployment && bd.Namespace+"/"+bd.Name != o.deployment
		})
	}
	if len(list) == 0 && (o.bundle != "" || o.deployment != "" || o.cluster != "") {
		return nil, o.noDeployment(ctx, s, k)
	}
	return list, nil
}

// labels select the deployments of the bundle and the cluster that are asked for.
func (o bundleDiffOptions) labels() string {
	labels := ""
	if o.bundle != "" {
		labels = fleet.LabelBundleName + "=" + o.bundle
	}
	if o.cluster != "" {
		labels = both(labels, fleet.LabelCluster+"="+o.cluster)
	}
	return labels
}

// noDeployment returns the error if no deployment matches the request.
func (o bundleDiffOptions) noDeployment(ctx context.Context, s *session, k kind) error {
	if o.deployment != "" {
		return o.unknownDeployment(ctx, s, k)
	}
	bundle, cluster := objectRef{mustKind("bundles"), o.bundle}, objectRef{mustKind("clusters"), o.cluster}
	missing := s.notThere(ctx, bundle)
	if missing != nil {
		if err := s.swapped(ctx, "bundlediff", o.bundle, o.cluster); err != nil {
			return err
		}
	}
	if err := errors.Join(missing, s.notThere(ctx, cluster)); err != nil {
		return err
	}
	switch {
	case o.cluster == "":
		return fmt.Errorf("%s is deployed to no cluster; why: %s", bundle, s.commandLine("explain", o.bundle))
	case o.bundle == "":
		return fmt.Errorf("nothing is deployed to %s", cluster)
	}
	return fmt.Errorf("%s is not deployed to %s; why: %s", bundle, cluster, s.commandLine("explain", o.bundle, o.cluster))
}

// unknownDeployment is the error for a BundleDeployment that is not there.
func (o bundleDiffOptions) unknownDeployment(ctx context.Context, s *session, k kind) error {
	list, err := listAs[fleet.BundleDeployment](ctx, s, k, o.labels())
	if err != nil {
		return err
	}
	var names []view.Key
	for _, bd := range list {
		names = append(names, view.Key{Namespace: view.ClusterOf(bd).Namespace, Name: bd.Name})
	}
	slices.SortFunc(names, func(a, b view.Key) int { return strings.Compare(a.String(), b.String()) })
	return k.unknown(o.deployment, s.scope, slices.Compact(names))
}

var diffColumns = []printer.Column{
	{Title: "WORKSPACE"}, {Title: "BUNDLE"}, {Title: "CLUSTER"}, {Title: "OBJECT"}, {Title: "FIELD"}, {Title: "BY", Text: true},
	{Title: "WANTED", Text: true}, {Title: "THERE", Text: true},
}

// show prints what differs, one line for each field.
func (o bundleDiffOptions) show(s *session, all int, differing []*fleet.BundleDeployment) error {
	if o.output.Machine() {
		if err := o.output.Print(s.std, o.document(s, differing), false); err != nil {
			return err
		}
	} else if len(differing) > 0 {
		o.table(s, differing)
	}
	if len(differing) == 0 {
		s.std.Note("nothing differs; looked at: %d", all)
		return nil
	}
	return endingWith(errDifferences)
}

func (o bundleDiffOptions) table(s *session, differing []*fleet.BundleDeployment) {
	anyOf := func(f func(m fleet.ModifiedStatus) bool) bool {
		return slices.ContainsFunc(differing, func(bd *fleet.BundleDeployment) bool { return slices.ContainsFunc(bd.Status.ModifiedStatus, f) })
	}
	known := anyOf(func(m fleet.ModifiedStatus) bool { return len(m.Changes) > 0 })
	wanted := anyOf(func(m fleet.ModifiedStatus) bool { return len(m.Changes) > 0 || m.Patch != "" })
	spaces := map[string]bool{}
	for _, bd := range differing {
		spaces[view.ClusterOf(bd).Namespace] = true
	}
	t, show := o.newTable(s, map[string]bool{"WORKSPACE": len(spaces) < 2 && !o.output.Wide(), "BY": !known, "WANTED": !wanted})
	t.Print(diffRows(differing, s.now(), show), o.bare)
}

// newTable is an empty table without these columns, and a function that picks cells.
func (o bundleDiffOptions) newTable(s *session, hidden map[string]bool) (*printer.Table, func([]string) []string) {
	t := &printer.Table{Out: s.std.Out}
	if !o.output.Wide() {
		t.Width = s.std.Width()
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
	fields, err := suggest.Fields(m.Patch)
	if err != nil {
		return whole(m.Patch)
	}
	var out [][]string
	for _, c := range m.Changes {
		by := dash(c.Manager)
		if c.Time != nil {
			by += ", " + view.Ago(c.Time.Time, now) + " ago"
		}
		out = append(out, []string{c.Field, by, dash(c.Wanted), cmp.Or(c.Live, nothing)})
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

// BundleDiff is what fleet bundlediff prints. Its fields are the reference's.
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

func (o bundleDiffOptions) document(s *session, differing []*fleet.BundleDeployment) BundleDiff {
	doc := BundleDiff{
		Document: printer.NewDocument("BundleDiff"), BundleName: o.bundle, Namespace: s.scope, BundleDeploymentDiffs: []DeploymentDiff{},
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
func (o bundleDiffOptions) suggest(ctx context.Context, s *session, differing []*fleet.BundleDeployment) error {
	var modified []fleet.ModifiedStatus
	bundles := map[view.Key]bool{}
	for _, bd := range differing {
		modified = append(modified, bd.Status.ModifiedStatus...)
		bundles[view.Key{Namespace: bd.Labels[fleet.LabelBundleNamespace], Name: bd.Labels[fleet.LabelBundleName]}] = true
	}
	if len(modified) == 0 {
		s.std.Note("nothing differs: there is nothing to ignore")
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
	sg := suggest.Ignore(modified, existing, suggest.Options{Missing: o.missing})
	text, err := sg.YAML()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(printer.Exact(s.std.Out), text); err != nil {
		return err
	}
	for _, wide := range unique(sg.Wide) {
		s.std.Note("ignores the whole list, a part of it cannot be named: %s", wide)
	}
	left := unique(sg.Left)
	for _, l := range left {
		s.std.Note("cannot be ignored: %s", l)
	}
	if len(left) > 0 {
		return endingWith(errPartly)
	}
	return nil
}

// existingPatches are the comparePatches of the one bundle, for all clusters.
func existingPatches(ctx context.Context, s *session, bundles map[view.Key]bool) ([]fleet.ComparePatch, error) {
	for key := range bundles {
		b, err := getAs[fleet.Bundle](ctx, s, mustKind("bundles").resource(), key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if b == nil {
			s.std.Note("bundle %s cannot be read: what it ignores already is not part of this", key)
			return nil, nil
		}
		if b.Spec.Diff != nil {
			return b.Spec.Diff.ComparePatches, nil
		}
	}
	return nil, nil
}

// unique is a list in order, each entry once.
func unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}
