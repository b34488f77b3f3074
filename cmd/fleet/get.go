package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var getFormats = []string{printer.FormatWide, printer.FormatName, printer.FormatJSON, printer.FormatYAML}

const getText = `Shows objects of Fleet, sorted by workspace and name.

KIND is one of repos, bundles, clusters, groups, deployments and tokens, or what kubectl calls them. -o json and -o yaml print the
Kubernetes objects as they are, as kubectl does.`

// getOptions are the options of fleet get.
type getOptions struct {
	kind     kind
	names    []string
	output   printer.Output
	labels   string
	states   []string
	notReady bool
	bundle   string
	cluster  string
	repo     string
	sortBy   string
	limit    int64
	from     string
	watch    bool
	bare     bool // no titles
	all      bool // -A

	pick view.Selection // of states and notReady
}

func newGetCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use: "get KIND [NAME...]", Short: "Show objects of Fleet", Long: getText,
		Args:              wantKind,
		ValidArgsFunction: g.completeGet(std),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(args, g); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			if o.watch {
				return watchGet(cmd.Context(), o, s)
			}
			return runGet(cmd.Context(), o, s)
		},
	}
	o.addFlags(cmd)
	g.completeObjectFlags(cmd, std)
	register(cmd, "state", completeStates)
	return cmd
}

// wantKind refuses a get without a kind.
func wantKind(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a KIND: %s", strings.Join(kindNames(), ", "))
	}
	return nil
}

func (o *getOptions) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.output.AddFlag(fs, getFormats...)
	fs.StringVarP(&o.labels, "selector", "l", "", "only objects with labels that match `SELECTOR`")
	fs.BoolVarP(&o.all, "all-namespaces", "A", false, "all workspaces, with a column for them")
	fs.BoolVarP(&o.watch, "watch", "w", false, "then show every change")
	fs.BoolVar(&o.bare, "no-headers", false, "no titles")
	fs.StringVar(&o.sortBy, "sort-by", "", "sort by a `jsonpath` into the objects")
	fs.StringSliceVar(&o.states, "state", nil, "only those in one of these `STATES`: A,B")
	fs.BoolVar(&o.notReady, "not-ready", false, "only those that are not Ready")
	nameVar(fs, &o.bundle, "bundles", "bundle", "", "only deployments of this `bundle`")
	nameVar(fs, &o.cluster, "clusters", "cluster", "", "only deployments on this `cluster`")
	nameVar(fs, &o.repo, "repos", "repo", "", "only bundles or deployments of this `repo`")
	fs.Int64Var(&o.limit, "limit", 0, "at most `N` of them, with a hint how to go on")
	fs.StringVar(&o.from, "continue", "", "go on where --limit ended: the `token` it gave")
}

// parse reads the arguments and refuses what does not go together.
func (o *getOptions) parse(args []string, g *globals) (err error) {
	if err := o.parseNames(args); err != nil {
		return err
	}
	if err := o.output.Check(getFormats...); err != nil {
		return err
	}
	if o.pick.States, err = view.ParseStates(o.states); err != nil {
		return err
	}
	if err := checkSelector(o.labels); err != nil {
		return err
	}
	o.pick.NotReady = o.notReady
	if o.all {
		g.namespace = ""
	}
	if o.kind.plural == "tokens" && !o.pick.Any() {
		return errors.New("tokens have no state")
	}
	for _, f := range []struct {
		flag, value string
		kinds       []string
	}{
		{"--bundle", o.bundle, []string{"deployments"}},
		{"--cluster", o.cluster, []string{"deployments"}},
		{"--repo", o.repo, []string{"bundles", "deployments"}},
	} {
		if f.value != "" && !slices.Contains(f.kinds, o.kind.plural) {
			return fmt.Errorf("%s goes with %s", f.flag, strings.Join(f.kinds, " and "))
		}
	}
	if (o.limit != 0 || o.from != "") && (o.watch || len(o.names) > 0) {
		return errors.New("--limit and --continue go neither with names nor with --watch")
	}
	if o.limit < 0 {
		return errors.New("--limit must not be below 0")
	}
	return nil
}

