package rollout

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// many are 5,000 targets with ids as long as real ones.
func many(desired string) []Target {
	id := func(v string) string { return "s-" + strings.Repeat("a", 61) + ":" + strings.Repeat(v, 64) }
	out := make([]Target, 5000)
	for i := range out {
		out[i] = Target{Name: fmt.Sprintf("ns/c%04d", i), Desired: id(desired), Exists: true, Staged: id("1"), Current: id("1"), Applied: id("1"), Ready: true}
	}
	return out
}

// strategies are rollouts in which all targets move, no target has room, and
// most targets wait for a partition.
func strategies() map[string]*fleet.RolloutStrategy {
	manual := &fleet.RolloutStrategy{}
	for i := range 3 {
		manual.Partitions = append(manual.Partitions, fleet.Partition{Name: fmt.Sprint("ring-", i),
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ring": fmt.Sprint(i)}}})
	}
	return map[string]*fleet.RolloutStrategy{
		"Default": nil, "TenPercent": {MaxUnavailable: text("10%")}, "Frozen": {MaxUnavailable: number(0), AutoPartitionSize: number(0)}, "Manual": manual,
	}
}

func BenchmarkPlan5000(b *testing.B) {
	for name, s := range strategies() {
		shape, err := Resolve(s, clusters(5000))
		if err != nil {
			b.Fatal(err)
		}
		for kind, targets := range map[string][]Target{"Rest": many("1"), "Change": many("2")} {
			b.Run(name+kind, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Plan(shape, targets)
				}
			})
		}
	}
}

func BenchmarkLook5000(b *testing.B) {
	for name, s := range strategies() {
		shape, err := Resolve(s, clusters(5000))
		if err != nil {
			b.Fatal(err)
		}
		targets := many("2")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Count(shape, targets)
			}
		})
	}
}

func BenchmarkResolve5000(b *testing.B) {
	list := clusters(5000)
	for name, s := range strategies() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resolve(s, list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
