package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

func named(name string, annotations map[string]string) *management.FleetWorkspace {
	return &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

func namespace(name string, labels, annotations map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
}

func TestFor(t *testing.T) {
	allow := map[string]string{AnnotationAllowExisting: "true"}
	for name, c := range map[string]struct {
		why  string
		w    *management.FleetWorkspace
		live *metav1.PartialObjectMetadata
		want Action
	}{
		"new":       {why: "the name is free", w: named("team-a", nil), want: Create},
		"ours":      {why: "we have made it", w: named("team-a", nil), live: namespace("team-a", nil, map[string]string{AnnotationOrigin: OriginCreated}), want: Create},
		"found":     {why: "we have found it before", w: named("team-a", nil), live: namespace("team-a", nil, map[string]string{AnnotationOrigin: OriginAdopted}), want: Adopt},
		"rancher's": {why: "Rancher has made it at its start", w: named("fleet-local", nil), live: namespace("fleet-local", map[string]string{labelManagedBy: rancher}, nil), want: Adopt},
		"mapped": {
			why: "Rancher has made it for this workspace", w: named("team-a", nil),
			live: namespace("team-a", nil, map[string]string{"objectset.rio.cattle.io/id": "workspace"}), want: Adopt,
		},
		"prod":           {why: "it is in use", w: named("prod", nil), live: namespace("prod", nil, nil), want: Refuse},
		"allowed":        {why: "who may change the namespace says so", w: named("prod", nil), live: namespace("prod", nil, allow), want: Adopt},
		"self-allowed":   {why: "who makes the workspace need not be allowed to use the namespace", w: named("prod", allow), live: namespace("prod", nil, nil), want: Refuse},
		"kube-system":    {why: "never", w: named("kube-system", allow), live: namespace("kube-system", nil, allow), want: Refuse},
		"cattle-system":  {why: "never", w: named("cattle-system", allow), live: namespace("cattle-system", nil, allow), want: Refuse},
		"of deployments": {why: "never", w: named("cluster-fleet-default-c1-0", allow), want: Refuse},
		"of a cluster":   {why: "Rancher keeps it for a cluster", w: named("c-12345", allow), want: Refuse},
		"system by mark": {why: "never", w: named("apps", allow), live: namespace("apps", map[string]string{labelSystemNamespace: "true"}, allow), want: Refuse},
		"unmanaged":      {why: "hands off", w: named("kube-system", map[string]string{AnnotationManaged: "false"}), want: Leave},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := DecideNamespace(c.w, c.live)
			if got != c.want || (why != "") != (got == Refuse) {
				t.Errorf("%s: got %v (%s), want %v", c.why, got, why, c.want)
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	w := named("team-a", map[string]string{AnnotationCreator: "u-abcde", "note": "x"})
	w.Labels = map[string]string{"tier": "1", "objectset.rio.cattle.io/hash": "h"}
	for action, origin := range map[Action]string{Create: OriginCreated, Adopt: OriginAdopted} {
		got := Namespace(w, action)
		if len(got.Labels) != 1 || got.Labels["tier"] != "1" || len(got.Annotations) != 2 || got.Annotations["note"] != "x" || got.Annotations[AnnotationOrigin] != origin {
			t.Errorf("%v: %+v", action, got.ObjectMeta)
		}
		live := namespace("team-a", nil, got.Annotations)
		if TakesNamespace(w, live) != (action == Create) {
			t.Errorf("a namespace that was %s goes with its workspace: %t", origin, action != Create)
		}
	}
}

func TestDeletable(t *testing.T) {
	clusters := []string{"Cluster c2", "Cluster c1"}
	if ok, why := Deletable(named("a", nil), clusters); ok || !strings.Contains(why, "Cluster c1, Cluster c2:") || !strings.Contains(why, AnnotationDeleteClusters) {
		t.Errorf("%t: %s", ok, why)
	}
	many := make([]string, 25)
	if _, why := Deletable(named("a", nil), many); !strings.Contains(why, "and 15 more") {
		t.Error(why)
	}
	for name, w := range map[string]*management.FleetWorkspace{
		"empty": named("a", nil), "override": named("a", map[string]string{AnnotationDeleteClusters: "true"}), "unmanaged": named("a", map[string]string{AnnotationManaged: "false"}),
	} {
		list := clusters
		if name == "empty" {
			list = nil
		}
		if ok, why := Deletable(w, list); !ok {
			t.Errorf("%s: %s", name, why)
		}
	}
}

func TestForOrphan(t *testing.T) {
	ns := namespace("x", nil, nil)
	ns.UID = "1"
	got := ForOrphan(ns)
	if got == nil || got.Annotations[AnnotationManaged] != "false" || got.OwnerReferences[0].UID != "1" || got.OwnerReferences[0].Kind != "Namespace" {
		t.Errorf("%+v", got)
	}
	if action, _ := DecideNamespace(got, ns); action != Leave {
		t.Error("such a workspace never touches its namespace")
	}
	for _, ns := range []*metav1.PartialObjectMetadata{
		namespace("cluster-fleet-default-c1-abc", nil, nil), namespace("cattle-fleet-system", nil, nil),
		namespace("anything", map[string]string{"fleet.cattle.io/managed": "true"}, nil),
	} {
		if ForOrphan(ns) != nil {
			t.Errorf("%s becomes a workspace", ns.Name)
		}
	}
}

// A workspace that is missing may be about to be restored; one that stays away was
// deleted.
func TestLeftover(t *testing.T) {
	for missing, want := range map[time.Duration]time.Duration{
		0: ForsakenTimeout, ForsakenTimeout - time.Second: time.Second, ForsakenTimeout: 0, ForsakenTimeout + time.Hour: 0,
	} {
		if got := Leftover(missing); got != want {
			t.Errorf("missing for %s: it stays for %s, want %s", missing, got, want)
		}
	}
}

func TestLeaveOutPodSecurity(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/enforce": "privileged", "team": "a",
	}}}
	got := LeaveOutPodSecurity(ns)
	if diff := cmp.Diff([]string{"pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, ns.Labels); diff != "" {
		t.Error(diff)
	}
	if got := LeaveOutPodSecurity(ns); got != nil {
		t.Errorf("nothing is left to leave out, got %v", got)
	}
}
