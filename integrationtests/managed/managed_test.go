package managed

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A sharedCluster is one cluster, in which an upper manager has an agent and a
// lower one lives, with its own agent. A third manager, which lives in a
// namespace that the test chooses, comes later.
type sharedCluster struct {
	world
	upper, lower *manager
	meet         *harness.Hub // the cluster of both agents
	other        *harness.Hub // the cluster of the third manager
	kubelet      *kubelet
	shared       time.Time // since when namespaces bear Rancher's annotation
}

// Names in the test.
const (
	downstreamAgent = fleet.NamespaceSystem     // namespace of the upper manager's agent
	localAgent      = fleet.NamespaceLocalAgent // namespace of the lower manager's agent
	otherSystem     = "fleet-other"             // namespace of the third manager, and of its agents
)

// Two managers share a cluster in peace, whatever happens to either.
func TestTwoManagers(t *testing.T) {
	t.Parallel()
	w := world{t, t}
	hubs := harness.MemoryHubs(w, "upper", "other")
	meeting := harness.ConnectHub(w, harness.MemoryWithPods(w, "meeting"))
	s := &sharedCluster{world: w, meet: meeting, other: hubs[1]}
	s.upper = w.newManager(hubs[0], fleet.NamespaceSystem, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	s.kubelet = w.agentsOf(s.meet, downstreamAgent, localAgent, otherSystem)
	t.Run("22_two_managers_one_cluster", func(t *testing.T) {
		for i, part := range []struct {
			name string
			run  func(*sharedCluster)
		}{
			{"WithoutKinds", withoutKinds}, {"T8_DefaultInstallBesideAnAgent", defaultInstall}, {"T1_BothReady", bothReady},
			{"T12_OneNode", oneNode}, {"T3_SameRelease", sameRelease}, {"18_FleetAsABundle", fleetAsABundle}, {"T6_SetsDiffer", setsDiffer},
			{"T4_EmptyNeighbour", emptyNeighbour}, {"RedeployEither", redeployEither}, {"AtRest", atRest},
			{"T9_ChartBesideAnAgent", chartBesideAnAgent}, {"T9b_UpperElsewhere", upperElsewhere}, {"23_EachOther", eachOther},
			{"T2_LowerAgentRemoved", lowerAgentRemoved}, {"T7_LowerUninstalled", lowerUninstalled},
			{"T10_NamespacesUntouched", namespacesUntouched},
		} {
			ok := t.Run(part.name, func(t *testing.T) { part.run(s.part(t)) })
			if !ok && i < 2 {
				return // there are no two agents
			}
		}
	})
}

// part is the test for one part of it.
func (s *sharedCluster) part(t *testing.T) *sharedCluster {
	s.world = s.in(t)
	s.upper.world, s.lower = s.world, s.lowerIn(s.world)
	return s
}

func (s *sharedCluster) lowerIn(w world) *manager {
	if s.lower != nil {
		s.lower.world = w
	}
	return s.lower
}

// ofUpper and ofLower are what belongs to an agent in the shared cluster.
func (s *sharedCluster) ofUpper() map[string]string {
	s.Helper()
	return s.objects(s.meet, ofAgent(downstreamAgent, s.upper.id(), "upper-"))
}

func (s *sharedCluster) ofLower() map[string]string {
	s.Helper()
	return s.objects(s.meet, ofAgent(localAgent, s.lower.id(), "lower-"))
}

// unharmed fails if the objects of one manager differ from before.
func (s *sharedCluster) unharmed(whose string, before, now map[string]string) {
	s.Helper()
	if diff := cmp.Diff(before, now); diff != "" {
		s.Errorf("what belongs to %s was touched: -before +after\n%s", whose, diff)
	}
}

// onUpper and onLower are the Clusters of the shared cluster.
func (s *sharedCluster) onUpper() *fleet.Cluster {
	return s.upper.cluster(fleet.NamespaceDefault, "meeting")
}
func (s *sharedCluster) onLower() *fleet.Cluster {
	return s.lower.cluster(fleet.NamespaceLocal, fleet.ClusterLocal)
}

// wishes are the settings of both Clusters for their agents: the network of the
// node, a priority, and a disruption budget.
func wishes(priority int) fleet.ClusterSpec {
	yes := true
	return fleet.ClusterSpec{HostNetwork: &yes, AgentSchedulingCustomization: &fleet.AgentSchedulingCustomization{
		PriorityClass:       &fleet.PriorityClassSpec{Value: priority},
		PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
	}}
}

// The upper manager installs its agent in a cluster that has none of Fleet's
// kinds, and the agent works.
func withoutKinds(s *sharedCluster) {
	s.upper.run()
	harness.Make(s.world, s.upper.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "meeting-kubeconfig"},
		Data:       map[string][]byte{"value": s.meet.Administrator(s, "upper-importer")},
	})
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "meeting"}, Spec: wishes(1000)}
	c.Spec.KubeConfigSecret = "meeting-kubeconfig"
	harness.Make(s.world, s.upper.hub, c)
	s.upper.bundle("meeting", fleet.NamespaceDefault, "app", "upper-app", "one")
	s.upper.checksIn(fleet.NamespaceDefault, "meeting", downstreamAgent)
	s.upper.ready(fleet.NamespaceDefault, "app")
	for name := range s.objects(s.meet, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }) {
		if strings.HasSuffix(name, fleet.Group) {
			s.Errorf("an agent brings no kinds along: %s", name)
		}
	}
}

