package controllers_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// TestTemplateError reports what an error in a template means for the one cluster
// that has it, and for all others (docs/decisions/0007).
func TestTemplateError(t *testing.T) { synctest.Test(t, templateErrorBubble) }

func templateErrorBubble(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"c1", "c2", "c3"} {
		w.addCluster(name, map[string]string{"name": name})
	}
	w.create(&fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "all"},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}}})
	w.readRepo("repo")
	b := w.withValues(bundle("app", "v1", everywhere()), map[string]any{"zone": "none"})
	one := intstr.FromInt32(1)
	b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &one, Partitions: []fleet.Partition{
		{Name: "first", ClusterName: "c1"}, {Name: "rest", ClusterSelector: &metav1.LabelSelector{}},
	}}
	none := intstr.FromInt32(0)
	b.Spec.RolloutStrategy.Partitions[0].MaxUnavailable = &none
	w.create(b)
	w.readyOn("app", "3/3")
	before := w.deployment("app", "c1")

	// What runs on c1 is down, and its template fails: neither is counted.
	setStatus(w, kube.KeyOf(before), func(bd *fleet.BundleDeployment) { bd.Status.Ready = false })
	update(w, in("c2"), func(c *fleet.Cluster) { c.Labels["zone"] = "b" })
	update(w, in("c3"), func(c *fleet.Cluster) { c.Labels["zone"] = "c" })
	data := map[string][]byte{fleet.KeyBundleValues: []byte(`{"zone":"${ .ClusterLabels.zone }"}`)}
	update(w, in("app"), func(s *corev1.Secret) { s.Data = data })
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.ValuesHash = options.BundleValuesHash(data) })
	for _, name := range []string{"c2", "c3"} {
		zone := map[string]string{"c2": "b", "c3": "c"}[name]
		sees(w, "the others go on: "+name, fmt.Sprintf(`{"zone":%q}`, zone), func() string {
			s := get[*corev1.Secret](w, kube.KeyOf(w.deployment("app", name)))
			return string(s.Data[fleet.KeyValues])
		})
	}
	sees(w, "in every summary: the Bundle's", "ErrApplied 2/3 1", func() string {
		st := get[*fleet.Bundle](w, in("app")).Status
		return fmt.Sprint(st.Display.State, " ", st.Display.ReadyClusters, " ", st.Summary.ErrApplied)
	})
	why := `targeting error: render values for cluster "c1" in namespace "fleet-default"`
	names := func(what string, look func() string) {
		t.Helper()
		w.until("in every summary, with its message: "+what, func() bool { return strings.Contains(look(), why) })
	}
	names("the Bundle's", bundleReady(w, "app"))
	names("the repository's", repoReady(w, "repo"))
	names("the cluster's", clusterReady(w, "c1"))
	names("the group's", ready(w, in("all"), func(g *fleet.ClusterGroup) []fleet.Condition { return g.Status.Conditions }))
	sees(w, "nothing counts against a limit", "0 0", func() string {
		st := get[*fleet.Bundle](w, in("app")).Status
		return fmt.Sprint(st.Unavailable, st.UnavailablePartitions)
	})
	after := w.deployment("app", "c1")
	if after == nil || after.UID != before.UID || after.Generation != before.Generation || after.Annotations[fleet.AnnotationWithdrawn] != "" {
		t.Errorf("the deployment was touched: %+v", after)
	}

	w.addCluster("c4", map[string]string{"name": "c4"})
	sees(w, "a new cluster is counted", "2/4", func() string { return get[*fleet.Bundle](w, in("app")).Status.Display.ReadyClusters })
	if got := w.on("app")(); got != "c1 c2 c3" {
		t.Errorf("a missing deployment was created: on %s", got)
	}
	for i, name := range []string{"c1", "c4"} {
		update(w, in(name), func(c *fleet.Cluster) { c.Labels["zone"] = fmt.Sprint("z", i) })
	}
	sees(w, "labels put it right", "True", bundleReady(w, "app"))
	sees(w, "everywhere", "c1 c2 c3 c4", w.on("app"))
	sees(w, "the repository is Ready", "True", repoReady(w, "repo"))
}
