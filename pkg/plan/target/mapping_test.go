package target

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func mapping(name string, bundles, namespaces *metav1.LabelSelector) *fleet.BundleNamespaceMapping {
	return &fleet.BundleNamespaceMapping{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "home", Name: name},
		BundleSelector: bundles, NamespaceSelector: namespaces,
	}
}

func TestReach(t *testing.T) {
	every := &metav1.LabelSelector{}
	namespaces := map[string]map[string]string{
		"home":   {"team": "home"},
		"shops":  {"team": "shops", "open": "yes"},
		"depots": {"team": "depots", "open": "yes"},
		"plain":  nil,
	}
	bundle := labelled("app", "web")
	cases := map[string]struct {
		why  string
		list []*fleet.BundleNamespaceMapping
		want []string
	}{
		"None":  {why: "without a mapping a Bundle stays at home"},
		"Match": {why: "the plain case", list: []*fleet.BundleNamespaceMapping{mapping("m", match("app", "web"), match("open", "yes"))}, want: []string{"depots", "shops"}},
		"OtherBundle": {why: "a mapping is for the Bundles that it names",
			list: []*fleet.BundleNamespaceMapping{mapping("m", match("app", "db"), every)}},
		"NoBundleSelector": {why: "an absent selector is not an empty one",
			list: []*fleet.BundleNamespaceMapping{mapping("m", nil, every)}},
		"NoNamespaceSelector": {why: "an absent selector is not an empty one",
			list: []*fleet.BundleNamespaceMapping{mapping("m", every, nil)}},
		"Everything": {why: "{} is everything, but home needs no mapping",
			list: []*fleet.BundleNamespaceMapping{mapping("m", every, every)}, want: []string{"depots", "plain", "shops"}},
		"Several": {why: "mappings add up",
			list: []*fleet.BundleNamespaceMapping{mapping("a", every, match("team", "shops")), mapping("b", every, match("team", "depots")), mapping("c", match("app", "db"), every)},
			want: []string{"depots", "shops"}},
		"OneIsBroken": {why: "the others are not touched by one that cannot be read",
			list: []*fleet.BundleNamespaceMapping{mapping("a", match("a b", ""), every), mapping("b", every, match("team", "shops"))},
			want: []string{"shops"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := CompileMappings(c.list).ReachOf("home", bundle, namespaces)
			if diff := cmp.Diff(c.want, r.Namespaces()); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// Each answer says why, also when it is no.
func TestReachSaysWhy(t *testing.T) {
	r := CompileMappings([]*fleet.BundleNamespaceMapping{
		mapping("z", &metav1.LabelSelector{}, match("open", "yes")), mapping("a", &metav1.LabelSelector{}, match("open", "yes")),
	}).ReachOf("home", nil, map[string]map[string]string{"shops": {"open": "yes"}, "depots": nil})
	for namespace, want := range map[string]string{
		"home":   "true the Bundle's own namespace",
		"shops":  `true BundleNamespaceMapping "a" leads from home to shops`,
		"depots": "false no BundleNamespaceMapping leads the Bundle from home to depots",
		"gone":   "false no BundleNamespaceMapping leads the Bundle from home to gone",
	} {
		ok, why := r.Includes(namespace)
		got := "false " + why
		if ok {
			got = "true " + why
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", namespace, got, want)
		}
	}
}

func TestMappingFault(t *testing.T) {
	good := mapping("good", &metav1.LabelSelector{}, &metav1.LabelSelector{})
	if err := CompileMappings([]*fleet.BundleNamespaceMapping{good}).Fault(); err != nil {
		t.Errorf("a mapping that can be read has a fault: %v", err)
	}
	broken := mapping("broken", &metav1.LabelSelector{}, match("a b", "c"))
	err := CompileMappings([]*fleet.BundleNamespaceMapping{good, broken}).Fault()
	if err == nil || !strings.Contains(err.Error(), `namespaceSelector of BundleNamespaceMapping "broken"`) {
		t.Errorf("got %v", err)
	}
	other := mapping("a", match("a b", "c"), &metav1.LabelSelector{})
	r := CompileMappings([]*fleet.BundleNamespaceMapping{other, broken}).ReachOf("home", nil, nil)
	if err := r.Fault(); err == nil || !strings.HasPrefix(err.Error(), `bundleSelector of BundleNamespaceMapping "a"`) || !strings.HasSuffix(err.Error(), "(and 1 more)") {
		t.Errorf("got %v", r.Fault())
	}
}

func TestCompareClusters(t *testing.T) {
	a, b := &Cluster{Namespace: "z", Name: "a"}, &Cluster{Namespace: "a", Name: "b"}
	c := &Cluster{Namespace: "b", Name: "b"}
	if CompareClusters(a, b) >= 0 || CompareClusters(b, c) >= 0 || CompareClusters(c, b) <= 0 || CompareClusters(a, a) != 0 {
		t.Error("by name first, then by namespace")
	}
}
