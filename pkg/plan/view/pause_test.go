package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// setBy is an entry of managedFields.
func setBy(manager string, ago time.Duration, fields string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(now.Add(-ago))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestPauseOf(t *testing.T) {
	const (
		field = `{"f:spec":{"f:paused":{}}}`
		both  = `{"f:metadata":{"f:annotations":{"f:fleet.cattle.io/paused-by":{}}},"f:spec":{"f:paused":{}}}`
		note  = `{"f:metadata":{"f:annotations":{"f:fleet.cattle.io/paused-by":{}}}}`
	)
	notes := map[string]string{
		fleet.AnnotationPausedBy: "ana", fleet.AnnotationPausedAt: now.Add(-time.Hour).Format(time.RFC3339), fleet.AnnotationPauseReason: "incident 4711",
	}
	status := setBy("fleet-agent", 0, field)
	status.Subresource = "status"
	cases := map[string]struct {
		why    string
		notes  map[string]string
		fields []metav1.ManagedFieldsEntry
		want   string
	}{
		"Suspended": {"fleet suspend says all of it", notes, []metav1.ManagedFieldsEntry{setBy("fleet-cli", time.Hour, both)}, "paused since 13:10:44 by ana: incident 4711"},
		"NoReason":  {"a reason may be missing", map[string]string{fleet.AnnotationPausedBy: "ana"}, nil, "paused by ana, no reason given"},
		"Kubectl":   {"a user of kubectl leaves the name of the program", nil, []metav1.ManagedFieldsEntry{setBy("kubectl-edit", 5*time.Minute, field)}, "paused since 14:05:44 by kubectl-edit, no reason given"},
		"Stale": {"a note of an earlier pause is not taken for this one's", notes,
			[]metav1.ManagedFieldsEntry{setBy("fleet-cli", time.Hour, note), setBy("kubectl-edit", 5*time.Minute, field)}, "paused since 14:05:44 by kubectl-edit, no reason given"},
		"Newest":     {"of several the newest", nil, []metav1.ManagedFieldsEntry{setBy("b", time.Minute, field), setBy("a", time.Hour, field)}, "paused since 14:09:44 by b, no reason given"},
		"Repository": {"paused: true in fleet.yaml", nil, []metav1.ManagedFieldsEntry{setBy(fleet.FieldManagerController, 5*time.Minute, field)}, "paused since 14:05:44 by fleet.yaml, no reason given"},
		"Unknown":    {"nothing is known", nil, nil, "paused, no reason given"},
		"Others":     {"other fields, the status and what cannot be read say nothing", nil, []metav1.ManagedFieldsEntry{status, setBy("x", 0, `{"f:spec":{"f:repo":{}}}`), setBy("y", 0, `{`)}, "paused, no reason given"},
		"Hostile":    {"text of others stays in its line", map[string]string{fleet.AnnotationPausedBy: "ana\x1b[2J", fleet.AnnotationPauseReason: "a\nb"}, nil, `paused by ana\u001b[2J: a b`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Annotations: c.notes, ManagedFields: c.fields}}
			if got := PauseOf(o).Text(now); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
	long := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fleet.AnnotationPausedBy: "ana", fleet.AnnotationPauseReason: strings.Repeat("x", 1<<17)}}}
	if got := PauseOf(long).Text(time.Time{}); len(got) > 2000 {
		t.Errorf("a reason of %d bytes is shown", len(got))
	}
}

