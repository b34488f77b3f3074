package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// A phase is one thing that happens to a fleet.
type phase struct {
	name string
	do   func(*bench, context.Context) (note string, took time.Duration, err error)
}

func phases() []phase {
	return []phase{
		{name: "install", do: (*bench).install},
		{name: "update", do: (*bench).update},
		{name: "relabel", do: (*bench).relabel},
		{name: "fail", do: (*bench).failures},
		{name: "quiet", do: (*bench).watchQuiet},
		{name: "restart", do: (*bench).restart},
		{name: "delete", do: (*bench).remove},
	}
}

// A figure is what was measured of a phase.
type figure struct {
	phase    string
	took     time.Duration
	cpu      time.Duration
	memory   measure.Footprint
	stored   int64 // growth of etcd's file
	requests map[string]int
	note     string
}

// phase does one phase and notes what the manager needed for it. The time is
// that of the phase itself, all else until it has come to rest.
func (b *bench) phase(ctx context.Context, p phase) error {
	begin, pid := time.Now(), b.manager.pid()
	runtime.GC() // of this process, which shares the machine
	before, err := measure.CPU(pid)
	if err != nil {
		return err
	}
	if err := measure.ResetPeak(pid); err != nil {
		return err
	}
	stored, err := b.hub.stored(ctx)
	if err != nil {
		return err
	}
	f := figure{phase: p.name}
	if f.note, f.took, err = p.do(b, ctx); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	if b.manager.pid() != pid {
		before = 0 // another process: all that it has needed is this phase's
	}
	after, err := measure.CPU(b.manager.pid())
	if err != nil {
		return err
	}
	f.cpu = after - before
	if f.memory, err = measure.Memory(b.manager.pid()); err != nil {
		return err
	}
	now, err := b.hub.stored(ctx)
	if err != nil {
		return err
	}
	f.stored = now - stored
	if f.requests, err = b.requests(begin); err != nil {
		return err
	}
	b.print(f)
	return nil
}

// settled is for how long the manager must have needed next to nothing, so
// that the status that follows a phase counts as part of it.
const settled = 1500 * time.Millisecond

// settle waits until the manager has come to rest, or for at most 10 seconds.
func (b *bench) settle(ctx context.Context) error {
	for range 6 {
		before, err := measure.CPU(b.manager.pid())
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settled):
		}
		after, err := measure.CPU(b.manager.pid())
		if err != nil {
			return err
		}
		if after-before <= 30*time.Millisecond {
			return nil
		}
	}
	return nil
}

// requests counts what the manager has asked the API server since a moment, by
// verb and resource.
func (b *bench) requests(since time.Time) (map[string]int, error) {
	list, err := harness.ReadAudit("hub", b.hub.AuditLog(), since)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, r := range list {
		if r.User == "system:serviceaccount:"+fleet.NamespaceSystem+":"+accountName && r.Resource != "leases" {
			out[r.Verb+" "+r.What()]++
		}
	}
	return out, nil
}

func bundleName(i int) string { return fmt.Sprintf("bundle-%d", i) }

// bundle is the i-th Bundle of the scenario.
func (b *bench) bundle(i int, version string) *fleet.Bundle {
	out := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: bundleName(i)}}
	out.Spec.DefaultNamespace = "default"
	out.Spec.Resources = sizedResources(b.objects, fmt.Sprintf("%s of %d", version, i))
	if b.limit {
		tenth := intstr.FromString("10%")
		out.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &tenth}
	}
	all := fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
	if b.values {
		half := fleet.BundleTarget{Name: "half", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelHalf: "true"}}}
		half.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"cluster": "${ .ClusterName }", "version": version}}}
		out.Spec.Targets = append(out.Spec.Targets, half)
	}
	out.Spec.Targets = append(out.Spec.Targets, all)
	return out
}

// putValues moves the values of a Bundle to its values Secret, as a client that
// makes Bundles does.
func (b *bench) putValues(ctx context.Context, out *fleet.Bundle) error {
	data, err := options.BundleValuesSecretData(out.Spec)
	if err != nil || len(data) == 0 {
		return err
	}
	out.Spec.ValuesHash = options.BundleValuesHash(data)
	options.StripBundleValues(&out.Spec)
	secrets := kube.StoreOf[*corev1.Secret](b.hub.admin)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: out.Namespace, Name: out.Name, Labels: map[string]string{fleet.LabelManaged: "true"}},
		Type:       fleet.SecretTypeBundleValues, Data: data,
	}
	if _, err = secrets.Create(ctx, want); kube.IsExists(err) {
		_, err = secrets.Update(ctx, want)
	}
	return err
}

