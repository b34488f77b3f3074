package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// found is what the server has for a fleet get.
type found struct {
	entries []entry
	next    string // token for --continue; empty: there is no more
	before  int    // objects before states were looked at
	all     int    // entries on all pages; -1: not known
	more    int64  // entries on later pages, where all is not known; 0: not known
}

// shown says how many of how many are shown.
func (f found) shown(n int) string {
	switch {
	case f.all >= 0:
		return fmt.Sprintf("%d of %d shown", n, f.all)
	case f.more > 0:
		return fmt.Sprintf("%d shown, %d more", n, f.more)
	}
	return fmt.Sprintf("%d shown, there are more", n)
}

// gather reads what the queries select. If only the server selects, a limit is the size
// of the server's page; otherwise everything is read, and the page is cut from the
// result.
func (o getOptions) gather(ctx context.Context, s *session, qs []query) (found, error) {
	if o.limit > 0 && o.pick.Any() && len(qs) == 1 {
		return o.serverPage(ctx, s, qs[0])
	}
	f := found{all: -1}
	var items []*unstructured.Unstructured
	for _, q := range qs {
		some, err := s.all(ctx, q)
		if err != nil {
			return found{}, err
		}
		items = append(items, some...)
	}
	f.before = len(items)
	around, err := o.around(ctx, s)
	if err != nil {
		return found{}, err
	}
	if f.entries, err = o.entries(ctx, s, items, around); err != nil {
		return found{}, err
	}
	slices.SortStableFunc(f.entries, func(a, b entry) int { return strings.Compare(a.order(), b.order()) })
	return o.cutPage(f)
}

// orderSeparator is between the three parts of the place of an entry.
const orderSeparator = "\x00"

// order is the place of an entry: by workspace and name, then by cluster.
func (e entry) order() string {
	return e.row.workspace + orderSeparator + e.row.name + orderSeparator + e.object.GetLabels()[fleet.LabelCluster]
}

// entries makes rows and drops those that are not picked.
func (o getOptions) entries(ctx context.Context, s *session, items []*unstructured.Unstructured, x around) ([]entry, error) {
	var out []entry
	var err error
	if x.holders, err = o.holders(ctx, s, items); err != nil {
		return nil, err
	}
	for _, u := range items {
		r, err := kindRows[o.kind.plural](u, x)
		if err != nil {
			return nil, err
		}
		if o.pick.Has(r.state) || r.pause != nil && o.pick.HasPaused() {
			out = append(out, entry{u, r.withPause(kindColumns[o.kind.plural], x.now)})
		}
	}
	return out, nil
}

// around reads what rows need besides their objects: after them, so that it shows all
// that they speak of.
func (o getOptions) around(ctx context.Context, s *session) (around, error) {
	x := around{
		now: s.now(), wide: o.output.Wide(), bundles: map[view.Key]ready{}, own: map[view.Key][]*fleet.Bundle{}, held: map[view.Key]string{},
		strays: map[view.Key]map[string]string{},
	}
	if o.kind.plural != "repos" || o.output.Machine() && o.pick.Any() {
		return x, nil
	}
	bundles, err := listAs[fleet.Bundle](ctx, s, mustKind("bundles"), fleet.LabelRepoName)
	for _, b := range bundles {
		key := view.Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelRepoName]}
		n := x.bundles[key]
		n.all++
		if view.BundleState(b) == fleet.Ready {
			n.ready++
		}
		x.bundles[key] = n
		if c := view.HeldChange(b); c != nil && x.held[key] == "" {
			x.held[key] = "bundle " + b.Name + ": " + c.Message
		}
		if b.DeletionTimestamp == nil && view.Untargeted(b.Status.Conditions) {
			if x.strays[key] == nil {
				x.strays[key] = map[string]string{}
			}
			x.strays[key][b.Name] = view.BundleMessage(b)
		}
		b.ManagedFields = nil
		x.own[key] = append(x.own[key], &fleet.Bundle{ObjectMeta: b.ObjectMeta})
	}
	if x.wide {
		x.reported = s.findings(ctx, s.scope)
	}
	return x, err
}

