package withdrawal

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// deployed is deployment "app" with these options, applied, with objects of these
// kinds, all with the name x.
func deployed(o fleet.BundleDeploymentOptions, kinds ...string) *fleet.BundleDeployment {
	out := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: "app"}}
	out.Spec.DeploymentID, out.Status.AppliedDeploymentID, out.Spec.Options = "s-1:a", "s-1:a", o
	for _, kind := range kinds {
		out.Status.Resources = append(out.Status.Resources, fleet.BundleDeploymentResource{Kind: kind, Name: "x"})
	}
	return out
}

// written are things in words.
func written(things []DataObject) string {
	var out []string
	for _, thing := range things {
		out = append(out, thing.String())
	}
	return strings.Join(out, ", ")
}

var kinds = []string{"ConfigMap", "PersistentVolumeClaim", "Namespace", "CustomResourceDefinition"}

func TestThings(t *testing.T) {
	in := func(namespace string, change func(*fleet.BundleDeploymentOptions)) fleet.BundleDeploymentOptions {
		o := fleet.BundleDeploymentOptions{TargetNamespace: namespace, DeleteNamespace: true}
		if change != nil {
			change(&o)
		}
		return o
	}
	never := deployed(in("shop", nil))
	never.Spec.DeploymentID, never.Status.AppliedDeploymentID = "", ""
	cases := map[string]struct {
		why  string
		bd   *fleet.BundleDeployment
		want string
	}{
		"Plain": {"CRDs stay behind by default", deployed(fleet.BundleDeploymentOptions{}, kinds...), "PersistentVolumeClaim x on w/c1, Namespace x on w/c1"},
		"CRDs": {"with deleteCRDResources they go", deployed(fleet.BundleDeploymentOptions{DeleteCRDResources: true}, kinds...),
			"PersistentVolumeClaim x on w/c1, Namespace x on w/c1, CustomResourceDefinition x on w/c1"},
		"Kept": {"with keepResources nothing goes", deployed(fleet.BundleDeploymentOptions{KeepResources: true, DeleteCRDResources: true}, kinds...), ""},
		"DeleteNamespace": {"the namespace goes with everything in it, also what is in no release", deployed(in("shop", nil), "ConfigMap"),
			"Namespace shop with everything in it on w/c1"},
		"DeleteNamespaceOnce":    {"one that is in the release, too, counts once", deployed(in("x", nil), "Namespace"), "Namespace x on w/c1"},
		"DeleteNamespaceKept":    {"keepResources comes first", deployed(in("shop", func(o *fleet.BundleDeploymentOptions) { o.KeepResources = true })), ""},
		"DeleteDefaultNamespace": {"only the namespace that a bundle is limited to is deleted", deployed(in("", func(o *fleet.BundleDeploymentOptions) { o.DefaultNamespace = "shop" })), ""},
		"DeleteProtected":        {"agents never delete it", deployed(in("kube-system", nil)), ""},
		"NeverDeployed":          {"nothing was ordered to be deployed", never, ""},
		"NotReported": {"an agent that is away may have deployed it", func() *fleet.BundleDeployment {
			bd := deployed(in("shop", nil))
			bd.Status.AppliedDeploymentID = ""
			return bd
		}(), "Namespace shop with everything in it on w/c1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, written(DataObjects("w/c1", c.bd))); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
		})
	}
}

// A namespace with another deployment in it is not deleted, and neither is an
// object that another deployment has: what a deployment that stays is in, or has,
// is claimed.
func TestClaims(t *testing.T) {
	shop := fleet.BundleDeploymentOptions{DefaultNamespace: "shop"}
	cases := map[string]struct {
		why    string
		change func(*fleet.BundleDeployment)
		want   string
	}{
		"Stays": {"what it has and where it is", nil, "PersistentVolumeClaim x on w/c1, Namespace shop with everything in it on w/c1"},
		"NotApplied": {"it will be there, and what it has then is not known",
			func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = "" }, "Namespace shop with everything in it on w/c1"},
		"Ordered": {"it leaves", func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "o1"} }, ""},
		"Empty":   {"no version was ordered yet", func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID, bd.Status.AppliedDeploymentID = "", "" }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := deployed(shop, "PersistentVolumeClaim")
			if c.change != nil {
				c.change(bd)
			}
			if diff := cmp.Diff(c.want, written(Claims("w/c1", bd))); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
		})
	}
	object := DataObject{Kind: "Namespace", Name: "shop", Cluster: "w/c1"}
	whole := object
	whole.Whole = true
	claimed := map[DataObject]bool{}
	for _, thing := range Claims("w/c1", deployed(shop)) {
		claimed[thing] = true
	}
	if got := UnclaimedObjects([]DataObject{object, whole}, claimed); !slices.Equal(got, []DataObject{object}) {
		t.Errorf("a deployment in a namespace does not keep the release that has made it from deleting it: %s", written(got))
	}
}

func TestProtected(t *testing.T) {
	for namespace, want := range map[string]bool{
		"default": true, "fleet-default": true, "fleet-local": true, "kube-system": true, "kube-x": true,
		"cattle-system": true, "cattle-fleet-system": true, "shop": false, "kubernetes": false, "cattle": false,
	} {
		if Protected(namespace) != want {
			t.Errorf("%s: want %t", namespace, want)
		}
	}
}

func TestClaiming(t *testing.T) {
	bd := func(applied, reason string, deployed corev1.ConditionStatus) *fleet.BundleDeployment {
		out := &fleet.BundleDeployment{}
		out.Status.AppliedDeploymentID = applied
		if deployed != "" {
			out.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionDeployed, Status: deployed, Reason: reason}}
		}
		return out
	}
	cases := map[string]struct {
		why  string
		bd   *fleet.BundleDeployment
		want bool
	}{
		"New":       {"nothing is known of it", bd("", "", ""), false},
		"Applied":   {"it runs", bd("s-1:x", "Succeeded", corev1.ConditionTrue), true},
		"Waits":     {"it takes a renamed bundle's objects over", bd("", release.ReasonSharedObject, corev1.ConditionUnknown), true},
		"WaitsLong": {"also where the wait counts as a failure", bd("", release.ReasonSharedObject, corev1.ConditionFalse), true},
		"Failed":    {"what failed otherwise takes over nothing", bd("", release.ReasonForbidden, corev1.ConditionFalse), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := keepsSharedObjects(c.bd); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
