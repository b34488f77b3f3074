package kube

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDifference(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7", Labels: map[string]string{"x": "1"}},
			Spec:       corev1.PodSpec{NodeName: "n"},
			Status:     corev1.PodStatus{Phase: corev1.PodPending},
		}
		change(p)
		return p
	}
	cases := map[string]struct {
		why    string
		change func(*corev1.Pod)
		status bool
		want   string
	}{
		"Equal":            {why: "nothing is sent for nothing", change: func(*corev1.Pod) {}, want: `{}`},
		"Spec":             {why: "only the changed field", change: func(p *corev1.Pod) { p.Spec.NodeName = "m" }, want: `{"spec":{"nodeName":"m"}}`},
		"LabelRemoved":     {why: "a removed key is null", change: func(p *corev1.Pod) { p.Labels = nil }, want: `{"metadata":{"labels":null}}`},
		"StatusIgnored":    {why: "spec writes leave the status alone", change: func(p *corev1.Pod) { p.Status.Phase = "Running" }, want: `{}`},
		"Status":           {why: "status writes send the status", change: func(p *corev1.Pod) { p.Status.Phase = "Running" }, status: true, want: `{"status":{"phase":"Running"}}`},
		"SpecIgnored":      {why: "status writes leave the spec alone", change: func(p *corev1.Pod) { p.Spec.NodeName = "m" }, status: true, want: `{}`},
		"ServersOwnFields": {why: "what the server keeps is no change", change: func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "8", 2 }, want: `{}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			patch, err := difference(pod(func(*corev1.Pod) {}), pod(c.change), c.status)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// The first status is whole: resourceCounts have all eight counters.
func TestFirstStatus(t *testing.T) {
	const counts = `{"desiredReady":0,"missing":0,"modified":0,"notReady":0,"orphaned":0,"ready":0,"unknown":0,"waitApplied":0}`
	write := func(old, changed *fleet.BundleDeployment) string {
		t.Helper()
		patch, err := difference(old, changed, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	fresh, first, second := &fleet.BundleDeployment{}, &fleet.BundleDeployment{}, &fleet.BundleDeployment{}
	first.Status.Release, second.Status.Release = "a", "b"
	want := `{"status":{"display":{},"release":"a","resourceCounts":` + counts + `}}`
	if got := write(fresh, first); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := write(first, second); got != `{"status":{"release":"b"}}` {
		t.Errorf("got %s", got)
	}
	if got := write(fresh, fresh.DeepCopy()); got != `{}` {
		t.Errorf("nothing is sent for nothing, got %s", got)
	}
}

func TestKey(t *testing.T) {
	for _, k := range []Key{{Namespace: "a", Name: "b"}, {Name: "c"}} {
		if got := ParseKey(k.String()); got != k {
			t.Errorf("%v became %v", k, got)
		}
	}
}

func BenchmarkDifference(b *testing.B) {
	old := &fleet.BundleDeployment{}
	if err := json.Unmarshal([]byte(someDeployment), old); err != nil {
		b.Fatal(err)
	}
	changed := old.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	changed.Status.Ready = !old.Status.Ready
	for name, status := range map[string]bool{"Object": false, "Status": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := difference(old, changed, status); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
