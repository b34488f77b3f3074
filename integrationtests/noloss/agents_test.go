package noloss

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// two are the agents of one cluster that belong to two managers: the downstream
// agent of an upper one, and the local agent of the cluster's own.
type two struct {
	*testing.T
	upper, lower *site
}

// twoAgents reports how two agents live in one cluster, one part after the other.
func twoAgents(t *testing.T, hub *harness.Hub) {
	w := &two{T: t,
		upper: &site{harness.NewSiteIn(t, hub, hub, "upper", fleet.NamespaceSystem)},
		lower: &site{harness.NewSiteIn(t, hub, hub, "lower", fleet.NamespaceLocalAgent)},
	}
	w.lower.setMark(fmt.Sprintf("m2/1/%d", fleet.ProtocolVersion))
	w.lower.Config.OrphanPolicy, w.lower.Config.OrphanGracePeriod = agent.OrphansCollected, grace
	w.upper.Start()
	w.lower.Start()
	for _, part := range []struct {
		name string
		run  func(*two)
	}{
		{"BothWork", bothWork}, {"SameRelease", sameRelease}, {"SameObject", sameObject},
		{"SameName", sameName}, {"EmptyNeighbour", emptyNeighbour},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(&two{T: t, upper: &site{w.upper.For(t)}, lower: &site{w.lower.For(t)}})
		})
	}
}

// Both agents report to their managers, with a credential and a store of their own.
func bothWork(w *two) {
	for _, s := range []*site{w.upper, w.lower} {
		s.app()
		s.Until("there is a sign of life of "+s.Name, func() bool {
			c, err := kube.StoreOf[*fleet.Cluster](s.Hub.Admin).Get(s.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name})
			s.Must(err)
			return c.Status.Agent.Namespace == s.Namespace && !c.Status.Agent.LastSeen.IsZero()
		})
		if _, ok := s.Record(app); !ok {
			s.Errorf("%s keeps no record", s.Name)
		}
	}
	secrets := kube.StoreOf[*corev1.Secret](w.upper.Down.Admin)
	a, err := secrets.Get(w.Context(), kube.Key{Namespace: w.upper.Namespace, Name: fleet.SecretAgent})
	w.upper.Must(err)
	b, err := secrets.Get(w.Context(), kube.Key{Namespace: w.lower.Namespace, Name: fleet.SecretAgent})
	w.upper.Must(err)
	if string(a.Data["kubeconfig"]) == string(b.Data["kubeconfig"]) {
		w.Error("both have the same credential")
	}
}

// The agent that comes second to a release reports a conflict for as long as it
// is asked to have the release, and leaves it alone; also with takeOwnership, and
// also when it is ordered to remove it.
func sameRelease(w *two) {
	both := func(value string, take bool) harness.Order {
		return harness.Order{Files: files(value), Options: fleet.BundleDeploymentOptions{
			DefaultNamespace: "upper-both", Helm: &fleet.HelmOptions{ReleaseName: "both", TakeOwnership: take},
		}}
	}
	w.upper.Order("both", both("one", false))
	w.upper.State("both", fleet.Ready)
	before, since := w.upper.objects(), w.upper.Moment()
	w.lower.Order("both", both("two", false))
	w.lower.Says("both", fleet.ConditionDeployed, release.ReasonForeignRelease, fleet.NamespaceSystem)
	w.lower.Order("both", both("three", true))
	w.lower.Says("both", fleet.ConditionDeployed, release.ReasonForeignRelease, fleet.NamespaceSystem)
	version := w.upper.Deployment("both").ResourceVersion
	for i := range 5 { // wake-ups that flapping would begin with
		w.lower.Mark("both", func(a map[string]string) { a["test"] = fmt.Sprint(i) })
		w.upper.Mark("both", func(a map[string]string) { a["test"] = fmt.Sprint(i) })
	}
	w.lower.Restart()
	w.lower.works()
	if bd := w.upper.State("both", fleet.Ready); bd.Status.Release != "upper-both/both:1" || w.upper.Data("upper-both", "a") != "one" {
		w.Errorf("flapping from version %s on: %q", version, bd.Status.Release)
	}
	w.lower.Withdraw("both", "o1")
	w.lower.Answered("both", "o1")
	w.upper.unharmed(before, since)

	w.upper.Withdraw("both", "o1")
	w.upper.Answered("both", "o1")
	if w.upper.Data("upper-both", "a") != "" {
		w.Error("the owner's order counts")
	}
}

// Objects of the other agent's release are not taken over by a release of another
// name, and do not go with it.
func sameObject(w *two) {
	at := fleet.BundleDeploymentOptions{DefaultNamespace: "upper-object"}
	w.upper.Order("mine", harness.Order{Files: files("one"), Options: at})
	w.upper.State("mine", fleet.Ready)
	before, since := w.upper.objects(), w.upper.Moment()
	w.lower.Order("yours", harness.Order{Files: files("two"), Options: at})
	w.lower.Says("yours", fleet.ConditionInstalled, release.ReasonNotOwned, "")
	w.lower.Withdraw("yours", "o1")
	w.lower.Answered("yours", "o1")
	w.upper.unharmed(before, since)
	if w.upper.Data("upper-object", "a") != "one" {
		w.Error("the other agent has changed it")
	}
}

// Deployments of the same name in both have nothing to do with each other: not
// their objects' marks, not their records, not their removal.
func sameName(w *two) {
	for _, s := range []*site{w.upper, w.lower} {
		s.Order("twin", harness.Order{Files: files("one")})
		s.State("twin", fleet.Ready)
	}
	hash := func(s *site) string {
		cm, err := kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Get(s.Context(), kube.Key{Namespace: s.Home("twin"), Name: "a"})
		s.Must(err)
		return cm.Labels[fleet.LabelObjectSetHash]
	}
	if hash(w.upper) == hash(w.lower) || hash(w.upper) == "" {
		w.Error("their objects bear the same mark")
	}
	before, since := w.upper.objects(), w.upper.Moment()
	w.lower.Withdraw("twin", "o1")
	w.lower.Answered("twin", "o1")
	w.upper.unharmed(before, since)
	if w.lower.Data(w.lower.Home("twin"), "a") != "" {
		w.Error("the order was not carried out")
	}
}

// An agent whose namespace is empty collects its own orphans and no others.
func emptyNeighbour(w *two) {
	before, since := w.upper.objects(), w.upper.Moment()
	names := func() []string {
		list, err := kube.StoreOf[*fleet.BundleDeployment](w.lower.Hub.Admin).List(w.Context(), w.lower.Deployments, "")
		w.lower.Must(err)
		var out []string
		for _, bd := range list {
			out = append(out, bd.Name)
		}
		return out
	}
	for _, name := range names() {
		w.lower.DeleteDeployment(name)
	}
	w.lower.Restart()
	w.lower.Until("its own are collected", func() bool { return len(w.lower.objects()) == 0 })
	w.lower.Until("no orphan is left", func() bool { return len(w.lower.Orphans()) == 0 })
	w.upper.unharmed(before, since)
}