// What users hold back is shown, also where all is Ready, and a repository once.
func TestSummarizePaused(t *testing.T) {
	f := Fleet{
		Repositories: []*fleet.GitRepo{repo(func(r *fleet.GitRepo) {
			r.Spec.Paused, r.Annotations = true, map[string]string{fleet.AnnotationPausedBy: "ana", fleet.AnnotationPauseReason: "incident 4711"}
		})},
		Bundles: []*fleet.Bundle{
			bundle("web", on(1), func(b *fleet.Bundle) { b.Spec.Paused = true }),
			bundle("lone", on(1), func(b *fleet.Bundle) { b.Spec.Paused, b.Labels = true, nil }),
		},
		Clusters: []*fleet.Cluster{cluster("a", func(c *fleet.Cluster) { c.Spec.Paused = true })},
	}
	s := Summarize(f, Manager{}, now)
	var got []string
	for _, p := range s.Paused {
		got = append(got, p.Label()+": "+p.Text(time.Time{}))
	}
	want := []string{"repo app: paused by ana: incident 4711", "lone: paused, no reason given", "cluster a: paused, no reason given"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s.Quiet() || !s.Settled() {
		t.Error("a pause is shown, and does not need attention")
	}
}

// What is held back has a message, whatever holds it back and however much is known.
func TestHeldMessage(t *testing.T) {
	held := func(change ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		return deployment("web", "a", append(change, func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "s-new:o" })...)
	}
	paused := func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }
	pausedBundle := bundle("web", on(1), func(b *fleet.Bundle) {
		b.Spec.Paused, b.Annotations = true, map[string]string{fleet.AnnotationPausedBy: "ana", fleet.AnnotationPauseReason: "incident 4711"}
	})
	pausedCluster := cluster("a", func(c *fleet.Cluster) {
		c.Spec.Paused, c.Annotations = true, map[string]string{fleet.AnnotationPausedBy: "ben"}
	})
	frozen := bundle("web", on(1, bad("a", fleet.OutOfSync, `waits for room in partition "canary": 0 may be unavailable`)))
	waits := bundle("web", on(1), func(b *fleet.Bundle) {
		b.Status.Conditions = append(b.Status.Conditions, cond(fleet.ConditionWaiting, corev1.ConditionTrue, fleet.ReasonDeferred, `partition "b" waits for partition "a"; ns/x: more`, 0))
	})
	cases := map[string]struct {
		why  string
		bd   *fleet.BundleDeployment
		h    Holders
		want string
	}{
		"Ready":         {"what is Ready needs no words", deployment("web", "a"), Holders{}, ""},
		"Agent":         {"the agent's word comes first", deployment("web", "a", failed("NotOwned", "not ours")), Holders{Bundle: frozen}, "not ours"},
		"Bundle":        {"who, and why", held(paused), Holders{Bundle: pausedBundle}, "paused by ana: incident 4711"},
		"Repository":    {"the pause is where it was set", held(paused), Holders{Bundle: pausedBundle, Repo: repo(func(r *fleet.GitRepo) { r.Spec.Paused = true })}, "paused, no reason given"},
		"Cluster":       {"also where the bundle is not", held(paused), Holders{Bundle: frozen, Cluster: pausedCluster}, "paused by ben, no reason given"},
		"NotSeen":       {"objects that the user may not read", held(paused), Holders{}, "paused"},
		"Frozen":        {"the manager's word about this cluster", held(), Holders{Bundle: frozen}, `waits for room in partition "canary": 0 may be unavailable`},
		"Waits":         {"or about others", held(), Holders{Bundle: waits}, `partition "b" waits for partition "a"`},
		"RolloutUnseen": {"the manager has not said anything", held(), Holders{}, "the newest version is staged, and the rollout has not let it through yet"},
		"Schedule":      {"a schedule", held(func(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true }), Holders{}, "outside of the windows of the cluster's schedule"},
		"Agent behind":  {"an agent that has not answered", deployment("web", "a", written), Holders{}, "the agent has not reported on the newest version yet"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := HeldMessage(c.bd, c.h, now); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}

// A paused bundle is listed once, and the fleet is not settled while it lacks its newest version.
func TestPausedIsNotSettled(t *testing.T) {
	held := Summarize(Fleet{Bundles: []*fleet.Bundle{bundle("web", on(1, bad("a", fleet.OutOfSync, "paused")), pausedBundle)}}, Manager{}, now)
	if len(held.Moving) != 0 || len(held.Paused) != 1 || held.Settled() {
		t.Errorf("moving %v, paused %v, settled %t", held.Moving, held.Paused, held.Settled())
	}
	ready := Summarize(Fleet{Bundles: []*fleet.Bundle{bundle("web", on(1), pausedBundle)}}, Manager{}, now)
	if len(ready.Paused) != 1 || !ready.Settled() {
		t.Errorf("paused %v, settled %t", ready.Paused, ready.Settled())
	}
}
