package dependency

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func node(name string, state fleet.BundleState, refs ...fleet.BundleRef) Node {
	return Node{Name: name, State: state, DependsOn: refs, Labels: map[string]string{
		fleet.LabelBundleName: name, fleet.LabelBundleNamespace: "ws", "name": name,
	}}
}

func on(name string, states ...fleet.BundleState) fleet.BundleRef {
	return fleet.BundleRef{Name: name, AcceptedStates: states}
}

func byLabel(k, v string) fleet.BundleRef {
	return fleet.BundleRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}}
}

func elsewhere(n Node) Node {
	n.Labels[fleet.LabelBundleNamespace] = "other"
	return n
}

func tier(n Node) Node {
	n.Labels["tier"] = "db"
	return n
}

// Messages about dependencies are recognized, those of rancher/fleet and of this project.
func TestMessages(t *testing.T) {
	cases := map[string]struct {
		message          string
		plain            string
		missing, unready bool
	}{
		"Reference": {"dependent bundle(s) are not ready: [a b]", "dependent bundle(s) are not ready: [a b]", false, true},
		"NotReady":  {"dependent bundle(s) are not ready: [a]; depends on a, which is NotReady", "depends on a, which is NotReady", false, true},
		"Plain":     {"depends on a, which is NotReady", "depends on a, which is NotReady", false, true},
		"Cycle":     {"dependent bundle(s) are not ready: [a]; dependsOn goes in a circle: a -> a", "dependsOn goes in a circle: a -> a", false, false},
		"Missing":   {"list bundledeployments: no bundles matching labels a=b in namespace ws", "list bundledeployments: no bundles matching labels a=b in namespace ws", true, false},
		"Absent":    {"list bundledeployments: no bundles matching labels a=b in namespace ws; not on this cluster: bundle \"b\"", "waits for what is not on this cluster: bundle \"b\"", true, false},
		"AbsentNow": {"waits for what is not on this cluster: bundle \"b\"", "waits for what is not on this cluster: bundle \"b\"", true, false},
		"Other":     {"Forbidden [a]; depends on the account", "Forbidden [a]; depends on the account", false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PlainMessage(c.message); got != c.plain {
				t.Errorf("want %q, got %q", c.plain, got)
			}
			if got := IsCyclicMessage(c.message); got != (name == "Cycle") {
				t.Errorf("cyclic %t", got)
			}
			if missing, unready := IsMissingMessage(c.message), IsUnreadyMessage(c.message); missing != c.missing || unready != c.unready {
				t.Errorf("missing %t, unready %t", missing, unready)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		why  string
		node Node
		rest []Node
		want Verdict
	}{
		"None":  {"nothing to wait for", node("a", fleet.WaitApplied), nil, Verdict{}},
		"Ready": {"what it depends on is ready", node("b", fleet.WaitApplied, on("a")), []Node{node("a", fleet.Ready)}, Verdict{}},
		"NotReady": {
			"and here it is not", node("b", fleet.WaitApplied, on("a")), []Node{node("a", fleet.NotReady)},
			Verdict{ReasonNotReady, "dependent bundle(s) are not ready: [a]; depends on a, which is NotReady"},
		},
		"SeveralNotReady": {
			"the reference names them by entry and by name, and one of two entries twice", node("z", fleet.WaitApplied, on("y"), byLabel("tier", "db"), on("y")),
			[]Node{node("y", fleet.ErrApplied), tier(node("c", fleet.NotReady)), tier(node("b", fleet.Pending))},
			Verdict{ReasonNotReady, "dependent bundle(s) are not ready: [y b c y]; depends on b, which is Pending; c, which is NotReady; y, which is ErrApplied"},
		},
		"Accepted": {
			"a state that is accepted counts as met", node("b", fleet.WaitApplied, on("a", fleet.Ready, fleet.Modified)),
			[]Node{node("a", fleet.Modified)}, Verdict{},
		},
		"ReadyIsNotAccepted": {
			"who names states means those alone", node("b", fleet.WaitApplied, on("a", fleet.NotReady)), []Node{node("a", fleet.Ready)},
			Verdict{ReasonNotReady, "dependent bundle(s) are not ready: [a]; depends on a, which is Ready (accepted: NotReady)"},
		},
		"Missing": {
			"a name that is on no other cluster but this", node("b", fleet.WaitApplied, on("x")), []Node{node("a", fleet.Ready)},
			Verdict{ReasonNotReady, `list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=x,fleet.cattle.io/bundle-namespace=ws in namespace ws; not on this cluster: bundle "x"`},
		},
		"AllMissing": {
			"the first one in the words of the reference, then all by name", node("b", fleet.WaitApplied, on("y"), on("x")), nil,
			Verdict{ReasonNotReady, `list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=y,fleet.cattle.io/bundle-namespace=ws in namespace ws; not on this cluster: bundle "x"; bundle "y"`},
		},
		"NameAndSelectorMissing": {
			"both count, and the selector of the reference is not changed", node("b", fleet.WaitApplied, fleet.BundleRef{Name: "x", Selector: byLabel("tier", "db").Selector}), nil,
			Verdict{ReasonNotReady, `list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=x,fleet.cattle.io/bundle-namespace=ws,tier=db in namespace ws; not on this cluster: bundle "x" with labels tier=db`},
		},
		"OtherNamespace": {
			"a name means a bundle of the same namespace", node("b", fleet.WaitApplied, on("a")), []Node{elsewhere(node("a", fleet.Ready))},
			Verdict{ReasonNotReady, `list bundledeployments: no bundles matching labels fleet.cattle.io/bundle-name=a,fleet.cattle.io/bundle-namespace=ws in namespace ws; not on this cluster: bundle "a"`},
		},
		"SelectorOfAnyNamespace": {
			"labels do not look at it", node("b", fleet.WaitApplied, byLabel("name", "a")), []Node{elsewhere(node("a", fleet.Ready))}, Verdict{},
		},
		"SelectorOfNothing": {
			"labels that no bundle has", node("b", fleet.WaitApplied, byLabel("tier", "db")), []Node{node("a", fleet.Ready)},
			Verdict{ReasonNotReady, "list bundledeployments: no bundles matching labels tier=db in namespace ws; not on this cluster: bundles with labels tier=db"},
		},
		"OwnLabels": {
			"labels that it has itself as well do not stop it", node("b", fleet.WaitApplied, byLabel(fleet.LabelBundleNamespace, "ws")),
			[]Node{node("a", fleet.Ready), node("b", fleet.WaitApplied)}, Verdict{},
		},
		"EmptyReference": {
			"an entry without name and selector means nothing, as in the reference", node("b", fleet.WaitApplied, fleet.BundleRef{}),
			[]Node{node("a", fleet.NotReady)}, Verdict{},
		},
		"Cycle": {
			"all who wait for each other are named, from each of them", node("a", fleet.WaitApplied, on("b")),
			[]Node{node("b", fleet.WaitApplied, on("c")), node("c", fleet.WaitApplied, on("a")), node("d", fleet.Ready)},
			Verdict{ReasonCycle, "dependent bundle(s) are not ready: [b]; dependsOn goes in a circle: a -> b -> c -> a; take out one of them"},
		},
		"Self": {
			"a bundle that names itself", node("a", fleet.WaitApplied, on("a")), nil,
			Verdict{ReasonCycle, "dependent bundle(s) are not ready: [a]; dependsOn goes in a circle: a -> a; take out one of them"},
		},
		"CycleOfOthers": {
			"who waits for a cycle is not part of it", node("d", fleet.WaitApplied, on("a")),
			[]Node{node("a", fleet.WaitApplied, on("b")), node("b", fleet.WaitApplied, on("a"))},
			Verdict{ReasonNotReady, "dependent bundle(s) are not ready: [a]; depends on a, which is WaitApplied"},
		},
		"CycleThatRuns": {
			"bundles that are ready hold up no other, whatever they depend on", node("a", fleet.OutOfSync, on("b")),
			[]Node{node("b", fleet.Ready, on("a"))}, Verdict{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Check(c.node, append(c.rest, c.node))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestJudgeInvalid(t *testing.T) {
	bad := fleet.BundleRef{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}}
	_, err := Check(node("a", fleet.WaitApplied, bad), nil)
	if !reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != ReasonInvalid {
		t.Errorf("only a change of the selector helps: got %v", err)
	}
}

func TestConcerns(t *testing.T) {
	a, b := node("a", fleet.Ready), node("b", fleet.WaitApplied, on("a"))
	if !DependsOn(b, a) {
		t.Error("a change of a wakes b up")
	}
	if DependsOn(a, b) {
		t.Error("a change of b wakes no deployment")
	}
}