// put writes a Bundle, the values first.
func (b *bench) put(ctx context.Context, store *kube.Store[*fleet.Bundle], want *fleet.Bundle) error {
	if err := b.putValues(ctx, want); err != nil {
		return err
	}
	if _, err := store.Create(ctx, want); !kube.IsExists(err) {
		return err
	}
	body, err := json.Marshal(map[string]any{"spec": want.Spec})
	if err != nil {
		return fmt.Errorf("write Bundle: %w", err)
	}
	_, err = store.PatchRaw(ctx, kube.KeyOf(want), mergePatch, body)
	return err
}

var errLate = errors.New("the manager has not finished")

// publish writes all Bundles and returns when every cluster has the version and
// the manager has said so.
func (b *bench) publish(ctx context.Context, version string, failed int) (time.Duration, error) {
	before := b.agents.ids()
	store := kube.StoreOf[*fleet.Bundle](b.hub.admin)
	begin := time.Now()
	for i := range b.bundles {
		if err := b.put(ctx, store, b.bundle(i, version)); err != nil {
			return 0, err
		}
	}
	err := wait(ctx, b.timeout, func() (string, error) {
		if err := errors.Join(b.agents.failure(), b.manager.alive()); err != nil {
			return "", err
		}
		if n := b.agents.renewed(before); n < b.pairs() {
			return fmt.Sprintf("%d of %d pairs have the new version", n, b.pairs()), nil
		}
		return "", nil
	})
	if err != nil {
		return 0, err
	}
	err = wait(ctx, b.timeout, func() (string, error) {
		list, err := store.List(ctx, workspace, "")
		if err != nil {
			return "", err
		}
		for _, bundle := range list {
			s := bundle.Status.Summary
			if bundle.Name != probeName && (s.DesiredReady != b.clusters || s.Ready != b.clusters-failed || bundle.Status.ObservedGeneration != bundle.Generation) {
				return fmt.Sprintf("%s: %d of %d Ready: %v", bundle.Name, s.Ready, s.DesiredReady, errLate), nil
			}
		}
		return "", b.manager.alive()
	})
	return time.Since(begin), err
}

func (b *bench) install(ctx context.Context) (string, time.Duration, error) {
	took, err := b.publish(ctx, "one", 0)
	return "", took, err
}

func (b *bench) update(ctx context.Context) (string, time.Duration, error) {
	took, err := b.publish(ctx, "two", 0)
	return "", took, err
}

// failures makes an update that 5 % of the clusters fail.
func (b *bench) failures(ctx context.Context) (string, time.Duration, error) {
	b.agents.failing.Store(true)
	failed := 0
	for n := range b.clusters {
		if fails(n) {
			failed++
		}
	}
	took, err := b.publish(ctx, "three", failed)
	return fmt.Sprintf("%d clusters fail", failed), took, err
}

// watchQuiet lets time pass.
func (b *bench) watchQuiet(ctx context.Context) (string, time.Duration, error) {
	select {
	case <-ctx.Done():
		return "", 0, ctx.Err()
	case <-time.After(b.quiet):
		return "5 % fail", b.quiet, b.manager.alive()
	}
}

// probeName is the Bundle that goes where a label is.
const probeName = "probe"

// labelProbe is that label.
const labelProbe = "probe"

// relabels is how many clusters are relabelled, one after another.
const relabels = 10

// relabel measures from a label to the deployment that follows from it.
func (b *bench) relabel(ctx context.Context) (string, time.Duration, error) {
	probe := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: probeName}}
	probe.Spec.Resources = sizedResources(1, "probe")
	probe.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelProbe: "true"}}}}
	if _, err := kube.StoreOf[*fleet.Bundle](b.hub.admin).Create(ctx, probe); err != nil {
		return "", 0, err
	}
	if err := b.settle(ctx); err != nil {
		return "", 0, err
	}
	var times []time.Duration
	before, err := measure.CPU(b.manager.pid())
	if err != nil {
		return "", 0, err
	}
	for i := range min(relabels, b.clusters) {
		took, err := b.label(ctx, i*(b.clusters/min(relabels, b.clusters)))
		if err != nil {
			return "", 0, err
		}
		times = append(times, took)
	}
	after, err := measure.CPU(b.manager.pid())
	if err != nil {
		return "", 0, err
	}
	return fmt.Sprintf("median of %d, slowest %s; CPU %s each", len(times), measure.Milliseconds(slices.Max(times)),
		measure.Milliseconds((after-before)/time.Duration(len(times)))), measure.Median(times), nil
}

