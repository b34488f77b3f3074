package pods

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// own is the namespace of what the lower manager deploys.
const own = "harvester-system"

// A downstream cluster gets a manager of its own, as a Harvester has it: with a
// Rancher that knows its own cluster only and installs what belongs to it through
// Fleet. Both managers have an agent there, neither harms what is the other's, and
// the lower one can be removed.
func (w *world) harvesterDownstream() {
	second := w.lowerComes()
	w.noHarvester()
	w.bothAgain()

	ofUpper, deployed := w.ofUpper(), w.lives(w.west, own)
	w.west.ends = time.Now()
	second.Uninstall(w)
	w.uninstall(w.west, "fleet")
	w.uninstall(w.west, "fleet-crd")
	w.publish("still here")
	w.greets(w.west, "still here")
	w.checksIn(w.local, team, w.west.known, time.Now(), after)
	w.unharmed("the upper manager's, when the lower one is removed", ofUpper, w.ofUpper())
	w.unharmed("what the lower manager had deployed", deployed, w.lives(w.west, own))
}

// ofUpper are the lives on west of the upper manager's agent and of what that has
// deployed.
func (w *world) ofUpper() []string {
	return slices.Concat(w.lives(w.west, fleet.NamespaceSystem, "fleet-agent"), w.lives(w.west, "shop"), w.lives(w.west, "kept"))
}

// ofLower are those of west's own manager, of its agent, and of what that has deployed.
func (w *world) ofLower() []string {
	return slices.Concat(w.lives(w.west, fleet.NamespaceSystem, "fleet-controller", "gitjob", "helmops"), w.lives(w.west, fleet.NamespaceLocalAgent), w.lives(w.west, own))
}

// lowerComes installs a manager on west, and a Rancher without multi-cluster
// management. What that wants to run there runs, and there is no default workspace.
func (w *world) lowerComes() *rancher.Rancher {
	ofUpper, began := w.ofUpper(), time.Now()
	w.install(w.west, "fleet-crd", nil)
	second := rancher.NewAt(w.root, harness.ConnectHub(w.root, w.west.cluster), node.WireAddress)
	second.Put(w, rancher.Features, "", "multi-cluster-management", `{"spec":{"value":false},"status":{"default":true}}`)
	second.Start(w.root)
	values := rancherValues(w.west)
	values["image"], values["agentImage"], values["agentCheckinInterval"] = imageOf(after), imageOf(after), "10s"
	w.install(w.west, "fleet", values)
	w.until("both agents and the lower manager run", func(context.Context) string {
		if why := w.running(w.west, fleet.NamespaceSystem, after, "fleet-agent", "fleet-controller", "gitjob", "helmops"); why != "" {
			return why
		}
		return w.running(w.west, fleet.NamespaceLocalAgent, after, "fleet-agent")
	})
	create(w, w.west, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceLocal, Name: "mcc-harvester"},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: own},
			Resources:               []fleet.BundleResource{{Name: "web.yaml", Content: webDeployment}},
			Targets:                 []fleet.BundleTarget{{ClusterName: fleet.ClusterLocal}},
		},
	})
	w.webRuns(w.west, own)
	w.Logf("NUMBER manager installed in a downstream cluster -> its own bundle runs there: %s", w.since(began))
	if _, gone := get[*corev1.Namespace](w, w.west, "", fleet.NamespaceDefault); gone == "" {
		w.Error("without multi-cluster management there is no default workspace, and there is its namespace")
	}
	w.unharmed("the upper manager's", ofUpper, w.ofUpper())
	return second
}

// bothAgain lets the agent of either manager register once more.
func (w *world) bothAgain() {
	lower := w.ofLower()
	w.registersAgain(w.local, func() { w.redeployAgent(w.local, team, w.west.known) })
	w.checksIn(w.local, team, w.west.known, time.Now(), after)
	w.unharmed("the lower manager's, when the upper one's agent registers again", lower, w.ofLower())

	upper := w.ofUpper()
	w.registersAgain(w.west, func() { w.redeployAgent(w.west, fleet.NamespaceLocal, fleet.ClusterLocal) })
	w.checksIn(w.west, fleet.NamespaceLocal, fleet.ClusterLocal, time.Now(), after)
	w.unharmed("the upper manager's, when the lower one's agent registers again", upper, w.ofUpper())
}

// redeployAgent asks a manager to install the agent of one of its clusters
// again.
func (w *world) redeployAgent(manager *site, workspace, name string) {
	w.Helper()
	change(w, manager, workspace, name, func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration++ })
}

// noHarvester: what is meant for Harvesters goes to west, which is one, and to no
// other cluster; what is not meant for them goes to the others.
func (w *world) noHarvester() {
	w.Helper()
	const label = "provider.cattle.io"
	says := func(value string) {
		w.Helper()
		text := "null"
		if value != "" {
			text = `"` + value + `"`
		}
		w.rancher.Patch(w, rancher.Clusters, "", westID, `{"metadata":{"labels":{"`+label+`":`+text+`}}}`)
		w.until("the Cluster says what it is", func(context.Context) string {
			c, gone := get[*fleet.Cluster](w, w.local, team, w.west.known)
			if gone == "" && c.Labels[label] != value {
				return text + " " + c.Labels[label]
			}
			return gone
		})
	}
	says("harvester")
	meant := func(name string, in metav1.LabelSelectorOperator) {
		w.Helper()
		create(w, w.local, &fleet.Bundle{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name},
			Spec: fleet.BundleSpec{
				Resources: []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", "one")}},
				Targets: []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: label, Operator: in, Values: []string{"harvester"}},
				}}}},
				BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: name},
			},
		})
	}
	// What is there proves that the manager knows of the label: from then on nothing else
	// may go there, not for a moment. In the end the same holds for what is removed.
	there := func(want bool) {
		w.Helper()
		w.until(fmt.Sprintf("what is meant for Harvesters is there: %t", want), func(ctx context.Context) string {
			_, err := w.west.core.CoreV1().ConfigMaps("there").Get(ctx, "a", metav1.GetOptions{})
			if err == nil && want || apierrors.IsNotFound(err) && !want {
				return ""
			}
			return fmt.Sprint(err)
		})
	}
	meant("there", metav1.LabelSelectorOpIn)
	there(true)
	meant("elsewhere", metav1.LabelSelectorOpNotIn)
	for name, want := range map[string]int{"elsewhere": 0, "there": 1} { // west is alone in its workspace
		w.until("Bundle "+name+" is targeted", func(context.Context) string {
			b, gone := get[*fleet.Bundle](w, w.local, team, name)
			if gone == "" && (b.Status.ObservedGeneration != b.Generation || b.Status.Summary.DesiredReady != want) {
				return fmt.Sprintf("generation %d of %d goes to %d clusters", b.Status.ObservedGeneration, b.Generation, b.Status.Summary.DesiredReady)
			}
			return gone
		})
	}
	for _, name := range []string{"elsewhere", "there"} {
		w.must(kube.StoreOf[*fleet.Bundle](w.local.client).Delete(w.Context(), kube.Key{Namespace: team, Name: name}, kube.Precondition{}))
	}
	there(false)
	says("")
}
