package withdrawal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestReplaces(t *testing.T) {
	named := fleet.BundleDeploymentOptions{TargetNamespace: "shop", Helm: &fleet.HelmOptions{ReleaseName: "web"}}
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions // that were ordered last
		change  func(*fleet.BundleDeployment)
		to      string
		want    string
	}{
		"Same":        {"it keeps its release", fleet.BundleDeploymentOptions{DefaultNamespace: "shop"}, nil, "shop/app", ""},
		"Namespace":   {"a namespace was set", fleet.BundleDeploymentOptions{DefaultNamespace: "shop"}, nil, "till/app", "release shop/app becomes till/app"},
		"ToDefaults":  {"all that fleet.yaml said is gone", named, nil, "default/app", "release shop/web becomes default/app"},
		"FromDefault": {"nothing was said before", fleet.BundleDeploymentOptions{}, nil, "shop/app", "release default/app becomes shop/app"},
		"ReleaseName": {"another name in the same namespace", named, nil, "shop/app", "release shop/web becomes shop/app"},
		"Reported": {"what runs counts, also while a version before was not applied", fleet.BundleDeploymentOptions{DefaultNamespace: "till"},
			func(bd *fleet.BundleDeployment) { bd.Status.Release = "shop/app:3" }, "other/app", "release shop/app becomes other/app"},
		"Back": {"it goes back to what runs", fleet.BundleDeploymentOptions{DefaultNamespace: "till"},
			func(bd *fleet.BundleDeployment) { bd.Status.Release = "shop/app:3" }, "shop/app", ""},
		"Again": {"this release was ordered already", fleet.BundleDeploymentOptions{DefaultNamespace: "till"},
			func(bd *fleet.BundleDeployment) { bd.Status.Release = "shop/app:3" }, "till/app", ""},
		"Ordered": {"its removal was decided before", named,
			func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "o1"} }, "default/app", ""},
		"Deleted": {"it is on its way out", named, func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &metav1.Time{} }, "default/app", ""},
		"Staged":  {"nothing was ordered to be deployed yet", named, func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "" }, "default/app", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := deployed(c.options)
			if c.change != nil {
				c.change(bd)
			}
			got := ""
			if r, ok := Replaces(bd, "app", release.ParseID(c.to)); ok {
				got = r.String()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
		})
	}
}

func TestLoses(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*fleet.BundleDeployment)
		want   bool
	}{
		"Applied":       {"its objects go", func(*fleet.BundleDeployment) {}, true},
		"KeepResources": {"they stay", func(bd *fleet.BundleDeployment) { bd.Spec.Options.KeepResources = true }, false},
		"KeepIsNew": {"keepResources of a version that was not applied is not in the release",
			func(bd *fleet.BundleDeployment) { bd.Spec.Options.KeepResources, bd.Spec.DeploymentID = true, "s-2:b" }, true},
		"NeverReported": {"there is none", func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = "" }, false},
		"Failed":        {"a release that failed may have objects", func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID, bd.Status.Release = "", "shop/app:1" }, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := deployed(fleet.BundleDeploymentOptions{})
			if c.change(bd); LosesObjects(bd) != c.want {
				t.Errorf("%s: want %t", c.why, c.want)
			}
		})
	}
	bd := deployed(fleet.BundleDeploymentOptions{TargetNamespace: "shop", DeleteNamespace: true, KeepResources: true}, kinds...)
	if got, want := written(ReplacedObjects("w/c1", bd)), "PersistentVolumeClaim x on w/c1, Namespace x on w/c1"; got != want {
		t.Errorf("the namespace of a release that is replaced stays: want %s, got %s", want, got)
	}
}

// What goes on at once, and what is judged as a list.
func TestPart(t *testing.T) {
	gone := func(name string, things ...DataObject) Item { return Item{Name: name, DataObjects: things} }
	moved := func(name string, things ...DataObject) Item {
		return Item{Name: name, DataObjects: things, Replaced: []string{"release a/" + name + " becomes b/" + name}}
	}
	cases := map[string]struct {
		why        string
		items      []Item
		also       int
		free, rest string
	}{
		"Few":        {why: "within the budget", items: []Item{gone("a"), moved("b"), moved("c")}, free: "a b c"},
		"Many":       {why: "above it, as a whole", items: []Item{gone("a"), moved("b"), moved("c"), moved("d")}, rest: "a b c d"},
		"WithOthers": {why: "what went before counts", items: []Item{moved("b"), moved("c")}, also: 2, rest: "b c"},
		"Volume":     {why: "others move on without the one that has a volume", items: []Item{moved("a", claim), moved("b"), gone("c")}, free: "b c", rest: "a"},
		"RemovedVolume": {why: "Bundles that are removed go together, and are no reason to hold a release",
			items: []Item{gone("a", claim), gone("b"), moved("c")}, free: "c", rest: "a b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			free, rest := Part(Removal{Unit: "bundle", Items: c.items, Also: c.also, Total: 10, Budget: BundleBudget})
			if got := names(free.Items) + "|" + names(rest.Items); got != c.free+"|"+c.rest {
				t.Errorf("%s: want %s|%s, got %s", c.why, c.free, c.rest, got)
			}
			if v := DecideRemoval(rest); v.Held != (c.rest != "") {
				t.Errorf("the rest is held: %+v", v)
			}
		})
	}
	free, rest := Part(Removal{Unit: "bundle", Items: []Item{moved("a", claim)}, Total: 1, Budget: Budget{off: true}})
	if names(free.Items) != "a" || len(rest.Items) != 0 {
		t.Errorf("a budget that is off holds nothing: %s|%s", names(free.Items), names(rest.Items))
	}
}

func names(items []Item) string {
	var out []string
	for _, item := range items {
		out = append(out, item.Name)
	}
	return strings.Join(out, " ")
}
