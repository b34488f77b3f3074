package withdrawal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

func TestMoved(t *testing.T) {
	from := Place{Workspace: "a", Cluster: "c1", Namespace: "cluster-a-c1"}
	to := Place{Workspace: "b", Cluster: "c1", Namespace: "cluster-b-c1"}
	deployment := func(name string, change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		bd := &fleet.BundleDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: name, UID: "u", ResourceVersion: "7", Labels: map[string]string{
				fleet.LabelBundleName: name, fleet.LabelBundleNamespace: "a", fleet.LabelRepoName: "repo", fleet.LabelCommit: "abc", fleet.LabelManaged: "true",
				fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "a", fleet.LabelBucket: "00", fleet.LabelOwnerBucket: "00", fleet.LabelContentName: "s-1",
			}},
			Spec: fleet.BundleDeploymentSpec{
				DeploymentID: "s-1:o", StagedDeploymentID: "s-2:o", ValuesHash: "v", Paused: true, OCIContents: true,
				Options: fleet.BundleDeploymentOptions{KeepResources: true, DefaultNamespace: "app"},
			},
			Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:o"},
		}
		if change != nil {
			change(bd)
		}
		return bd
	}
	old := []*fleet.BundleDeployment{
		deployment("only", nil),
		deployment("both", nil),
		deployment("fleet-agent-c1", nil),
		deployment("guest", func(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelBundleNamespace] = "shared" }),
		deployment("never", func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID = "", "" }),
		deployment("foreign", func(bd *fleet.BundleDeployment) { delete(bd.Labels, fleet.LabelBundleName) }),
	}
	got := Moved(old, from, to, func(name string) bool { return name == "both" }, func() string { return "order" })
	want := func(name, workspace, bucket string) *fleet.BundleDeployment {
		return &fleet.BundleDeployment{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: to.Namespace, Name: name, Annotations: map[string]string{fleet.AnnotationWithdrawn: "order"},
				Labels: map[string]string{
					fleet.LabelBundleName: name, fleet.LabelBundleNamespace: workspace, fleet.LabelRepoName: "repo", fleet.LabelCommit: "abc", fleet.LabelManaged: "true",
					fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "b", fleet.LabelBucket: naming.Bucket(to.Namespace), fleet.LabelOwnerBucket: bucket,
				},
			},
			Spec: fleet.BundleDeploymentSpec{
				DeploymentID: "s-1:o", Options: fleet.BundleDeploymentOptions{KeepResources: true, DefaultNamespace: "app"},
			},
		}
	}
	// Only what the old place had deployed and the new one does not want, and never an agent.
	wanted := []*fleet.BundleDeployment{want("guest", "shared", "00"), want("only", "b", naming.OwnerBucket("b", "repo"))}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if old[0].Labels[fleet.LabelClusterNamespace] != "a" || old[0].Spec.StagedDeploymentID == "" {
		t.Error("what it was given was changed")
	}
}
