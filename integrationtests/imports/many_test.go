package imports

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// unreachables is how many clusters do not answer, and delayed how much later a
// cluster may have its agent because of them.
const (
	unreachables = 100
	delayed      = 4 * time.Second
)

// A hundred clusters that accept a connection and do not answer delay no other
// cluster: one that is made after all of them has its agent at once, and so has
// one that is made while the manager tries them again.
func unreachable(w *world) {
	east := w.down[0]
	good := east.Administrator(w, importer)
	alone := w.timed("alone", good)

	hole, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.Cleanup(func() { _ = hole.Close() })
	for i := range unreachables {
		name := fmt.Sprintf("hole-%03d", i)
		w.secret(name, harness.Kubeconfig("https://"+hole.Addr().String(), east.Cluster.CA(), "token"))
		w.cluster(name)
	}
	among := w.fastest("among", good, alone)
	w.until("some of them are said to be unreachable", func() bool {
		said := 0
		for i := range unreachables {
			c := condition.Find(w.read(fmt.Sprintf("hole-%03d", i)).Status.Conditions, fleet.ConditionImported)
			if c != nil && c.Status == corev1.ConditionFalse && c.Reason == clusterimport.ReasonUnreachable && strings.Contains(c.Message, "no answer in time") {
				said++
			}
		}
		return said >= unreachables/10
	})
	after := w.fastest("after", good, alone)
	w.Logf("until the agent is installed: alone %s, among %d that do not answer %s, after them %s", alone, unreachables, among, after)
	for what, took := range map[string]time.Duration{"among": among, "after": after} {
		if took > alone+delayed {
			w.Errorf("%s %d clusters that do not answer it takes %s, alone %s", what, unreachables, took, alone)
		}
	}

	// One of them comes back with another address.
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "hole-007-kubeconfig", func(s *corev1.Secret) { s.Data["value"] = good })
	w.installed("hole-007")
}

// fastest is timed where that is late for one Cluster: a manager that waits for clusters
// which do not answer does so for each.
func (w *world) fastest(name string, kubeconfig []byte, alone time.Duration) time.Duration {
	w.Helper()
	return harness.Fastest(alone+delayed, func(try int) time.Duration { return w.timed(fmt.Sprintf("%s-%d", name, try), kubeconfig) })
}

// timed is how long it takes until a new Cluster has its agent.
func (w *world) timed(name string, kubeconfig []byte) time.Duration {
	w.Helper()
	w.secret(name, kubeconfig)
	start := time.Now()
	w.cluster(name)
	w.installed(name)
	return time.Since(start).Round(time.Millisecond)
}

// TestAddress: the manager has another address. A wrong one reaches only the
// first few agents, which keep the old one; the right one reaches them first,
// and then all. No agent is restarted.
func TestAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	const fleetSize = 6
	name := func(i int) string { return fmt.Sprintf("site-%d", i) }
	at := func(i int) *harness.Hub { return w.down[i%2] }
	for i := range fleetSize {
		harness.AgentOf(w, at(i), "agent-"+name(i))
		w.secret(name(i), at(i).Administrator(w, importer))
		w.cluster(name(i), func(c *fleet.Cluster) {
			if i == 4 {
				c.Labels[clusterimport.LabelCanary] = "true"
			}
		})
	}
	online := func(i int) bool {
		return condition.IsTrue(w.read(name(i)).Status.Conditions, fleet.ConditionConnected)
	}
	w.until("all check in, and their tokens have ended", func() bool {
		for i := range fleetSize {
			if !online(i) {
				return false
			}
		}
		return w.tokens() == 0
	})

	wrong := "https://127.0.0.1:1"
	reported := func(url string) (names []string) {
		for i := range fleetSize {
			if r := clusterimport.RecordOf(w.read(name(i))); r != nil && r.URL == url {
				names = append(names, name(i))
			}
		}
		return names
	}
	w.again(func(s *registration.Settings) { s.APIServerURL = wrong })
	w.until("the one with the label has the address", func() bool { return len(reported(wrong)) == 1 })
	w.managerProcess.Ahead.Store(int64(6 * time.Minute)) // it has had its time
	harness.Edit(w, w.hub, fleet.NamespaceDefault, name(4), func(c *fleet.Cluster) { c.Labels["wake"] = "up" })
	text := w.imported(name(4), corev1.ConditionFalse, clusterimport.ReasonSilent)
	if !strings.Contains(text, wrong) || !strings.Contains(text, "agent-"+name(4)) {
		t.Errorf("the message does not say where to look: %s", text)
	}
	w.until("an event says why no other agent gets it", func() bool { return w.event("ImportHalted", name(4)) })
	if got := reported(wrong); len(got) != 1 || got[0] != name(4) {
		t.Errorf("more than the first agents got a wrong address: %v", got)
	}
	for i := range fleetSize {
		if got := harness.ManagerOf(w, at(i), "agent-"+name(i)); got != w.hub.Cluster.URL() {
			t.Errorf("%s has left its manager for %s", name(i), got)
		}
	}

	right := strings.Replace(w.hub.Cluster.URL(), "127.0.0.1", "localhost", 1)
	w.managerProcess.Ahead.Store(0)
	w.again(func(s *registration.Settings) { s.APIServerURL = right })
	w.until("all have gone there", func() bool {
		for i := range fleetSize {
			if harness.ManagerOf(w, at(i), "agent-"+name(i)) != right {
				return false
			}
		}
		return true
	})
	first := clusterimport.RecordOf(w.read(name(4))).Since
	for i := range fleetSize {
		if r := clusterimport.RecordOf(w.read(name(i))); r.Since.Before(first) {
			t.Errorf("%s got it before the one with the label", name(i))
		}
		w.installed(name(i))
	}
}

// tokens is how many registration tokens there are.
func (w *world) tokens() int {
	w.Helper()
	list, err := kube.StoreOf[*fleet.ClusterRegistrationToken](w.hub.Admin).List(w.Context(), "", "")
	w.must(err)
	return len(list)
}

// event reports whether there is one with a reason that names a Cluster.
func (w *world) event(reason, cluster string) bool {
	w.Helper()
	list, err := w.hub.Client.EventsV1().Events(fleet.NamespaceDefault).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && strings.Contains(e.Note, cluster) {
			return true
		}
	}
	return false
}
