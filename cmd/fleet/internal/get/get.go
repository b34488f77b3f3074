package get

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatWide, printer.FormatName, printer.FormatJSON, printer.FormatYAML}

// Options are the options of fleet get.
type Options struct {
	kind      cli.Kind
	names     []string
	Output    printer.Output
	Labels    string
	States    []string
	NotReady  bool
	bundle    string
	cluster   string
	repo      string
	sortBy    string
	limit     int64
	from      string
	Watch     bool
	noHeaders bool // no titles
	All       bool // -A

	pick view.Selection // of states and notReady
}

// WantKind refuses a get without a kind.
func WantKind(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want a KIND: %s", strings.Join(cli.KindNames(), ", "))
	}
	return nil
}

// AddFlags adds the flags of the command.
func (o *Options) AddFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	o.Output.AddFlag(fs, Formats...)
	fs.StringVarP(&o.Labels, "selector", "l", "", "only objects with labels that match `SELECTOR`")
	fs.BoolVarP(&o.All, "all-namespaces", "A", false, "all workspaces, with a column for them")
	fs.BoolVarP(&o.Watch, "watch", "w", false, "then show every change")
	fs.BoolVar(&o.noHeaders, "no-headers", false, "no titles")
	fs.StringVar(&o.sortBy, "sort-by", "", "sort by a `jsonpath` into the objects")
	fs.StringSliceVar(&o.States, "state", nil, "only those in one of these `STATES`: A,B")
	fs.BoolVar(&o.NotReady, "not-ready", false, "only those that are not Ready")
	cli.NameVar(fs, &o.bundle, "bundles", "bundle", "", "only deployments of this `bundle`")
	cli.NameVar(fs, &o.cluster, "clusters", "cluster", "", "only deployments on this `cluster`")
	cli.NameVar(fs, &o.repo, "repos", "repo", "", "only bundles or deployments of this `repo`")
	fs.Int64Var(&o.limit, "limit", 0, "at most `N` of them, with a hint how to go on")
	fs.StringVar(&o.from, "continue", "", "go on where --limit ended: the `token` it gave")
}

// Parse reads the arguments and refuses what does not go together.
func (o *Options) Parse(args []string, g *client.Globals) (err error) {
	if err := o.parseNames(args); err != nil {
		return err
	}
	if err := o.Output.Check(Formats...); err != nil {
		return err
	}
	if o.pick.States, err = view.ParseStates(o.States); err != nil {
		return err
	}
	if err := cli.CheckSelector(o.Labels); err != nil {
		return err
	}
	o.pick.NotReady = o.NotReady
	if o.All {
		g.Namespace = ""
	}
	if o.kind.Plural == "tokens" && !o.pick.Any() {
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
		if f.value != "" && !slices.Contains(f.kinds, o.kind.Plural) {
			return fmt.Errorf("%s goes with %s", f.flag, strings.Join(f.kinds, " and "))
		}
	}
	if (o.limit != 0 || o.from != "") && (o.Watch || len(o.names) > 0) {
		return errors.New("--limit and --continue go neither with names nor with --watch")
	}
	if o.limit < 0 {
		return errors.New("--limit must not be below 0")
	}
	return nil
}

// parseNames reads KIND NAME..., or KIND/NAME... of one kind.
func (o *Options) parseNames(args []string) (err error) {
	if !strings.Contains(args[0], "/") {
		if o.kind, err = cli.KindOf(args[0]); err != nil {
			first := cli.GrammarOf(cli.KindNames()...).KindFirst(args)
			return fmt.Errorf("%w%s", err, first)
		}
		for _, name := range args[1:] {
			if word, bare, slashed := strings.Cut(name, "/"); slashed && o.kind.Matches(word) {
				name = bare
			}
			o.names = append(o.names, name)
		}
		return err
	}
	refs, err := cli.GrammarOf(cli.KindNames()...).ParseObjects(args)
	if err != nil {
		return err
	}
	o.kind = refs[0].Kind
	for _, r := range refs {
		if r.Kind.Kind != o.kind.Kind {
			return fmt.Errorf("%q and %q: want objects of one kind", refs[0], r)
		}
		o.names = append(o.names, r.Name)
	}
	return nil
}

// selector is the label selector that the server is given.
func (o Options) selector() string {
	labels := o.Labels
	for _, l := range [][2]string{
		{fleet.LabelBundleName, o.bundle}, {fleet.LabelCluster, o.cluster}, {fleet.LabelRepoName, o.repo},
	} {
		if l[1] != "" {
			labels = client.JoinSelectors(labels, l[0]+"="+l[1])
		}
	}
	return labels
}

// tableEntry is one object and its row.
type tableEntry struct {
	object *unstructured.Unstructured
	row    row
}

// Run prints what o asks for, once.
func Run(ctx context.Context, o Options, s *client.Session) error {
	qs, err := s.QueriesFor(ctx, o.kind, o.selector())
	if err != nil {
		return err
	}
	found, err := o.gather(ctx, s, qs)
	if err != nil {
		return err
	}
	if found.before == 0 {
		if err := o.unknownNamesError(ctx, s); err != nil {
			return err
		}
	}
	entries, missing, err := o.selectEntries(ctx, found.entries, s)
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
		return o.explainEmpty(ctx, s, found.before)
	}
	s.NoteStray(ctx, o.strayNamespaces(entries))
	if found.next != "" {
		s.Std.Note("%s; next page: --continue %s", found.shownText(len(entries)), found.next)
	}
	return nil
}

// selectEntries applies names and order. missing is an error about names that are not
// there.
func (o Options) selectEntries(ctx context.Context, all []tableEntry, s *client.Session) (chosen []tableEntry, missing, err error) {
	chosen = all
	if len(o.names) > 0 {
		chosen, missing = o.selectNamed(ctx, all, s)
	}
	if o.sortBy != "" {
		err = sortByPath(chosen, o.sortBy)
	}
	return chosen, missing, err
}

// selectNamed picks the objects with the given names, in the order of the names.
func (o Options) selectNamed(ctx context.Context, all []tableEntry, s *client.Session) ([]tableEntry, error) {
	var out []tableEntry
	var missing []error
	for _, name := range o.names {
		before := len(out)
		for _, e := range all {
			if e.object.GetName() == name || e.row.workspace+"/"+e.object.GetName() == name {
				out = append(out, e)
			}
		}
		if len(out) == before {
			missing = append(missing, s.Unknown(ctx, o.kind, name, keysOf(all)))
		}
	}
	return out, errors.Join(missing...)
}

func keysOf(all []tableEntry) []view.Key {
	var keys []view.Key
	for _, e := range all {
		keys = append(keys, view.Key{Namespace: e.row.workspace, Name: e.object.GetName()})
	}
	return keys
}