// label sets the label on one cluster and waits for its deployment.
func (b *bench) label(ctx context.Context, n int) (time.Duration, error) {
	path := pathOf(workspace, "clusters") + "/" + clusterName(n)
	begin := time.Now()
	if err := b.hub.call(ctx, http.MethodPatch, path, mergePatch, []byte(`{"metadata":{"labels":{"`+labelProbe+`":"true"}}}`), nil); err != nil {
		return 0, err
	}
	err := wait(ctx, b.timeout, func() (string, error) {
		if _, ok := b.agents.get(pair{n, probeName}); !ok {
			return clusterName(n) + " has no deployment", errors.Join(b.agents.failure(), b.manager.alive())
		}
		return "", nil
	})
	s, _ := b.agents.get(pair{n, probeName})
	return s.at.Sub(begin), err
}

// restart kills the manager and measures from its new start until it has done
// what it was asked meanwhile.
func (b *bench) restart(ctx context.Context) (string, time.Duration, error) {
	b.manager.kill()
	begin := time.Now()
	if err := b.manager.start(); err != nil {
		return "", 0, err
	}
	took, err := b.label(ctx, 1)
	return fmt.Sprintf("label to deployment, from the start: %s", measure.Seconds(took)), time.Since(begin), err
}

// remove deletes all Bundles and returns when nothing is left of them.
func (b *bench) remove(ctx context.Context) (string, time.Duration, error) {
	store := kube.StoreOf[*fleet.Bundle](b.hub.admin)
	list, err := store.List(ctx, workspace, "")
	if err != nil {
		return "", 0, err
	}
	begin := time.Now()
	for _, bundle := range list {
		if err := store.Delete(ctx, kube.KeyOf(bundle), kube.Precondition{}); err != nil {
			return "", 0, err
		}
	}
	err = wait(ctx, b.timeout, func() (string, error) {
		if n := b.agents.left(); n > 0 {
			return fmt.Sprintf("%d deployments are left", n), errors.Join(b.agents.failure(), b.manager.alive())
		}
		return "", nil
	})
	if err != nil {
		return "", 0, err
	}
	err = wait(ctx, b.timeout, func() (string, error) {
		left, err := store.List(ctx, workspace, "")
		if err != nil || len(left) == 0 {
			return "", err
		}
		var names []string
		for _, bundle := range left {
			names = append(names, bundle.Name)
		}
		return "left: " + first(names, 3), b.manager.alive()
	})
	return "", time.Since(begin), err
}

// heading begins the table of a scenario.
func heading() {
	measure.Row("phase", "time", "floor", "÷ floor", "CPU", "CPU per pair", "memory: anonymous, file, peak", "etcd per pair", "requests", "")
	measure.Row("---", "---:", "---:", "---:", "---:", "---:", "---", "---:", "---", "---")
}

// print prints a phase as soon as it is over: a large fleet takes its time.
func (b *bench) print(f figure) {
	pairs := float64(b.pairs())
	floor, ratio := "", ""
	if at, ok := b.floors[f.phase]; ok {
		floor, ratio = measure.Seconds(at), fmt.Sprintf("%.2f", f.took.Seconds()/at.Seconds())
	}
	measure.Row(f.phase, measure.Seconds(f.took), floor, ratio, measure.Seconds(f.cpu),
		fmt.Sprintf("%.2f ms", f.cpu.Seconds()*1000/pairs),
		fmt.Sprintf("%s, %s, %s", measure.MiB(f.memory.Anonymous), measure.MiB(f.memory.All-f.memory.Anonymous), measure.MiB(f.memory.Peak)),
		fmt.Sprintf("%.1f KiB", float64(f.stored)/1024/pairs), perPair(f.requests, pairs), f.note)
}

// perPair is a list of requests, each as a number per pair where there are
// many and as itself where there are few.
func perPair(requests map[string]int, pairs float64) string {
	if len(requests) == 0 {
		return "none"
	}
	text := ""
	for _, what := range slices.Sorted(maps.Keys(requests)) {
		if text != "" {
			text += ", "
		}
		if n := float64(requests[what]); n >= pairs/10 && n > 20 {
			text += fmt.Sprintf("%s %.2f/pair", what, n/pairs)
		} else {
			text += fmt.Sprintf("%s %.0f", what, n)
		}
	}
	return text
}
