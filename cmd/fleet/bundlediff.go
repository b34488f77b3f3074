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

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/suggest"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const bundleDiffText = `Shows what differs on clusters from what was deployed there: fields that somebody has changed, objects that are gone.

With --fleet-yaml it prints how that can be ignored, as the part "diff" of fleet.yaml: paste it there, in the place of the one that stands there,
and commit. What the bundle ignores already is part of it. A field in a list is ignored together with the whole list. Objects that are gone are
left out unless --missing; what no comparePatch can ignore is named on stderr.

Exit codes: 0 nothing differs, or with --fleet-yaml all of it can be ignored; 2 there are differences; 6 with --fleet-yaml: a part of it cannot be
ignored.`

var bundleDiffFormats = []string{formatWide, formatJSON, formatYAML}

type bundleDiffOptions struct {
	bundle     string
	deployment string
	cluster    string
	json       bool
	fleetYAML  bool
	missing    bool
	output     output
	bare       bool
}

func newBundleDiffCommand(g *globals, std stdio) *cobra.Command {
	var o bundleDiffOptions
	cmd := &cobra.Command{
		Use: "bundlediff [BUNDLE [CLUSTER]]", Short: "Show what was changed on clusters, or ignore it", Long: bundleDiffText,
		Example:           "  fleet bundlediff\n  fleet bundlediff shop-web c3\n  fleet bundlediff shop-web c3 --fleet-yaml",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: g.completeBundleThenCluster(std),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(args); err != nil {
				return err
			}
			s, err := g.connect(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runBundleDiff(cmd.Context(), o, s)
		},
	}
	fs := cmd.Flags()
	o.output.addFlag(fs, bundleDiffFormats...)
	fs.StringVarP(&o.bundle, "bundle", "b", "", "only this `bundle`")
	fs.StringVar(&o.deployment, "bundle-deployment", "", "only the BundleDeployment of this `name`; -n may be its namespace")
	fs.StringVar(&o.cluster, "cluster", "", "only on this `cluster`")
	fs.BoolVar(&o.json, "json", false, "the same as -o json")
	fs.BoolVar(&o.fleetYAML, "fleet-yaml", false, "print comparePatches that ignore it")
	fs.BoolVar(&o.missing, "missing", false, "with --fleet-yaml: ignore that objects are gone, too")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	return cmd
}

func (o *bundleDiffOptions) complete(args []string) error {
	for i, value := range []*string{&o.bundle, &o.cluster} {
		if i < len(args) {
			if *value != "" && *value != args[i] {
				return fmt.Errorf("%q and %q: want one of them", *value, args[i])
			}
			*value = args[i]
		}
	}
	if o.json {
		o.output = formatJSON
	}
	switch {
	case o.fleetYAML && o.output != "":
		return errors.New("--fleet-yaml goes neither with --json nor with -o")
	case o.fleetYAML && o.bundle == "" && o.deployment == "":
		return errors.New("--fleet-yaml wants a BUNDLE, or --bundle-deployment")
	case o.missing && !o.fleetYAML:
		return errors.New("--missing goes with --fleet-yaml")
	}
	return o.output.check(bundleDiffFormats...)
}

func runBundleDiff(ctx context.Context, o bundleDiffOptions, s *session) error {
	all, err := o.deployments(ctx, s)
	if err != nil {
		return err
	}
	differing := slices.DeleteFunc(slices.Clone(all), func(bd *fleet.BundleDeployment) bool { return len(bd.Status.ModifiedStatus) == 0 })
	slices.SortStableFunc(differing, func(a, b *fleet.BundleDeployment) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(view.ClusterOf(a).String(), view.ClusterOf(b).String()))
	})
	for _, bd := range differing {
		if bd.Status.IncompleteState {
			s.std.note("%s on %s: only the first %d objects that differ are known", bd.Name, view.ClusterOf(bd).Name, fleet.StatusListLimit)
		}
	}
	if o.fleetYAML {
		return o.suggest(ctx, s, differing)
	}
	return o.show(s, len(all), differing)
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
	labels := ""
	if o.bundle != "" {
		labels = fleet.LabelBundleName + "=" + o.bundle
	}
	if o.cluster != "" {
		labels = both(labels, fleet.LabelCluster+"="+o.cluster)
	}
	list, err := listAs[fleet.BundleDeployment](ctx, s, k, labels)
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

// noDeployment is the error where nothing is what was asked for.
func (o bundleDiffOptions) noDeployment(ctx context.Context, s *session, k kind) error {
	list, err := listAs[fleet.BundleDeployment](ctx, s, k, "")
	if err != nil {
		return err
	}
	var names []view.Key
	for _, bd := range list {
		names = append(names, view.Key{Namespace: view.ClusterOf(bd).Namespace, Name: bd.Name})
	}
	slices.SortFunc(names, func(a, b view.Key) int { return strings.Compare(a.String(), b.String()) })
	names = slices.Compact(names)
	name := o.deployment
	if name == "" {
		name = o.bundle
	}
	if name == "" || slices.ContainsFunc(names, func(n view.Key) bool { return n.Name == name }) {
		return fmt.Errorf("no deployment of %s on cluster %q", dash(name), o.cluster)
	}
	return k.unknown(name, s.scope, names)
}

var diffColumns = []column{
	{title: "WORKSPACE"}, {title: "BUNDLE"}, {title: "CLUSTER"}, {title: "OBJECT"}, {title: "FIELD"}, {title: "BY"}, {title: "WANTED"}, {title: "THERE"},
}

// show prints what differs, one line for each field.
func (o bundleDiffOptions) show(s *session, all int, differing []*fleet.BundleDeployment) error {
	if o.output.machine() {
		if err := o.output.print(s.std.out, o.document(s, differing), false); err != nil {
			return err
		}
	} else if len(differing) > 0 {
		o.table(s, differing)
	}
	if len(differing) == 0 {
		s.std.note("nothing differs; looked at: %d", all)
		return nil
	}
	return told{errDifferences}
}

func (o bundleDiffOptions) table(s *session, differing []*fleet.BundleDeployment) {
	var rows [][]string
	spaces, known := map[string]bool{}, false
	for _, bd := range differing {
		at := view.ClusterOf(bd)
		spaces[at.Namespace] = true
		for _, m := range bd.Status.ModifiedStatus {
			known = known || len(m.Changes) > 0
			for _, f := range fieldsOf(m, s.now()) {
				rows = append(rows, append([]string{at.Namespace, bd.Name, at.Name, objectOf(m)}, f...))
			}
		}
	}
	hidden := map[string]bool{
		"WORKSPACE": len(spaces) < 2 && !o.output.wide(), "BY": !known, "WANTED": !known,
	}
	t := &table{out: s.std.out}
	if !o.output.wide() {
		t.width = s.std.width()
	}
	show := t.show(diffColumns, func(c column) bool { return !hidden[c.title] })
	for i := range rows {
		rows[i] = show(rows[i])
	}
	t.print(rows, o.bare)
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

// nothing stands for a field that is missing.
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
	for _, f := range fields {
		live := f.Live
		if live == "null" {
			live = nothing
		}
		out = append(out, []string{f.Pointer, "-", "-", live})
	}
	return out
}

// BundleDiff is what fleet bundlediff prints. Its fields are the reference's.
type BundleDiff struct {
	Document
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
		Document: document("BundleDiff"), BundleName: o.bundle, Namespace: s.scope, BundleDeploymentDiffs: []DeploymentDiff{},
	}
	for _, bd := range differing {
		doc.BundleDeploymentDiffs = append(doc.BundleDeploymentDiffs, DeploymentDiff{
			BundleDeploymentName: bd.Name, BundleName: bd.Labels[fleet.LabelBundleName], Namespace: bd.Namespace,
			Cluster: view.ClusterOf(bd).String(), ModifiedResources: bd.Status.ModifiedStatus, NonReadyResources: bd.Status.NonReadyStatus,
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
		s.std.note("nothing differs: there is nothing to ignore")
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
	if _, err := fmt.Fprint(s.std.out, text); err != nil {
		return err
	}
	for _, wide := range unique(sg.Wide) {
		s.std.note("ignores the whole list, a part of it cannot be named: %s", wide)
	}
	left := unique(sg.Left)
	for _, l := range left {
		s.std.note("cannot be ignored: %s", l)
	}
	if len(left) > 0 {
		return told{errPartly}
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
			s.std.note("bundle %s cannot be read: what it ignores already is not part of this", key)
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
