package managed

import (
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"helm.sh/helm/v3/pkg/action"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
)

// restFor is how long it is looked whether anything is written at rest: some
// check-ins, or five minutes in a soak.
func restFor() time.Duration {
	if os.Getenv("FLEET_TEST_SOAK") != "" {
		return 5 * time.Minute
	}
	return 3 * checkin
}

// rests returns after a time: what happens in it is what the test is about.
func (s *sharedCluster) rests(d time.Duration) {
	s.Helper()
	s.must(kube.Sleep(s.Context(), d))
}

// settles waits until nothing was written for a while.
func (s *sharedCluster) settles() {
	s.Helper()
	s.until("it comes to rest", func() bool {
		return len(s.written(s.meet, time.Now().Add(-2*checkin), func(r harness.Request) bool { return !kubernetes(r) && !passes(r) })) == 0
	})
}

// The chart of agents is refused where an agent of a manager lives that installs
// it by itself, before anything is made; in another namespace there is room.
func chartBesideAnAgent(s *sharedCluster) {
	before, since := s.ofUpper(), time.Now()
	values := func(namespace string) map[string]any {
		return map[string]any{
			"apiServerURL": "https://third.invalid", "token": "t", "tokenName": "t", "clusterNamespace": fleet.NamespaceDefault,
			"internal": map[string]any{"systemNamespace": namespace},
		}
	}
	err := s.install(s.meet, "fleet-agent", downstreamAgent, values(downstreamAgent))
	if err == nil || !strings.Contains(err.Error(), "exists and cannot be imported into the current release") || !strings.Contains(err.Error(), "fleet-agent") {
		s.Errorf("want a refusal that names what is there, got %v", err)
	}
	made := s.written(s.meet, since, func(r harness.Request) bool {
		return r.Namespace == downstreamAgent && strings.HasPrefix(r.Agent, "Helm/")
	})
	if len(made) > 0 {
		s.Errorf("the refused chart has written:\n%s", harness.Lines(made))
	}
	s.must(s.install(s.meet, "fleet-agent", "fleet-third", values("fleet-third")))
	s.unharmed("the upper manager", before, s.ofUpper())
	if _, err := action.NewUninstall(s.helm(s.meet, "fleet-third")).Run("fleet-agent"); err != nil {
		s.Error(err)
	}
	s.unharmed("the upper manager", before, s.ofUpper())
}

// A manager that lives in a namespace of another name has its agents there. It
// cleans nothing up in the namespaces that are the lower manager's: not the
// accounts and credentials of its clusters, and not the agent of the upper one.
func upperElsewhere(s *sharedCluster) {
	third := s.newManager(s.other, otherSystem, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	third.run()
	upper, lower, since := s.ofUpper(), s.ofLower(), time.Now()
	registrations := s.objects(s.meet, inNamespace(fleet.NamespaceRegistration))
	if len(registrations) == 0 {
		s.Fatal("the lower manager keeps no credentials")
	}
	importer := s.meet.Administrator(s, "other-importer")
	harness.Make(s.world, s.other, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "meeting-kubeconfig"}, Data: map[string][]byte{"value": importer},
	})
	for name, agents := range map[string]string{"meeting": "", "taken": downstreamAgent} {
		harness.Make(s.world, s.other, &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: "meeting-kubeconfig", AgentNamespace: agents},
		})
	}
	third.checksIn(fleet.NamespaceDefault, "meeting", otherSystem)
	if text := third.imported(fleet.NamespaceDefault, "taken", corev1.ConditionFalse, clusterimport.ReasonForeign); !strings.Contains(text, s.upper.id()) {
		s.Errorf("the message does not say whose the agent is: %s", text)
	}
	s.unharmed("the upper manager", upper, s.ofUpper())
	s.unharmed("the lower manager", lower, s.ofLower())
	s.unharmed("the lower manager's clusters", registrations, s.objects(s.meet, inNamespace(fleet.NamespaceRegistration)))
	s.quiet(since, func(r harness.Request) bool {
		theirs := r.Namespace != otherSystem && !strings.HasPrefix(r.Name, otherSystem)
		return r.User == "system:serviceaccount:kube-system:other-importer" && (theirs || strings.HasPrefix(r.Verb, "delete"))
	})
	third.halt()
	s.must(kube.StoreOf[*appsv1.Deployment](s.meet.Admin).Delete(s.Context(), kube.Key{Namespace: otherSystem, Name: "fleet-agent"}, kube.Precondition{}))
}