// Our charts, as they are, are installed where a downstream agent lives already:
// the local agent goes elsewhere.
func defaultInstall(s *sharedCluster) {
	s.upper.settled("meeting")
	before := s.ofUpper()
	s.lower = s.newManager(s.meet, fleet.NamespaceSystem, nil)
	s.meet.Namespace(s, fleet.NamespaceLocal)
	harness.Make(s.world, s.meet, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceLocal, Name: fleet.ClusterLocal}, Spec: wishes(2000),
	})
	s.lower.run()
	s.lower.bundle(fleet.ClusterLocal, fleet.NamespaceLocal, "app", "lower-app", "one")
	s.lower.checksIn(fleet.NamespaceLocal, fleet.ClusterLocal, localAgent)
	s.lower.ready(fleet.NamespaceLocal, "app")
	s.unharmed("the upper manager", before, s.ofUpper())
	s.annotates()
}

// settled waits until a manager is through with the agent of a Cluster: its bundle is
// what it was installed with, and the agent has deployed that. A bundle that is Ready may
// be one of before, which the manager has not changed yet.
func (m *manager) settled(cluster string) {
	m.Helper()
	m.until("the agent has its bundle", func() bool {
		b, ok := harness.Read[*fleet.Bundle](m.world, m.hub, fleet.NamespaceDefault, "fleet-agent-"+cluster)
		r := clusterimport.RecordOf(m.cluster(fleet.NamespaceDefault, cluster))
		return ok && b.Status.ObservedGeneration == b.Generation && b.Status.Summary.Ready == 1 && r != nil && r.Own == ""
	})
}

// Both Clusters are Ready, with a credential, rights and priorities of their own.
func bothReady(s *sharedCluster) {
	s.upper.checksIn(fleet.NamespaceDefault, "meeting", downstreamAgent)
	s.lower.checksIn(fleet.NamespaceLocal, fleet.ClusterLocal, localAgent)
	a, ok := harness.Read[*corev1.Secret](s.world, s.meet, downstreamAgent, fleet.SecretAgent)
	b, ok2 := harness.Read[*corev1.Secret](s.world, s.meet, localAgent, fleet.SecretAgent)
	if !ok || !ok2 || string(a.Data[registration.KeyKubeconfig]) == string(b.Data[registration.KeyKubeconfig]) {
		s.Error("the agents have no credentials of their own")
	}
	for _, agent := range []string{downstreamAgent, localAgent} {
		d, ok := harness.Read[*appsv1.Deployment](s.world, s.meet, agent, "fleet-agent")
		if !ok {
			s.Fatalf("no agent in %s", agent)
		}
		class := d.Spec.Template.Spec.PriorityClassName
		if _, ok := harness.Read[*schedulingv1.PriorityClass](s.world, s.meet, "", class); !ok || !strings.HasPrefix(class, agent+"-") {
			s.Errorf("the agent in %s has priority class %q", agent, class)
		}
	}
	both, theirs := s.ofUpper(), s.ofLower()
	maps.DeleteFunc(both, func(name, _ string) bool { _, too := theirs[name]; return !too })
	if len(both) > 0 {
		s.Errorf("this belongs to both: %v", both)
	}
}

// Both agents are in the network of one node: neither asks for a port.
func oneNode(s *sharedCluster) {
	nodes := map[string]string{}
	for _, agent := range []string{downstreamAgent, localAgent} {
		s.until("the pod of the agent in "+agent+" runs", func() bool {
			pods, err := s.meet.Client.CoreV1().Pods(agent).List(s.Context(), metav1.ListOptions{LabelSelector: "app=fleet-agent"})
			s.must(err)
			for _, p := range pods.Items {
				if p.Status.Phase == corev1.PodRunning && p.Spec.HostNetwork {
					nodes[agent] = p.Spec.NodeName
				}
			}
			return nodes[agent] != ""
		})
		d, _ := harness.Read[*appsv1.Deployment](s.world, s.meet, agent, "fleet-agent")
		for _, c := range d.Spec.Template.Spec.Containers {
			if len(c.Ports) > 0 || c.LivenessProbe != nil || c.ReadinessProbe != nil {
				s.Errorf("the agent in %s listens: %+v", agent, c.Ports)
			}
		}
	}
	if nodes[downstreamAgent] != nodes[localAgent] {
		s.Errorf("there is one node, and they are on two: %v", nodes)
	}
}

