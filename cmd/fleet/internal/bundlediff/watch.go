package bundlediff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// diffWatch prints what differs as it changes.
type diffWatch struct {
	o     Options
	s     *client.Session
	table *printer.Table
	show  func([]string) []string
	shown map[string]string // the differences of a deployment, as printed
}

// Watch prints what differs, and then each deployment on which something
// else differs than before, until ctx ends.
func Watch(ctx context.Context, o Options, s *client.Session) error {
	there, err := o.deployments(ctx, s)
	if err != nil {
		return err
	}
	qs, err := o.watchQueries(ctx, s, there)
	if err != nil {
		return err
	}
	if _, err := noteAway(ctx, s, there); err != nil {
		return err
	}
	w := diffWatch{o: o, s: s, shown: map[string]string{}}
	w.table, w.show = o.newTable(s, nil)
	return s.FollowAll(ctx, qs, w.printChanges)
}

// watchQueries select the deployments that are asked for. there are those of them that
// there are already.
func (o Options) watchQueries(ctx context.Context, s *client.Session, there []*fleet.BundleDeployment) ([]client.Query, error) {
	k := cli.MustKind("deployments")
	if o.Deployment == "" {
		return s.QueriesFor(ctx, k, o.labels())
	}
	var qs []client.Query
	for _, bd := range there {
		qs = append(qs, client.Query{Resource: k.Resource(), Namespace: bd.Namespace, Fields: client.NameField(bd.Name)})
	}
	return qs, nil
}

// printChanges prints what is new in deployments that changed together.
func (w *diffWatch) printChanges(batch []client.Change) error {
	var differing, alike []*fleet.BundleDeployment
	for _, c := range batch {
		key := client.KeyText(c.Object)
		if c.Kind == watch.Deleted {
			delete(w.shown, key)
			continue
		}
		bd, err := client.Convert[fleet.BundleDeployment](c.Object)
		if err != nil {
			return err
		}
		data, err := json.Marshal(bd.Status.ModifiedStatus)
		if err != nil {
			return fmt.Errorf("compare differences: %w", err)
		}
		old, known := w.shown[key]
		switch {
		case len(bd.Status.ModifiedStatus) == 0 && known:
			delete(w.shown, key)
			alike = append(alike, bd)
		case len(bd.Status.ModifiedStatus) > 0 && old != string(data):
			w.shown[key] = string(data)
			differing = append(differing, bd)
		}
	}
	return w.printBatch(differing, alike)
}

// printBatch prints deployments with differences, and those that have none any more.
func (w *diffWatch) printBatch(differing, alike []*fleet.BundleDeployment) error {
	sortDeployments(differing)
	sortDeployments(alike)
	if w.o.Output.IsMachineReadable() {
		if len(differing)+len(alike) == 0 {
			return nil
		}
		return w.o.Output.Print(w.s.Std, w.o.document(w.s, slices.Concat(differing, alike)), true)
	}
	if len(differing) > 0 {
		w.table.Print(diffRows(differing, w.s.Now(), w.show), w.o.Bare)
		w.o.Bare = true
	}
	for _, bd := range alike {
		w.s.Std.Note("nothing differs any more: %s on %s", bd.Name, view.ClusterOf(bd))
	}
	return nil
}

// sortDeployments sorts by bundle and cluster.
func sortDeployments(list []*fleet.BundleDeployment) {
	slices.SortStableFunc(list, func(a, b *fleet.BundleDeployment) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(view.ClusterOf(a).String(), view.ClusterOf(b).String()))
	})
}