// Two managers may manage each other's cluster. The second one reports that.
func eachOther(s *sharedCluster) {
	harness.Make(s.world, s.meet, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "upper-kubeconfig"},
		Data:       map[string][]byte{"value": s.upper.hub.Administrator(s, "lower-importer")},
	})
	harness.Make(s.world, s.meet, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "upper"},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "upper-kubeconfig"},
	})
	s.lower.imported(fleet.NamespaceDefault, "upper", corev1.ConditionTrue, "")
	s.until("an event says so", func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](s.meet.Admin).List(s.Context(), fleet.NamespaceDefault, "")
		s.must(err)
		for _, e := range list {
			if e.Reason == "ManagesEachOther" && e.Regarding.Name == "upper" && strings.Contains(e.Note, downstreamAgent) {
				return true
			}
		}
		return false
	})
}

// The lower manager removes its agent: the upper one's stays, with its class and
// rights.
func lowerAgentRemoved(s *sharedCluster) {
	upper, lives := s.ofUpper(), s.onLower().Spec.AgentNamespace
	s.lower.halt()
	s.upgrade(s.meet, fleet.NamespaceSystem, map[string]any{"bootstrap": map[string]any{"localAgentDisabled": true}})
	s.lower.run()
	s.until("the lower one's agent is gone", func() bool {
		_, deployment := harness.Read[*appsv1.Deployment](s.world, s.meet, lives, "fleet-agent")
		_, role := harness.Read[*rbacv1.ClusterRole](s.world, s.meet, "", lives+"-fleet-agent-role")
		return !deployment && !role
	})
	s.unharmed("the upper manager", upper, s.ofUpper())
}

// Helm uninstalls the lower manager, which lives in one namespace with the upper
// one's agent: that goes on working, and so does what the lower one has deployed.
func lowerUninstalled(s *sharedCluster) {
	upper := s.ofUpper()
	deployed, _ := s.value(s.meet, "lower-app")
	s.lower.halt()
	for _, name := range []string{"fleet", "fleet-crd"} {
		if _, err := action.NewUninstall(s.helm(s.meet, fleet.NamespaceSystem)).Run(name); err != nil {
			s.Fatal(err)
		}
	}
	s.until("the lower manager is gone", func() bool {
		_, there := harness.Read[*appsv1.Deployment](s.world, s.meet, fleet.NamespaceSystem, "fleet-controller")
		return !there
	})
	s.unharmed("the upper manager", upper, s.ofUpper())
	harness.Edit(s.world, s.upper.hub, fleet.NamespaceDefault, "app", func(b *fleet.Bundle) { b.Spec.Resources[0].Content = harness.ConfigMap("a", "two") })
	s.until("the upper one's agent works", func() bool { v, _ := s.value(s.meet, "upper-app"); return v == "two" })
	if v, _ := s.value(s.meet, "lower-app"); v == "" || v != deployed {
		s.Errorf("what the lower manager had deployed was %q and is %q", deployed, v)
	}
}

// namespacesUntouched: no client has written an existing namespace since Rancher
// put its annotation on it.
func namespacesUntouched(s *sharedCluster) {
	for _, name := range shared {
		n, ok := harness.Read[*corev1.Namespace](s.world, s.meet, "", name)
		if !ok || n.DeletionTimestamp != nil || n.Annotations[projectID] != "c-m-1:p-1" {
			s.Errorf("namespace %s: %v %v", name, ok, n.Annotations)
		}
	}
	s.quiet(s.shared, func(r harness.Request) bool {
		for _, name := range shared {
			if r.Resource == "namespaces" && r.Name == name {
				return true
			}
		}
		return false
	})
}

// projectID is Rancher's annotation on namespaces.
const projectID = "field.cattle.io/projectId"

// shared are namespaces in which both managers have something.
var shared = []string{downstreamAgent, localAgent, "upper-app", "lower-app"}

// annotates puts Rancher's annotation on namespaces.
func (s *sharedCluster) annotates() {
	s.Helper()
	for _, name := range shared {
		harness.Edit(s.world, s.meet, "", name, func(n *corev1.Namespace) {
			if n.Annotations == nil {
				n.Annotations = map[string]string{}
			}
			n.Annotations[projectID] = "c-m-1:p-1"
		})
	}
	s.shared = time.Now()
}