// parseNames reads KIND NAME..., or KIND/NAME... of one kind.
func (o *getOptions) parseNames(args []string) (err error) {
	if !strings.Contains(args[0], "/") {
		if o.kind, err = kindOf(args[0]); err != nil {
			first := grammarOf(kindNames()...).kindFirst(args)
			return fmt.Errorf("%w%s", err, first)
		}
		for _, name := range args[1:] {
			if word, bare, slashed := strings.Cut(name, "/"); slashed && o.kind.is(word) {
				name = bare
			}
			o.names = append(o.names, name)
		}
		return err
	}
	refs, err := grammarOf(kindNames()...).objects(args)
	if err != nil {
		return err
	}
	o.kind = refs[0].kind
	for _, r := range refs {
		if r.kind.Kind != o.kind.Kind {
			return fmt.Errorf("%q and %q: want objects of one kind", refs[0], r)
		}
		o.names = append(o.names, r.name)
	}
	return nil
}

// selector is the label selector that the server is given.
func (o getOptions) selector() string {
	labels := o.labels
	for _, l := range [][2]string{
		{fleet.LabelBundleName, o.bundle}, {fleet.LabelCluster, o.cluster}, {fleet.LabelRepoName, o.repo},
	} {
		if l[1] != "" {
			labels = both(labels, l[0]+"="+l[1])
		}
	}
	return labels
}

// entry is one object and its row.
type entry struct {
	object *unstructured.Unstructured
	row    row
}

// runGet prints what o asks for, once.
func runGet(ctx context.Context, o getOptions, s *session) error {
	qs, err := s.wide(ctx, o.kind, o.selector())
	if err != nil {
		return err
	}
	found, err := o.gather(ctx, s, qs)
	if err != nil {
		return err
	}
	if found.before == 0 {
		if err := o.unknowns(ctx, s); err != nil {
			return err
		}
	}
	entries, missing, err := o.choose(ctx, found.entries, s)
	if err != nil {
		return err
	}
	if err := o.printAll(entries, s); err != nil {
		return err
	}
	if err := missing; err != nil {
		return err
	}
	if len(entries) == 0 {
		return o.nothing(ctx, s, found.before)
	}
	s.noteStray(ctx, o.stray(entries))
	if found.next != "" {
		s.std.Note("%s; next page: --continue %s", found.shown(len(entries)), found.next)
	}
	return nil
}

// choose applies names and order. missing is an error about names that are not
// there.
func (o getOptions) choose(ctx context.Context, all []entry, s *session) (chosen []entry, missing, err error) {
	chosen = all
	if len(o.names) > 0 {
		chosen, missing = o.named(ctx, all, s)
	}
	if o.sortBy != "" {
		err = sortByPath(chosen, o.sortBy)
	}
	return chosen, missing, err
}

// named picks the objects with the given names, in the order of the names.
func (o getOptions) named(ctx context.Context, all []entry, s *session) ([]entry, error) {
	var out []entry
	var missing []error
	for _, name := range o.names {
		before := len(out)
		for _, e := range all {
			if e.object.GetName() == name || e.row.workspace+"/"+e.object.GetName() == name {
				out = append(out, e)
			}
		}
		if len(out) == before {
			missing = append(missing, s.unknown(ctx, o.kind, name, keysOf(all)))
		}
	}
	return out, errors.Join(missing...)
}

func keysOf(all []entry) []view.Key {
	var keys []view.Key
	for _, e := range all {
		keys = append(keys, view.Key{Namespace: e.row.workspace, Name: e.object.GetName()})
	}
	return keys
}

// unknown is the error for a name that is not there, with the nearest that is, or those
// that are.
func (k kind) unknown(name, scope string, known []view.Key) error {
	var workspaces, names []string
	for _, key := range known {
		workspaces = append(workspaces, key.Namespace)
		names = append(names, key.Name)
	}
	slices.Sort(workspaces)
	workspaces = slices.Compact(workspaces)
	where := ""
	switch {
	case scope != "":
		where = " in " + scope
	case len(workspaces) > 3:
		where = fmt.Sprintf(" in %d workspaces", len(workspaces))
	case len(workspaces) > 0:
		where = " in " + strings.Join(workspaces, " or ")
	}
	text := fmt.Sprintf("no %s %q%s", k.singular, name, where)
	if len(known) == 0 {
		return fmt.Errorf("%s; there are none", text)
	}
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Errorf("%s; did you mean %q?", text, near)
	}
	slices.Sort(names)
	return fmt.Errorf("%s; there are: %s", text, view.List(slices.Compact(names), maxNames))
}

// unknown is the error for an object that a command was asked about and that is not
// there: with -n, it names another workspace that has it. known are those that are there.
func (s *session) unknown(ctx context.Context, k kind, name string, known []view.Key) error {
	if s.scope != "" {
		return s.absent(ctx, k, name)
	}
	return k.unknown(name, s.scope, known)
}