// serverPage is one page as the server cuts it.
func (o getOptions) serverPage(ctx context.Context, s *session, q query) (found, error) {
	list, err := s.api.List(ctx, q, page{limit: o.limit, from: o.from})
	if err != nil {
		return found{}, reached(s.server, err)
	}
	items := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		items[i] = &list.Items[i]
	}
	x, err := o.around(ctx, s)
	if err != nil {
		return found{}, err
	}
	f := found{next: list.GetContinue(), before: len(items), all: -1}
	if n := list.GetRemainingItemCount(); n != nil {
		f.more = *n
		if o.from == "" {
			f.all = len(items) + int(*n)
		}
	}
	f.entries, err = o.entries(ctx, s, items, x)
	return f, err
}

// cutPage cuts a page out of entries in order. Its token names the last entry
// shown.
func (o getOptions) cutPage(f found) (found, error) {
	f.all = len(f.entries)
	if o.from != "" {
		last, err := base64.RawURLEncoding.DecodeString(o.from)
		if err != nil || strings.Count(string(last), orderSeparator) != 2 {
			return found{}, fmt.Errorf("--continue %q: not a token of this listing", o.from)
		}
		at, _ := slices.BinarySearchFunc(f.entries, string(last), func(e entry, t string) int {
			return cmp.Or(strings.Compare(e.order(), t), -1)
		})
		f.entries = f.entries[at:]
	}
	if o.limit > 0 && int64(len(f.entries)) > o.limit {
		f.entries = f.entries[:o.limit]
		f.next = base64.RawURLEncoding.EncodeToString([]byte(f.entries[o.limit-1].order()))
	}
	return f, nil
}

// nothing says on stderr why there is nothing to show.
func (o getOptions) nothing(ctx context.Context, s *session, before int) error {
	text := "no " + o.kind.plural
	switch {
	case before > 0:
		text += " " + o.pick.String()
		text += fmt.Sprintf(" (%d in all)", before)
	case o.selector() != "":
		text += " match " + o.selector()
		bare := o
		bare.labels, bare.bundle, bare.cluster, bare.repo = "", "", "", ""
		qs, err := s.wide(ctx, o.kind, "")
		if err != nil {
			return err
		}
		f, err := bare.gather(ctx, s, qs)
		if err != nil {
			return err
		}
		text += " (" + describe(f.entries, s.scope, o.labels) + ")"
	case s.scope != "":
		text += " in " + s.scope
	}
	s.std.Note("%s", text)
	if before == 0 && o.selector() == "" {
		s.noteNoManager(ctx)
	}
	return nil
}

// unknowns is an error for those of the objects that --repo, --cluster and --bundle name,
// and of more, which are known not to exist.
func (o getOptions) unknowns(ctx context.Context, s *session, more ...objectRef) error {
	flags := []objectRef{{mustKind("repos"), o.repo}, {mustKind("clusters"), o.cluster}, {mustKind("bundles"), o.bundle}}
	return s.notThere(ctx, slices.Concat(flags, more)...)
}

// notThere is an error for those of some objects that are known not to exist, with the
// nearest that do. Objects without a name are passed over, and so are those of kinds
// that the user may not list.
func (s *session) notThere(ctx context.Context, refs ...objectRef) error {
	var missing []error
	for _, ref := range refs {
		if ref.name == "" {
			continue
		}
		items, err := s.everywhereOf(ctx, ref.kind)
		if err != nil {
			continue
		}
		var there []view.Key
		for _, u := range items {
			there = append(there, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
		}
		if !slices.ContainsFunc(there, func(key view.Key) bool { return key.Name == ref.name }) {
			missing = append(missing, s.unknown(ctx, ref.kind, ref.name, there))
		}
	}
	return errors.Join(missing...)
}

// describe says how many objects there are, and which values the labels of a
// selector have.
func describe(entries []entry, scope, selector string) string {
	text := fmt.Sprintf("%d", len(entries))
	if scope != "" {
		text += " in " + scope
	} else if ws := workspacesOf(entries); len(ws) == 1 {
		text += " in " + ws[0]
	} else {
		text += " in all"
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		return text
	}
	requirements, _ := parsed.Requirements()
	var facts []string
	for _, r := range requirements {
		var values []string
		for _, e := range entries {
			if v, ok := e.object.GetLabels()[r.Key()]; ok {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if len(values) == 0 {
			facts = append(facts, "none has "+r.Key())
			continue
		}
		facts = append(facts, r.Key()+" is "+view.List(values, 5))
	}
	if len(facts) > 0 && len(entries) > 0 {
		text += ": " + strings.Join(facts, "; ")
	}
	return text
}

func workspacesOf(entries []entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.row.workspace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