// Of two managers that deploy a release of one name the second gets the owner's
// name in a condition, with takeOwnership too, and for as long as it asks.
// Nothing flaps: what is there was written once.
func sameRelease(s *sharedCluster) {
	s.upper.bundle("meeting", fleet.NamespaceDefault, "both", "upper-both", "upper", release("both", false))
	s.upper.ready(fleet.NamespaceDefault, "both")
	before, since := s.ofUpper(), time.Now()
	s.lower.bundle(fleet.ClusterLocal, fleet.NamespaceLocal, "both", "upper-both", "lower", release("both", false))
	s.lower.says(s.onLower(), "both", fleet.ConditionDeployed, reasonForeignRelease, downstreamAgent)
	harness.Edit(s.world, s.lower.hub, fleet.NamespaceLocal, "both", release("both", true))
	s.kubelet.again(localAgent)
	s.kubelet.again(downstreamAgent)
	s.lower.says(s.onLower(), "both", fleet.ConditionDeployed, reasonForeignRelease, downstreamAgent)
	s.upper.checksIn2(s.onUpper)
	s.lower.checksIn2(s.onLower)
	s.quiet(since, func(r harness.Request) bool { return r.Namespace == "upper-both" })
	s.unharmed("the upper manager", before, s.ofUpper())
	s.must(kube.StoreOf[*fleet.Bundle](s.lower.hub.Admin).Delete(s.Context(), kube.Key{Namespace: fleet.NamespaceLocal, Name: "both"}, kube.Precondition{}))
	s.until("the second has given up", func() bool {
		_, there := harness.Read[*fleet.BundleDeployment](s.world, s.lower.hub, s.onLower().Status.Namespace, "both")
		return !there
	})
	s.unharmed("the upper manager", before, s.ofUpper())
}

// reasonForeignRelease is an agent's reason for a release of another agent.
const reasonForeignRelease = "ForeignRelease"

// checksIn2 waits until an agent has checked in twice more.
func (m *manager) checksIn2(cluster func() *fleet.Cluster) {
	m.Helper()
	seen := []string{cluster().Status.Agent.LastSeen.String()}
	m.until("the agent checks in twice", func() bool {
		if now := cluster().Status.Agent.LastSeen.String(); now != seen[len(seen)-1] {
			seen = append(seen, now)
		}
		return len(seen) > 2
	})
}

// quiet fails if a client other than Kubernetes has written something since a
// moment.
func (s *sharedCluster) quiet(since time.Time, what func(harness.Request) bool) {
	s.Helper()
	list := s.written(s.meet, since, func(r harness.Request) bool { return what(r) && !kubernetes(r) })
	if len(list) > 0 {
		s.Errorf("written:\n%s", harness.Lines(list))
	}
}

// A bundle of the upper manager that is the lower manager's own chart finds a
// release that Helm has made, and leaves it alone.
func fleetAsABundle(s *sharedCluster) {
	before, since := s.ofLower(), time.Now()
	s.upper.bundle("meeting", fleet.NamespaceDefault, "rancher-fleet", fleet.NamespaceSystem, "x", release("fleet", false))
	s.upper.says(s.onUpper(), "rancher-fleet", fleet.ConditionDeployed, reasonForeignRelease, "takeOwnership")
	list := s.written(s.meet, since, func(r harness.Request) bool { return strings.HasPrefix(r.Name, "sh.helm.release.v1.fleet.") })
	if len(list) > 0 {
		s.Errorf("Helm's records of the lower manager were written:\n%s", harness.Lines(list))
	}
	s.must(kube.StoreOf[*fleet.Bundle](s.upper.hub.Admin).Delete(s.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: "rancher-fleet"}, kube.Precondition{}))
	s.until("it is taken back", func() bool {
		_, there := harness.Read[*fleet.BundleDeployment](s.world, s.upper.hub, s.onUpper().Status.Namespace, "rancher-fleet")
		return !there
	})
	s.unharmed("the lower manager", before, s.ofLower())
}

