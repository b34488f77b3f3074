package managed

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Names in the test of an agent that moves.
const (
	homeSystem = "fleet-home" // namespace of the manager
	awayAgent  = "agents"     // a namespace that a user has chosen
)

// A movingManager is a manager whose local agent moves.
type movingManager struct {
	world
	home    *manager
	kubelet *kubelet
	theirs  map[string]string // not Fleet's, in the agent's first namespace
}

// The settings say that the local agent lives elsewhere: it moves there with what
// it has deployed, without a workload noticing, and nothing of it is left where it
// was. That holds too where the manager is stopped and started on the way.
func TestT5LocalAgentMoves(t *testing.T) {
	t.Parallel()
	w := world{t, t}
	hub := harness.ConnectHub(w, harness.MemoryWithPods(w, "home"))
	s := &movingManager{world: w}
	s.home = w.newManager(hub, homeSystem, map[string]any{"bootstrap": map[string]any{"agentNamespace": downstreamAgent}})
	s.kubelet = w.agentsOf(hub, downstreamAgent, localAgent, awayAgent)
	for _, part := range []struct {
		name string
		run  func(*movingManager)
	}{
		{"LivesWithOthers", livesWithOthers}, {"ToTheDefault", movesToDefault}, {"ManagerStopsOnTheWay", movesInterrupted}, {"BackHalfWay", turnsBack},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			s.world = w.in(t)
			s.home.world = s.world
			part.run(s)
		}) {
			return
		}
	}
}

// The agent lives in a namespace that has objects of other owners too.
func livesWithOthers(s *movingManager) {
	s.home.hub.Namespace(s, fleet.NamespaceLocal)
	s.home.run()
	s.home.bundle(fleet.ClusterLocal, fleet.NamespaceLocal, "app", "home-app", "one", func(b *fleet.Bundle) {
		b.Spec.Resources = append(b.Spec.Resources, fleet.BundleResource{Name: "web.yaml", Content: webWorkload})
	})
	s.home.checksIn(fleet.NamespaceLocal, fleet.ClusterLocal, downstreamAgent)
	s.home.ready(fleet.NamespaceLocal, "app")
	s.home.ready(fleet.NamespaceLocal, "fleet-agent-local")
	theirs := map[string]string{fleet.LabelManagerID: "another"}
	harness.Make(s.world, s.home.hub, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: downstreamAgent, Name: "theirs"}})
	harness.Make(s.world, s.home.hub, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: downstreamAgent, Name: "fleet-other", Labels: theirs}})
	harness.Make(s.world, s.home.hub, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: downstreamAgent, Name: "their-record", Labels: theirs}, Type: fleet.SecretTypeAgentStore,
	})
	s.theirs = s.objects(s.home.hub, others)
	if len(s.theirs) != 4 { // and the policy, which is left by all
		s.Fatalf("not what others have: %v", s.theirs)
	}
}

