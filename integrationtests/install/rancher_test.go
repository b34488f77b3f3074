package install

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Versions of Rancher's charts and of ours for Rancher.
const (
	theirVersion = "110.0.1+up0.16.1"
	ourVersion   = "1000.1.0+up0.1.0"
	nextVersion  = "1000.2.0+up0.2.0"
)

// TestRancherInstalls lets Rancher's chart manager install the reference, meet ours that
// were installed over it by hand, and install ours itself once its repository has them.
// The control plane is tainted, so that every chart is given tolerations. The chart
// fleet-agent is not Rancher's to install: the manager does.
func TestRancherInstalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "rancher-installs")
	client := kubernetes.NewForConfigOrDie(w.config)
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "control-plane", Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.until("the node is ready", func(ctx context.Context) bool { // before that it has another taint
		n, err := client.CoreV1().Nodes().Get(ctx, "control-plane", metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 1 && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	r := &rancher.Charts{
		Helm: w.helm, Client: client, Namespace: fleet.NamespaceSystem, Timeout: limit,
		Repository: []*chart.Chart{referenceKinds(), referenceManager()},
	}
	w.rancherWants(r, "fleet-crd", nil, true, "")
	w.until("the kinds are served", w.serves)
	w.rancherWants(r, "fleet", rancherValues("https://rancher.invalid"), true, "")
	w.rancherWants(r, "fleet", rancherValues("https://rancher.invalid"), true, "") // a value that is null goes by a merge
	w.rancherWants(r, "fleet", rancherValues("https://rancher.invalid"), false, "")

	names := []string{"fleet-crd", "fleet"}
	ours := map[string]*chart.Chart{}
	for _, name := range names {
		c := w.ours(name)
		c.Metadata.Version = ourVersion
		ours[name] = c
		w.must(w.upgrade(c, nil)) // docs/rancher.md, step 2
		w.tolerates(name)
	}
	w.rancherWants(r, "fleet-crd", nil, false, "") // what is newer, and as it wants it, stays
	w.rancherWants(r, "fleet", rancherValues("https://rancher.invalid"), false, "")
	w.rancherWants(r, "fleet", rancherValues("https://other.invalid"), false, "no chart version found for fleet-"+ourVersion)

	for _, name := range names {
		r.Repository = append(r.Repository, ours[name])
	}
	w.must(w.upgrade(ours["fleet"], map[string]any{"agentCheckinInterval": "7m0s"})) // a person's own
	w.rancherWants(r, "fleet", rancherValues("https://other.invalid"), true, "")
	values := w.valuesOf("fleet")
	if values["apiServerURL"] != "https://other.invalid" || values["agentCheckinInterval"] != "7m0s" {
		t.Errorf("values after Rancher's upgrade: %v", values)
	}
	w.tolerates("fleet")
	for _, name := range names { // a later Rancher wants a later version of ours
		c := w.ours(name)
		c.Metadata.Version = nextVersion
		r.Repository = append(r.Repository, c)
		did, err := r.Ensure(t.Context(), name, nextVersion, map[string]map[string]any{"fleet": rancherValues("https://other.invalid")}[name])
		if err != nil || !did {
			t.Fatalf("Rancher upgrades %s: %t, %v", name, did, err)
		}
		w.tolerates(name)
	}
	for _, name := range names {
		w.uninstall(name)
	}
	for _, name := range names {
		values := map[string]map[string]any{"fleet": rancherValues("https://rancher.invalid")}[name]
		did, err := r.Ensure(t.Context(), name, ourVersion, values)
		if err != nil || !did {
			t.Fatalf("Rancher installs %s: %t, %v", name, did, err)
		}
		w.tolerates(name)
	}
}

// rancherValues are the values that Rancher passes to the chart fleet.
func rancherValues(url string) map[string]any {
	return map[string]any{
		"apiServerURL": url, "apiServerCA": "PEM", "agentTLSMode": "strict",
		"global":    map[string]any{"cattle": map[string]any{"systemDefaultRegistry": "", "imagePullSecrets": nil}},
		"gitops":    map[string]any{"enabled": true},
		"bootstrap": map[string]any{"enabled": false, "agentNamespace": "cattle-fleet-local-system"},
	}
}

// rancherWants lets Rancher ensure a chart, with its own least version, and checks whether
// it does anything, or with which text it fails.
func (w *world) rancherWants(r *rancher.Charts, name string, values map[string]any, does bool, fails string) {
	w.Helper()
	did, err := r.Ensure(w.Context(), name, theirVersion, maps.Clone(values))
	if fails == "" && err != nil || fails != "" && (err == nil || !strings.Contains(err.Error(), fails)) {
		w.Fatalf("Rancher ensures %s: %v, want %q", name, err, fails)
	}
	if did != does {
		w.Errorf("Rancher ensures %s: it has done something: %t", name, did)
	}
}

// tolerates checks that a release has the tolerations that Rancher has given it.
func (w *world) tolerates(name string) {
	w.Helper()
	want := []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Equal", "effect": "NoSchedule"}}
	if diff := cmp.Diff(want, w.valuesOf(name)["tolerations"]); diff != "" {
		w.Errorf("tolerations of %s: -want +got\n%s", name, diff)
	}
}

// valuesOf returns the values of a release.
func (w *world) valuesOf(name string) map[string]any {
	w.Helper()
	values, err := action.NewGetValues(w.helm()).Run(name)
	w.must(err)
	return values
}
