package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/hack/measure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// objects is how many ConfigMaps each of many bundles has.
const objects = 5

// direct is the namespace of what this process sends itself.
const direct = "direct"

// measureSpeed installs and upgrades many bundles at once, beside the same
// objects sent directly.
func (b *bench) measureSpeed(ctx context.Context, w *world) error {
	if err := w.site.namespaces(ctx, direct); err != nil {
		return err
	}
	measure.Title(fmt.Sprintf("%d bundles of %d ConfigMaps", b.bundles, objects))
	measure.Row("what", "time", "the same objects directly", "÷ directly", "CPU", "peak", "requests per object", "what")
	measure.Row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---")
	for _, step := range []struct{ what, version string }{{"install", "one"}, {"upgrade", "two"}} {
		floor, err := b.sendDirectly(ctx, w, step.version)
		if err != nil {
			return err
		}
		if err := b.speed(ctx, w, step.what, step.version, floor); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

func (b *bench) speed(ctx context.Context, w *world, what, version string, floor time.Duration) error {
	profiled := make(chan error, 1)
	go func() { profiled <- w.agent.keepProfile(ctx, "profile?seconds=10", what+".cpu") }()
	meter, err := w.agent.meter()
	if err != nil {
		return err
	}
	begin, took, err := w.deploy(ctx, names("many", 0, b.bundles), func(name string) []fleet.BundleResource {
		return configMaps(name, objects, version)
	})
	if err != nil {
		return err
	}
	if _, err := w.settle(ctx, begin); err != nil {
		return err
	}
	used, err := meter()
	if err != nil {
		return err
	}
	list, err := w.requests(begin)
	if err != nil {
		return err
	}
	n := float64(b.bundles * objects)
	measure.Row(what, measure.Seconds(took), measure.Seconds(floor), fmt.Sprintf("%.1f", took.Seconds()/floor.Seconds()),
		measure.Seconds(used.cpu), measure.MiB(used.memory.Peak), fmt.Sprintf("%.1f", float64(len(list))/n), counted(list))
	return <-profiled
}

// sendDirectly writes as many ConfigMaps as all bundles have, with as many
// clients as the agent has workers.
func (b *bench) sendDirectly(ctx context.Context, w *world, version string) (time.Duration, error) {
	store := kube.StoreOf[*corev1.ConfigMap](w.site.admin)
	begin := time.Now()
	err := parallel(ctx, b.bundles*objects, func(ctx context.Context, i int) error {
		cm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: direct, Name: fmt.Sprintf("d-%d", i)}, Data: map[string]string{"version": version},
		}
		_, err := store.Create(ctx, cm)
		if kube.IsExists(err) {
			_, err = store.Update(ctx, cm)
		}
		return err
	})
	return time.Since(begin), err
}

// measureLatency changes one bundle of one ConfigMap again and again.
func (b *bench) measureLatency(ctx context.Context, w *world) error {
	floor, err := b.turnaround(ctx, w)
	if err != nil {
		return err
	}
	measure.Title("One bundle of one ConfigMap")
	measure.Row("what", "from the write of the BundleDeployment to", "median", "p99", "slowest", "samples")
	measure.Row("---", "---", "---:", "---:", "---:", "---:")
	row := func(what, to string, times []time.Duration) {
		measure.Row(what, to, measure.Milliseconds(measure.Median(times)), measure.Milliseconds(percentile(times, 99)),
			measure.Milliseconds(slices.Max(times)), fmt.Sprint(len(times)))
	}
	row("at best", "a ConfigMap that is written directly arrives by a watch", floor)
	install, err := b.oneByOne(ctx, w, func(i int) string { return fmt.Sprintf("new-%03d", i) })
	if err != nil {
		return err
	}
	row("install", "the ConfigMap is there", install.changed)
	row("install", "Ready is reported", install.reported)
	upgrade, err := b.oneByOne(ctx, w, func(int) string { return "probe" })
	if err != nil {
		return err
	}
	row("upgrade", "the ConfigMap is changed", upgrade.changed)
	row("upgrade", "Ready is reported", upgrade.reported)
	return nil
}

// times are what was measured of a number of deployments.
type times struct{ changed, reported []time.Duration }

// oneByOne deploys a version after the other, each when the one before is
// reported.
func (b *bench) oneByOne(ctx context.Context, w *world, name func(int) string) (times, error) {
	var out times
	for i := range b.samples {
		version := fmt.Sprintf("%s at %d", name(i), i)
		o, err := w.prepare(ctx, name(i), configMaps(name(i), 1, version))
		if err != nil {
			return out, err
		}
		begin, err := w.write(ctx, o)
		if err != nil {
			return out, err
		}
		there, err := w.seen.wait(ctx, w, changed{name(i) + "-0", version})
		if err != nil {
			return out, err
		}
		known, err := w.seen.wait(ctx, w, reported{o.name, o.id})
		if err != nil {
			return out, err
		}
		out.changed, out.reported = append(out.changed, there.Sub(begin)), append(out.reported, known.Sub(begin))
	}
	return out, nil
}

// turnaround writes ConfigMaps directly and waits for their watch events.
func (b *bench) turnaround(ctx context.Context, w *world) ([]time.Duration, error) {
	if _, err := w.site.client.CoreV1().Namespaces().Get(ctx, target, metav1.GetOptions{}); err != nil {
		if err := w.site.namespaces(ctx, target); err != nil {
			return nil, err
		}
	}
	store := kube.StoreOf[*corev1.ConfigMap](w.site.admin)
	var out []time.Duration
	for i := range b.samples {
		name := fmt.Sprintf("direct-%d", i)
		begin := time.Now()
		_, err := store.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: target, Name: name}, Data: map[string]string{"version": "one"},
		})
		if err != nil {
			return nil, err
		}
		at, err := w.seen.wait(ctx, w, changed{name, "one"})
		if err != nil {
			return nil, err
		}
		out = append(out, at.Sub(begin))
	}
	return out, nil
}

// percentile is the time that p percent do not exceed.
func percentile(times []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, (len(sorted)*p+99)/100-1)]
}