// webWorkload is a workload with a pod.
const webWorkload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "none.invalid/web:1"}]}
`

// others selects what Fleet must not touch in the agent's first namespace.
func others(o *unstructured.Unstructured) bool {
	return o.GetNamespace() == downstreamAgent &&
		(o.GetName() == "theirs" || o.GetName() == "fleet-other" || o.GetName() == "their-record" || o.GetKind() == "NetworkPolicy")
}

// The agent moves to where it lives by default. The old agent works until the
// new one has checked in; no manager installs the old one again; each object of
// a workload is written once, for its labels, and is not replaced.
func movesToDefault(s *movingManager) {
	before, since := s.workloads(), time.Now()
	s.lives("", localAgent)
	s.moved(downstreamAgent, localAgent)
	s.stays(before, localAgent, since, true)
	s.whoWrote(downstreamAgent, localAgent, since)
	s.unharmedTheirs()

	harness.Edit(s.world, s.home.hub, fleet.NamespaceLocal, "app", func(b *fleet.Bundle) { b.Spec.Resources[0].Content = harness.ConfigMap("a", "two") })
	s.until("the agent works", func() bool { v, _ := s.value(s.home.hub, "home-app"); return v == "two" })
	s.home.ready(fleet.NamespaceLocal, "app")
	s.settlesAt(localAgent)
}

// The manager is stopped at every step of the way, and started again.
func movesInterrupted(s *movingManager) {
	before, since := s.workloads(), time.Now()
	s.lives(awayAgent, awayAgent)
	for _, step := range []struct {
		what string
		done func() bool
	}{
		{"the new agent is made", func() bool { return s.deployed(awayAgent) }},
		{"the new agent has checked in", func() bool { return s.onHome().Status.Agent.Namespace == awayAgent }},
		{"the agent before is deleted", func() bool { return !s.deployed(localAgent) }},
	} {
		s.until(step.what, step.done)
		s.home.halt()
		s.must(kube.Sleep(s.Context(), 2*checkin)) // the agents go on without the manager
		s.home.run()
	}
	s.moved(localAgent, awayAgent)
	s.stays(before, awayAgent, since, true)
	s.whoWrote(localAgent, awayAgent, since)
	s.settlesAt(awayAgent)
}

// The new agent never comes up, and the settings are taken back: the agent that is
// there has worked all the time, and what was made of the other one is gone.
func turnsBack(s *movingManager) {
	before, since := s.workloads(), time.Now()
	s.kubelet.bar(localAgent)
	s.lives("", localAgent)
	s.until("the new agent is made", func() bool { return s.deployed(localAgent) })
	harness.Edit(s.world, s.home.hub, fleet.NamespaceLocal, "app", func(b *fleet.Bundle) { b.Spec.Resources[0].Content = harness.ConfigMap("a", "three") })
	s.until("the agent before works", func() bool { v, _ := s.value(s.home.hub, "home-app"); return v == "three" })
	if !s.deployed(awayAgent) {
		s.Error("the agent before was removed although no other works")
	}
	s.lives(awayAgent, awayAgent)
	s.moved(localAgent, awayAgent)
	s.stays(before, awayAgent, since, false)
	s.settlesAt(awayAgent)
}

// lives changes the settings and starts the manager again; an empty name is the
// default.
func (s *movingManager) lives(setting, in string) {
	s.Helper()
	s.home.halt()
	s.upgrade(s.home.hub, homeSystem, map[string]any{"bootstrap": map[string]any{"agentNamespace": setting}})
	s.home.run()
	s.until("the Cluster says so", func() bool { return s.onHome().Spec.AgentNamespace == in })
}

func (s *movingManager) onHome() *fleet.Cluster {
	s.Helper()
	return s.home.cluster(fleet.NamespaceLocal, fleet.ClusterLocal)
}

// deployed reports whether there is an agent's Deployment.
func (s *movingManager) deployed(namespace string) bool {
	s.Helper()
	_, there := harness.Read[*appsv1.Deployment](s.world, s.home.hub, namespace, "fleet-agent")
	return there
}

// moved waits until nothing of the agent is left where it was, and all that it has
// deployed is Ready where it is.
func (s *movingManager) moved(from, to string) {
	s.Helper()
	var left map[string]string
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("left in %s: %v\n%+v", from, slices.Sorted(maps.Keys(left)), s.onHome().Status.Conditions)
		}
	})
	s.until("nothing of the agent is left in "+from, func() bool {
		gone := !s.deployed(from)
		left = s.objects(s.home.hub, func(o *unstructured.Unstructured) bool {
			cluster := o.GetNamespace() == "" && strings.HasPrefix(o.GetName(), from+"-fleet-agent")
			return cluster || o.GetNamespace() == from && !others(o) && o.GetName() != "kube-root-ca.crt" && o.GetName() != "default" && o.GetName() != "default-allow-all"
		})
		_, lease := harness.Read[*coordinationv1.Lease](s.world, s.home.hub, from, "fleet-agent")
		return gone && len(left) == 0 && !lease
	})
	s.home.checksIn(fleet.NamespaceLocal, fleet.ClusterLocal, to)
	s.home.ready(fleet.NamespaceLocal, "app")
	s.home.ready(fleet.NamespaceLocal, "fleet-agent-local")
	if cond := condition.Find(s.onHome().Status.Conditions, fleet.ConditionDuplicateIdentity); cond != nil {
		s.Errorf("one agent after the other is taken for two: %s", cond.Message)
	}
}

// workloads are the objects and pods of the bundle, each with its UID and what
// shows whether more than its labels and annotations was written. Of a Deployment
// that is not the generation, which counts annotations too, but its spec.
func (s *movingManager) workloads() map[string]string {
	s.Helper()
	out := s.objects(s.home.hub, func(o *unstructured.Unstructured) bool {
		return o.GetNamespace() == "home-app" && o.GetKind() == "ConfigMap" && o.GetName() == "a"
	})
	client := s.home.hub.Client
	deployment, err := client.AppsV1().Deployments("home-app").Get(s.Context(), "web", metav1.GetOptions{})
	s.must(err)
	spec, err := registration.ObjectHash(deployment.Spec)
	s.must(err)
	out["Deployment web"] = fmt.Sprint(deployment.UID, " ", spec)
	sets, err := client.AppsV1().ReplicaSets("home-app").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, r := range sets.Items {
		out["ReplicaSet "+r.Name] = string(r.UID)
	}
	pods, err := client.CoreV1().Pods("home-app").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, p := range pods.Items {
		out["Pod "+p.Name] = string(p.UID)
	}
	if len(out) < 4 {
		s.Fatalf("no workload: %v", out)
	}
	return out
}

// stays fails if a workload is another one than before, if it was written more
// than once, or by anybody but the agent in a namespace. It waits until its labels
// are that agent's, where it has moved.
func (s *movingManager) stays(before map[string]string, agent string, since time.Time, once bool) {
	s.Helper()
	account := "system:serviceaccount:" + agent + ":fleet-agent"
	writes := func() map[string]int {
		out := map[string]int{}
		for _, r := range s.written(s.home.hub, since, func(r harness.Request) bool {
			return r.Namespace == "home-app" && !kubernetes(r) && r.Resource != "secrets" && !passes(r)
		}) {
			if r.User != account {
				s.Errorf("a workload was written: %s", r)
			}
			if strings.HasPrefix(r.Verb, "delete") || r.Verb == "create" {
				s.Errorf("a workload was created again: %s", r)
			}
			out[r.What()+" "+r.Name]++
		}
		return out
	}
	if once {
		s.until("the workload is that of the agent that has moved", func() bool { return len(writes()) == 2 })
		for what, n := range writes() {
			if n != 1 {
				s.Errorf("%s was written %d times", what, n)
			}
		}
	}
	if diff := cmp.Diff(before, s.workloads()); diff != "" {
		s.Errorf("the workload is another one: -before +after\n%s", diff)
	}
}

// whoWrote fails if anybody has made something of the agent's again where it was,
// or has removed something other than the manager through its bootstrap account.
func (s *movingManager) whoWrote(from, to string, since time.Time) {
	s.Helper()
	installer := "system:serviceaccount:" + homeSystem + ":fleet-controller-bootstrap"
	old, moved := "system:serviceaccount:"+from+":fleet-agent", "system:serviceaccount:"+to+":fleet-agent"
	list := s.written(s.home.hub, since, func(r harness.Request) bool {
		in := r.Namespace == from || r.Namespace == "" && strings.HasPrefix(r.Name, from+"-fleet-agent")
		if !in || kubernetes(r) || r.Resource == "events" {
			return false
		}
		record := r.Resource == "secrets" && strings.HasPrefix(r.Name, "sh.helm.release.v1.fleet-agent-local.")
		own := r.Resource == "leases" || r.Resource == "secrets" && !record ||
			r.Resource == "configmaps" && (r.Name == fleet.ConfigMapAgentContact || r.Name == fleet.ConfigMapAgentJournal)
		switch r.User {
		case installer:
			return !strings.HasPrefix(r.Verb, "delete")
		case old:
			return !own
		case moved:
			return !record || !strings.HasPrefix(r.Verb, "delete")
		}
		return true
	})
	if len(list) > 0 {
		s.Errorf("written in %s since the agent began to move:\n%s", from, harness.Lines(list))
	}
	s.worksFirst(from, since)
}

// worksFirst fails if the agent was removed where it was before the one that has
// moved, which has a credential of its own, has checked in.
func (s *movingManager) worksFirst(from string, since time.Time) {
	s.Helper()
	checkins := s.written(s.home.hub, time.Time{}, func(r harness.Request) bool {
		return r.What() == "clusters/status" && strings.HasPrefix(r.Agent, "fleet-agent/")
	})
	before, first := map[string]bool{}, time.Time{}
	for _, r := range checkins {
		switch {
		case r.At.Before(since):
			before[r.User] = true
		case !before[r.User] && (first.IsZero() || r.At.Before(first)):
			first = r.At
		}
	}
	removed := s.written(s.home.hub, since, func(r harness.Request) bool {
		return r.Namespace == from && r.Resource == "deployments" && r.Verb == "delete"
	})
	if len(removed) != 1 || first.IsZero() || removed[0].At.Before(first) {
		s.Errorf("the new agent has checked in at %s, and this was removed:\n%s", first.Format(time.StampMilli), harness.Lines(removed))
	}
}

func (s *movingManager) unharmedTheirs() {
	s.Helper()
	if diff := cmp.Diff(s.theirs, s.objects(s.home.hub, others)); diff != "" {
		s.Errorf("what belongs to others was touched: -before +after\n%s", diff)
	}
}

// settlesAt waits until nothing is written any more, and then starts the manager
// again: it writes nothing about the agent either.
func (s *movingManager) settlesAt(agent string) {
	s.Helper()
	rest := func(since time.Time) []harness.Request {
		return s.written(s.home.hub, since, func(r harness.Request) bool {
			return !kubernetes(r) && !passes(r) && (r.Namespace == agent || strings.HasPrefix(r.Name, agent) || r.Namespace == "home-app")
		})
	}
	s.until("it comes to rest", func() bool { return len(rest(time.Now().Add(-3*checkin))) == 0 })
	since := time.Now()
	s.home.run()
	s.must(kube.Sleep(s.Context(), restFor()))
	if list := rest(since); len(list) > 0 {
		s.Errorf("a manager that was started again has written:\n%s", harness.Lines(list))
	}
	s.unharmedTheirs()
	if at := s.onHome().Status.Agent.Namespace; at != agent {
		s.Errorf("the agent lives in %q", at)
	}
}
