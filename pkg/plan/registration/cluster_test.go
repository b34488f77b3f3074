package registration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestNamespaceOf(t *testing.T) {
	const computed = "cluster-fleet-default-downstream1-32d08b529583"
	cases := map[string]struct {
		why        string
		annotation string
		status     string
		owned      []string
		want       string
	}{
		"New":         {why: "the reference's name", want: computed},
		"Chosen":      {why: "what the manager chose stays, whatever the status says", annotation: "chosen", status: "forged", owned: []string{"x", "chosen"}, want: "chosen"},
		"Computed":    {why: "a namespace that was deleted comes back under its name", annotation: computed, status: computed, want: computed},
		"Moved":       {why: "an agent must not lead its Cluster away while the namespace is deleted", annotation: computed, status: "x", owned: []string{"x"}, want: computed},
		"Reserved":    {why: "who edits a Cluster must not take the name of another one's namespace", annotation: "cluster-prod-a-123456789012", want: computed},
		"Collusion":   {why: "nor together with its agent", annotation: "team-b", status: "team-b", owned: []string{"x"}, want: computed},
		"Forged":      {why: "an agent may write its status; it must not choose a namespace", status: "cluster-of-another", want: computed},
		"OldInstall":  {why: "another tool chose a name, and the namespace confirms it", status: "old", owned: []string{"zzz", "old"}, want: "old"},
		"OthersClaim": {why: "everybody who may create namespaces can mark one as this Cluster's", owned: []string{"a", "b"}, want: computed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cl := aCluster("downstream1", "a", 0)
			cl.Status.Namespace = c.status
			if c.annotation != "" {
				cl.Annotations = map[string]string{AnnotationDeploymentNamespace: c.annotation}
			}
			got := NamespaceOf(cl, c.owned)
			if got != c.want {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
			if said := NamespaceRefused(cl, got); (said != "") != (c.annotation != "" && c.annotation != c.want) {
				t.Errorf("%s: said %q", c.why, said)
			}
		})
	}
}

func TestDeploymentNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		why                string
		annotation, status string
		want               bool
	}{
		"Processed": {why: "both agree", annotation: "a", status: "a", want: true},
		"New":       {why: "nothing is written before the namespace is there", annotation: "a"},
		"Forged":    {why: "nothing is written where an agent points to", annotation: "a", status: "b"},
		"Unmarked":  {why: "the status alone is not believed", status: "a"},
		"Nothing":   {why: "an empty name is no namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := aCluster("c", "a", 0)
			cl.Status.Namespace = c.status
			cl.Annotations = map[string]string{AnnotationDeploymentNamespace: c.annotation}
			if got, ok := DeploymentNamespace(cl); ok != c.want || ok && got != c.annotation {
				t.Errorf("%s: got %q, %v", c.why, got, ok)
			}
		})
	}
}

func TestAdoptNamespace(t *testing.T) {
	fresh := aCluster("c", "a", 0)
	marked := MarkCluster(fresh, "ns", Mark{ID: "abc"})
	older := fresh.DeepCopy()
	older.Status.Namespace = "ns"
	made := NewNamespace(fresh, "ns", manager)
	unlabelled := made.DeepCopy()
	unlabelled.Labels = nil
	anothers := NewNamespace(aCluster("d", "b", 0), "ns", manager)
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}
	for name, c := range map[string]struct {
		why     string
		ns      *corev1.Namespace
		cluster *fleet.Cluster
		refused string
	}{
		"Own":        {why: "what the manager made for this Cluster", ns: made, cluster: marked},
		"Older":      {why: "an older installation left no mark on the Cluster", ns: made, cluster: older},
		"Anothers":   {why: "two Clusters in one namespace would read each other's secrets", ns: anothers, cluster: marked, refused: "belongs to Cluster fleet-default/d"},
		"Forged":     {why: "an agent may write in its status what it likes", ns: anothers, cluster: older, refused: "belongs to Cluster fleet-default/d"},
		"Squatted":   {why: "who made the namespace first could read what is deployed there", ns: plain, cluster: marked, refused: "was not made by Fleet"},
		"Unlabelled": {why: "annotations alone are not Fleet's mark", ns: unlabelled, cluster: marked, refused: "was not made by Fleet"},
		"Prepared":   {why: "who waits for a Cluster of a known name can write all marks", ns: made, cluster: fresh, refused: "exists already"},
	} {
		t.Run(name, func(t *testing.T) {
			got := AdoptNamespace(c.ns, c.cluster)
			if (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
				t.Errorf("%s: got %q", c.why, got)
			}
		})
	}
}

func TestMarkAndRelease(t *testing.T) {
	c := aCluster("c", "a", 0)
	c.Labels, c.Finalizers = map[string]string{"env": "prod"}, []string{"other"}
	before := c.DeepCopy()
	mark := Mark{ID: "abc", Epoch: 2, Protocol: 1}
	got := MarkCluster(c, "ns", mark)
	if diff := cmp.Diff(before, c); diff != "" {
		t.Errorf("the argument was changed\n%s", diff)
	}
	want := map[string]string{fleet.AnnotationManager: "abc/2/1", AnnotationDeploymentNamespace: "ns"}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(c.Labels, got.Labels); diff != "" {
		t.Errorf("labels, which templates see: -before +after\n%s", diff)
	}
	earlier := c.DeepCopy()
	earlier.Labels[fleet.LabelBucket] = "1f"
	if diff := cmp.Diff(c.Labels, MarkCluster(earlier, "ns", mark).Labels); diff != "" {
		t.Errorf("the label of earlier versions stays\n%s", diff)
	}
	if diff := cmp.Diff(got, MarkCluster(got, "ns", mark)); diff != "" {
		t.Errorf("a second time changes something\n%s", diff)
	}
	if un := UnmarkCluster(got); un.Annotations[AnnotationDeploymentNamespace] != "" || un.Annotations[fleet.AnnotationManager] == "" {
		t.Errorf("only the namespace is given up: %v", un.Annotations)
	}
	if diff := cmp.Diff([]string{"other"}, ReleaseCluster(got).Finalizers); diff != "" {
		t.Error(diff)
	}
	if OtherManager(got, mark) != "" || OtherManager(got, Mark{ID: "xyz"}) != "abc" || OtherManager(c, mark) != "" {
		t.Error("the mark is the same for two managers")
	}
}

func TestReleased(t *testing.T) {
	gone := at(0)
	for name, c := range map[string]struct {
		why        string
		deleted    bool
		finalizers []string
		want       bool
	}{
		"Lives":        {"a Cluster that lives keeps its agent's credential", false, nil, false},
		"IsBeingMoved": {"the manager's own finalizer holds it while it moves", true, []string{fleet.FinalizerCluster, "example.com/x"}, false},
		"IsKept":       {"another finalizer keeps the object and no credential", true, []string{"example.com/x"}, true},
		"Goes":         {"nothing keeps it", true, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := aCluster("c", "a", 0)
			cluster.Finalizers = c.finalizers
			if c.deleted {
				cluster.DeletionTimestamp = &gone
			}
			if got := Released(cluster); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