// Bundles of one name in both managers become sets of objects that have nothing to
// do with each other: removing one leaves the other.
func setsDiffer(s *sharedCluster) {
	sets := func(prefix string) []string {
		found := map[string]bool{}
		s.objects(s.meet, func(o *unstructured.Unstructured) bool {
			if hash := o.GetLabels()[fleet.LabelObjectSetHash]; hash != "" && strings.HasPrefix(o.GetNamespace(), prefix) {
				found[hash] = true
			}
			return false
		})
		return slices.Sorted(maps.Keys(found))
	}
	ours, theirs := sets("upper-"), sets("lower-")
	if len(ours) == 0 || len(theirs) == 0 {
		s.Fatalf("no sets: %v, %v", ours, theirs)
	}
	for _, set := range ours {
		if slices.Contains(theirs, set) {
			s.Errorf("set %s is both agents'", set)
		}
	}
	before := s.ofUpper()
	s.must(kube.StoreOf[*fleet.Bundle](s.lower.hub.Admin).Delete(s.Context(), kube.Key{Namespace: fleet.NamespaceLocal, Name: "app"}, kube.Precondition{}))
	s.until("the lower one's is gone", func() bool { v, _ := s.value(s.meet, "lower-app"); return v == "" })
	s.unharmed("the upper manager", before, s.ofUpper())
	s.until("its Bundle is gone, too", func() bool { // which waits for the agent's answer
		_, there := harness.Read[*fleet.Bundle](s.world, s.lower.hub, fleet.NamespaceLocal, "app")
		return !there
	})
	s.lower.bundle(fleet.ClusterLocal, fleet.NamespaceLocal, "app", "lower-app", "two")
	s.lower.ready(fleet.NamespaceLocal, "app")
}

// The lower manager's deployments are lost, and its agent, which is to collect
// what no deployment asks for, restarts: it touches nothing of the upper
// manager's.
func emptyNeighbour(s *sharedCluster) {
	before, in := s.ofUpper(), s.onLower().Status.Namespace
	s.lower.halt()
	list, err := kube.StoreOf[*fleet.BundleDeployment](s.lower.hub.Admin).List(s.Context(), in, "")
	s.must(err)
	for _, bd := range list {
		s.must(kube.StoreOf[*fleet.BundleDeployment](s.lower.hub.Admin).Delete(s.Context(), kube.KeyOf(bd), kube.Precondition{}))
	}
	s.kubelet.collects(localAgent)
	s.until("what no deployment asks for is collected", func() bool { v, _ := s.value(s.meet, "lower-app"); return v == "" })
	s.lower.run()
	s.until("it is deployed again", func() bool { v, _ := s.value(s.meet, "lower-app"); return v == "two" })
	for _, lost := range list { // that of the agent too, which writes what belongs to the lower manager
		s.until("deployment "+lost.Name+" is Ready", func() bool { // what the Bundle says may be of before
			bd, there := harness.Read[*fleet.BundleDeployment](s.world, s.lower.hub, in, lost.Name)
			return there && bd.UID != lost.UID && bd.Status.Ready && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
		})
	}
	s.lower.ready(fleet.NamespaceLocal, "app")
	s.unharmed("the upper manager", before, s.ofUpper())
}

// Either agent registers again without the other noticing.
func redeployEither(s *sharedCluster) {
	before := s.ofLower()
	known := s.credential(downstreamAgent)
	harness.Edit(s.world, s.upper.hub, fleet.NamespaceDefault, "meeting", func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration++ })
	s.until("the upper one's agent has another credential", func() bool { now := s.credential(downstreamAgent); return now != "" && now != known })
	s.until("the upper one's agent has removed the token that it has registered with", func() bool {
		_, there := harness.Read[*corev1.Secret](s.world, s.meet, downstreamAgent, fleet.SecretAgentBootstrap)
		return !there
	})
	s.unharmed("the lower manager", before, s.ofLower())

	before, known = s.ofUpper(), s.credential(localAgent)
	list, err := kube.StoreOf[*fleet.ClusterRegistration](s.meet.Admin).List(s.Context(), fleet.NamespaceLocal, "")
	s.must(err)
	for _, r := range list {
		s.must(kube.StoreOf[*fleet.ClusterRegistration](s.meet.Admin).Delete(s.Context(), kube.KeyOf(r), kube.Precondition{}))
	}
	s.until("the lower one's agent has another credential", func() bool { now := s.credential(localAgent); return now != "" && now != known })
	s.lower.checksIn2(s.onLower)
	s.unharmed("the upper manager", before, s.ofUpper())
}

// credential returns the credential of an agent of the shared cluster; empty while
// it has none.
func (s *sharedCluster) credential(agent string) string {
	s.Helper()
	secret, ok := harness.Read[*corev1.Secret](s.world, s.meet, agent, fleet.SecretAgent)
	if !ok {
		return ""
	}
	return string(secret.Data[registration.KeyKubeconfig])
}

// When nothing happens nothing is written but signs of life: the managers do not
// undo each other's work.
func atRest(s *sharedCluster) {
	s.upper.ready(fleet.NamespaceDefault, "app")
	s.lower.ready(fleet.NamespaceLocal, "app")
	s.settles()
	since := time.Now()
	s.rests(restFor())
	s.quiet(since, func(r harness.Request) bool { return !passes(r) })
}
