package rancher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// A bench is one run.
type bench struct {
	settings
	hub *hub
	dir string

	managers []*measure.Manager
	clusters *kube.Cache[*fleet.Cluster] // what there is of Fleet's
}

func (b *bench) start(ctx context.Context, name string) (*measure.Manager, error) {
	m, err := startManager(ctx, b.hub, filepath.Join(b.programs, "fleet-controller"), b.dir, name)
	if err == nil {
		b.managers = append(b.managers, m)
	}
	return m, err
}

// lastWords is the end of the manager's log, as an error.
func (b *bench) lastWords() error {
	if len(b.managers) == 0 {
		return nil
	}
	m := b.managers[len(b.managers)-1]
	return fmt.Errorf("log of manager %q: %s", m.Name, m.LastWords())
}

var errTimeout = errors.New("not in time")

// until waits until f is true.
func (b *bench) until(ctx context.Context, what string, every time.Duration, f func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, errTimeout)
	defer cancel()
	for {
		if ok, err := f(ctx); ok || err != nil {
			return err
		}
		if kube.Sleep(ctx, every) != nil {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// workspacesFirst lets a manager make the namespaces of all workspaces, and ends
// it; then Rancher's clusters are made.
func (b *bench) workspacesFirst(ctx context.Context) error {
	m, err := b.start(ctx, "first")
	if err != nil {
		return err
	}
	began := time.Now()
	err = many(ctx, b.workspaces, func(ctx context.Context, i int) error {
		return b.hub.make(ctx, workspaces, "", workspaceName(i), `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-bench"}}}`)
	})
	if err != nil {
		return err
	}
	err = b.until(ctx, "namespaces are made", 100*time.Millisecond, func(ctx context.Context) (bool, error) {
		list, err := kube.StoreOf[*corev1.Namespace](b.hub.admin).List(ctx, "", "")
		n := 0
		for _, ns := range list {
			if ns.Annotations[plan.AnnotationOrigin] == plan.OriginCreated {
				n++
			}
		}
		return n == b.workspaces, err
	})
	if err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("%d workspaces", b.workspaces))
	measure.Row("what", "")
	measure.Row("---", "---")
	measure.Row("all have their namespace after", measure.Seconds(time.Since(began)))
	if err := b.untilQuiet(ctx, 3*time.Second); err != nil { // the rights follow
		return err
	}
	m.Stop()
	return many(ctx, b.settings.clusters, func(ctx context.Context, i int) error { return b.hub.triple(ctx, i, b.workspaces) })
}

// watch keeps what Fleet has of clusters at hand.
func (b *bench) watch(ctx context.Context) error {
	b.clusters = kube.NewCache[*fleet.Cluster](b.hub.admin, kube.Watch{}, nil)
	go func() { _ = b.clusters.Run(ctx) }() // it ends with ctx
	return b.until(ctx, "clusters are listed", 20*time.Millisecond, func(context.Context) (bool, error) { return b.clusters.HasSynced(), nil })
}

// there waits until so many Clusters are.
func (b *bench) there(ctx context.Context, n int) (time.Time, error) {
	err := b.until(ctx, fmt.Sprintf("%d clusters are mapped", n), 5*time.Millisecond, func(context.Context) (bool, error) {
		return len(b.clusters.List("")) >= n, nil
	})
	return time.Now(), err
}

// A course is what came about when, while all clusters were mapped.
type course struct {
	began, first time.Time // the first manager, and its first cluster
	killed       time.Time
	had          int       // clusters that were mapped by then
	again        time.Time // the other one's first write
	visible      time.Duration
	left         int // clusters that were still to be mapped when the change showed
	whole        time.Time
}

// sync starts two managers and kills the one that leads when a third of the clusters
// is mapped. One label is changed when the other has mapped some more.
func (b *bench) sync(ctx context.Context) (err error) {
	if err := b.watch(ctx); err != nil {
		return err
	}
	all, c := b.settings.clusters, course{began: time.Now()}
	leader, err := b.start(ctx, "leader")
	if err != nil {
		return err
	}
	if c.first, err = b.there(ctx, 1); err != nil {
		return err
	}
	second, err := b.start(ctx, "second")
	if err != nil {
		return err
	}
	stop := measure.Sample(second.PID())
	if _, err := b.there(ctx, all/3); err != nil {
		return err
	}
	leader.Kill()
	c.killed, c.had = time.Now(), len(b.clusters.List(""))
	if c.again, err = b.firstWrite(ctx, second, c.killed); err != nil {
		return err
	}
	if c.visible, c.left, err = b.change(ctx, all*2/3); err != nil {
		return err
	}
	if c.whole, err = b.there(ctx, all); err != nil {
		return err
	}
	if err := b.untilQuiet(ctx, 3*time.Second); err != nil {
		return err
	}
	c.show(all)
	if err := b.showOutcome(c.began); err != nil {
		return err
	}
	return showMemory(second.PID(), stop())
}

func (c course) show(all int) {
	measure.Title(fmt.Sprintf("%d clusters of Rancher's", all))
	measure.Row("what", "")
	measure.Row("---", "---")
	measure.Row("first one mapped after", measure.Seconds(c.first.Sub(c.began)))
	measure.Row("leader killed, with mapped", fmt.Sprint(c.had))
	measure.Row("the other one writes after", measure.Seconds(c.again.Sub(c.killed)))
	measure.Row("one change shows after, with still to be mapped", fmt.Sprintf("%s, %d", measure.Milliseconds(c.visible), c.left))
	measure.Row("all mapped, after the other one's first write", measure.Seconds(c.whole.Sub(c.again)))
}

// firstWrite waits until a manager has written something, and returns when.
func (b *bench) firstWrite(ctx context.Context, m *measure.Manager, since time.Time) (at time.Time, err error) {
	err = b.until(ctx, "the other manager works", 500*time.Millisecond, func(context.Context) (bool, error) {
		list, err := b.writes(since)
		for _, r := range list {
			if r.User == m.User() && at.IsZero() {
				at = r.At
			}
		}
		return !at.IsZero(), err
	})
	return at, err
}

// change changes a label of a cluster that is mapped, when so many are, and
// returns after which time that shows, and how many are not mapped by then.
func (b *bench) change(ctx context.Context, when int) (time.Duration, int, error) {
	if _, err := b.there(ctx, when); err != nil {
		return 0, 0, err
	}
	c := b.clusters.List("")[0]
	var i int
	if _, err := fmt.Sscanf(c.Name, "cluster-%d", &i); err != nil {
		return 0, 0, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	at := time.Now()
	if err := b.hub.label(ctx, i, "changed"); err != nil {
		return 0, 0, err
	}
	err := b.until(ctx, "a change shows", time.Millisecond, func(context.Context) (bool, error) {
		now, ok := b.clusters.Get(kube.KeyOf(c))
		return ok && now.Labels["env"] == "changed", nil
	})
	return time.Since(at), b.settings.clusters - len(b.clusters.List("")), err
}

// showOutcome prints whether anything was lost, made twice or taken away again.
func (b *bench) showOutcome(since time.Time) error {
	origins := map[string]int{}
	for _, c := range b.clusters.List("") {
		origins[c.Annotations[plan.AnnotationMappedFrom]]++
	}
	twice := 0
	for _, n := range origins {
		twice += n - 1
	}
	list, err := b.writes(since)
	if err != nil {
		return err
	}
	made, changed, deleted := 0, 0, 0
	for _, r := range list {
		switch {
		case r.Resource != "clusters":
		case strings.HasPrefix(r.Verb, "delete"):
			deleted++
		case r.Code == 201:
			made++
		default:
			changed++
		}
	}
	measure.Row("clusters lost, mapped twice", fmt.Sprintf("%d, %d", b.settings.clusters-len(origins), twice))
	measure.Row("clusters made, written again, deleted", fmt.Sprintf("%d, %d, %d", made, changed, deleted))
	return nil
}

// writes are the requests by which the managers have changed something, but for
// their leases.
func (b *bench) writes(since time.Time) ([]harness.Request, error) {
	list, err := harness.ReadAudit(b.hub.Name(), b.hub.AuditLog(), since)
	if err != nil {
		return nil, err
	}
	var out []harness.Request
	for _, r := range list {
		if strings.HasPrefix(r.Agent, "fleet-") && r.Writes() && r.Resource != "leases" {
			out = append(out, r)
		}
	}
	return out, nil
}

// untilQuiet waits until the managers have written nothing for a time.
func (b *bench) untilQuiet(ctx context.Context, d time.Duration) error {
	return b.until(ctx, "the managers rest", d/3, func(context.Context) (bool, error) {
		list, err := b.writes(time.Now().Add(-d))
		return len(list) == 0, err
	})
}

func showMemory(pid int, most measure.Most) error {
	now, err := measure.Memory(pid)
	if err != nil {
		return err
	}
	spent, err := measure.CPU(pid)
	if err != nil {
		return err
	}
	measure.Row("memory at most: resident, of that anonymous", measure.MiB(most.Peak)+", "+measure.MiB(most.Anonymous))
	measure.Row("memory afterwards: resident, of that anonymous", measure.MiB(now.All)+", "+measure.MiB(now.Anonymous))
	measure.Row("processor time", measure.Seconds(spent))
	return nil
}

// atRest counts what is written when there is nothing to do.
func (b *bench) atRest(ctx context.Context) error {
	m := b.managers[len(b.managers)-1]
	before, err := measure.CPU(m.PID())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := kube.Sleep(ctx, b.quiet); err != nil {
		return context.Cause(ctx)
	}
	list, err := b.writes(began)
	if err != nil {
		return err
	}
	after, err := measure.CPU(m.PID())
	if err != nil {
		return err
	}
	measure.Title("At rest for " + b.quiet.String())
	measure.Row("what", "")
	measure.Row("---", "---")
	measure.Row("writes but for the lease", fmt.Sprint(len(list)))
	measure.Row("processor time", measure.Seconds(after-before))
	if len(list) > 0 {
		fmt.Println("\n" + harness.Lines(list))
	}
	m.Stop()
	return nil
}
