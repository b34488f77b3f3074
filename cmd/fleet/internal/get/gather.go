package get

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// listResult is what the server has for a fleet get.
type listResult struct {
	entries []tableEntry
	next    string // token for --continue; empty: there is no more
	before  int    // objects before states were looked at
	all     int    // entries on all pages; -1: not known
	more    int64  // entries on later pages, where all is not known; 0: not known
}

// shownText says how many of how many are shown.
func (l listResult) shownText(n int) string {
	switch {
	case l.all >= 0:
		return fmt.Sprintf("%d of %d shown", n, l.all)
	case l.more > 0:
		return fmt.Sprintf("%d shown, %d more", n, l.more)
	}
	return fmt.Sprintf("%d shown, there are more", n)
}

// gather reads what the queries select. If only the server selects, a limit is the size
// of the server's page; otherwise everything is read, and the page is cut from the
// result.
func (o Options) gather(ctx context.Context, s *client.Session, qs []client.Query) (listResult, error) {
	if o.limit > 0 && o.pick.Any() && len(qs) == 1 {
		return o.serverPage(ctx, s, qs[0])
	}
	f := listResult{all: -1}
	var items []*unstructured.Unstructured
	for _, q := range qs {
		some, err := s.ListAll(ctx, q)
		if err != nil {
			return listResult{}, err
		}
		items = append(items, some...)
	}
	f.before = len(items)
	around, err := o.readRowContext(ctx, s)
	if err != nil {
		return listResult{}, err
	}
	if f.entries, err = o.entries(ctx, s, items, around); err != nil {
		return listResult{}, err
	}
	slices.SortStableFunc(f.entries, func(a, b tableEntry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return o.cutPage(f)
}

// orderSeparator is between the three parts of the place of an entry.
const orderSeparator = "\x00"

// sortKey is the place of an entry: by workspace and name, then by cluster.
func (e tableEntry) sortKey() string {
	return e.row.workspace + orderSeparator + e.row.name + orderSeparator + e.object.GetLabels()[fleet.LabelCluster]
}

// entries makes rows and drops those that are not picked.
func (o Options) entries(ctx context.Context, s *client.Session, items []*unstructured.Unstructured, x rowContext) ([]tableEntry, error) {
	var out []tableEntry
	var err error
	if x.holders, err = o.readHolders(ctx, s, items); err != nil {
		return nil, err
	}
	for _, u := range items {
		r, err := kindRows[o.kind.Plural](u, x)
		if err != nil {
			return nil, err
		}
		if o.pick.Has(r.state) || r.pause != nil && o.pick.HasPaused() {
			out = append(out, tableEntry{u, r.withPause(kindColumns[o.kind.Plural], x.now)})
		}
	}
	return out, nil
}

// readRowContext reads what rows need besides their objects: after them, so that it shows all
// that they speak of.
func (o Options) readRowContext(ctx context.Context, s *client.Session) (rowContext, error) {
	x := rowContext{
		now: s.Now(), wide: o.Output.IsWide(), bundles: map[view.Key]printer.Ready{}, bundlesByRepo: map[view.Key][]*fleet.Bundle{}, holdReasons: map[view.Key]string{},
		strays: map[view.Key]map[string]string{}, uncommitted: map[view.Key]string{},
	}
	if o.kind.Plural == "imagescans" && !o.Output.IsMachineReadable() {
		repos, err := client.ListAs[fleet.GitRepo](ctx, s, cli.MustKind("repos"), "")
		for _, r := range repos {
			x.uncommitted[view.Key{Namespace: r.Namespace, Name: r.Name}] = view.Uncommitted(r)
		}
		return x, err
	}
	if o.kind.Plural != "repos" || o.Output.IsMachineReadable() && o.pick.Any() {
		return x, nil
	}
	bundles, err := client.ListAs[fleet.Bundle](ctx, s, cli.MustKind("bundles"), fleet.LabelRepoName)
	for _, b := range bundles {
		key := view.Key{Namespace: b.Namespace, Name: b.Labels[fleet.LabelRepoName]}
		n := x.bundles[key]
		n.All++
		if view.BundleState(b) == fleet.Ready {
			n.Ready++
		}
		x.bundles[key] = n
		if c := view.HeldChange(b); c != nil && x.holdReasons[key] == "" {
			x.holdReasons[key] = "bundle " + b.Name + ": " + c.Message
		}
		if b.DeletionTimestamp == nil && view.Untargeted(b.Status.Conditions) {
			if x.strays[key] == nil {
				x.strays[key] = map[string]string{}
			}
			x.strays[key][b.Name] = view.BundleMessage(b)
		}
		b.ManagedFields = nil
		x.bundlesByRepo[key] = append(x.bundlesByRepo[key], &fleet.Bundle{ObjectMeta: b.ObjectMeta})
	}
	if x.wide {
		x.reported = s.Findings(ctx, s.Scope)
	}
	return x, err
}

// serverPage is one page as the server cuts it.
func (o Options) serverPage(ctx context.Context, s *client.Session, q client.Query) (listResult, error) {
	list, err := s.API.List(ctx, q, client.Page{Limit: o.limit, From: o.from})
	if err != nil {
		return listResult{}, client.DescribeServerError(s.Server, err)
	}
	items := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		items[i] = &list.Items[i]
	}
	x, err := o.readRowContext(ctx, s)
	if err != nil {
		return listResult{}, err
	}
	f := listResult{next: list.GetContinue(), before: len(items), all: -1}
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
func (o Options) cutPage(f listResult) (listResult, error) {
	f.all = len(f.entries)
	if o.from != "" {
		last, err := base64.RawURLEncoding.DecodeString(o.from)
		if err != nil || strings.Count(string(last), orderSeparator) != 2 {
			return listResult{}, fmt.Errorf("--continue %q: not a token of this listing", o.from)
		}
		at, _ := slices.BinarySearchFunc(f.entries, string(last), func(e tableEntry, t string) int {
			return cmp.Or(strings.Compare(e.sortKey(), t), -1)
		})
		f.entries = f.entries[at:]
	}
	if o.limit > 0 && int64(len(f.entries)) > o.limit {
		f.entries = f.entries[:o.limit]
		f.next = base64.RawURLEncoding.EncodeToString([]byte(f.entries[o.limit-1].sortKey()))
	}
	return f, nil
}

// explainEmpty says on stderr why there is nothing to show.
func (o Options) explainEmpty(ctx context.Context, s *client.Session, before int) error {
	text := "no " + o.kind.Plural
	switch {
	case before > 0:
		text += " " + o.pick.String()
		text += fmt.Sprintf(" (%d in all)", before)
	case o.selector() != "":
		text += " match " + o.selector()
		bare := o
		bare.Labels, bare.bundle, bare.cluster, bare.repo = "", "", "", ""
		qs, err := s.QueriesFor(ctx, o.kind, "")
		if err != nil {
			return err
		}
		f, err := bare.gather(ctx, s, qs)
		if err != nil {
			return err
		}
		text += " (" + describe(f.entries, s.Scope, o.Labels) + ")"
	case s.Scope != "":
		text += " in " + s.Scope
	}
	s.Std.Note("%s", text)
	if before == 0 && o.selector() == "" {
		s.NoteNoManager(ctx)
	}
	return nil
}

// unknownNamesError is an error for those of the objects that --repo, --cluster and --bundle name,
// and of more, which are known not to exist.
func (o Options) unknownNamesError(ctx context.Context, s *client.Session, more ...cli.ObjectRef) error {
	flags := []cli.ObjectRef{{Kind: cli.MustKind("repos"), Name: o.repo}, {Kind: cli.MustKind("clusters"), Name: o.cluster}, {Kind: cli.MustKind("bundles"), Name: o.bundle}}
	return s.NotThere(ctx, slices.Concat(flags, more)...)
}

// describe says how many objects there are, and which values the labels of a
// selector have.
func describe(entries []tableEntry, scope, selector string) string {
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

func workspacesOf(entries []tableEntry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.row.workspace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
