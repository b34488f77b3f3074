package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// What fleet explain says of a bundle is what the controller has decided.
func TestExplain(t *testing.T) {
	w := newWorld(t)
	explainIsTrue(w.fixture(t, "explain"))
}

// explained is the part of an explanation that the test reads.
type explained struct {
	State, StoppedAt, Reason, Message string
}

func (s *fixture) explain(cluster string) explained {
	s.t.Helper()
	a := s.run("", "explain", "shop-web", cluster, "-n", s.ns, "-o", "json")
	var e explained
	if err := json.Unmarshal([]byte(a.out), &e); err != nil {
		s.t.Fatalf("explain %s: exit code %d\n%s%s", cluster, a.code, a.out, a.notes)
	}
	if want := map[bool]int{true: 0, false: 3}[e.StoppedAt == "" && e.State == "Ready"]; a.code != want {
		s.t.Errorf("explain %s: want exit code %d, got %d\n%s", cluster, want, a.code, a.out)
	}
	return e
}

func explainIsTrue(s *fixture) {
	s.web()
	s.put("web/fleet.yaml", `defaultNamespace: web
helm: {values: {site: '${ .ClusterName }'}}
rolloutStrategy:
  partitions:
  - {name: first, maxUnavailable: 0, clusterSelector: {matchLabels: {env: dev}}}
  - {name: second, maxUnavailable: 0, clusterSelector: {matchLabels: {env: prod}}}
targetCustomizations:
- {name: most, clusterSelector: {matchExpressions: [{key: env, operator: In, values: [dev, prod, lab]}]}}
`)
	for name, env := range map[string]string{"c1": "dev", "c2": "prod", "c3": "lab", "c4": "none"} {
		s.namespace(naming.ClusterNamespace(s.ns, name))
		s.addCluster(name, env)
	}
	s.ok("apply", "-n", s.ns, "--commit", "c1", "shop", "web")
	defer s.controller()()
	s.saysOf("c1", "delivered", "NeverSeen")
	s.saysOf("c2", "rollout", "Deferred")
	s.saysOf("c3", "rollout", "NoPartition")
	s.saysOf("c4", "target", "NotTargeted")
	for _, cluster := range []string{"c2", "c3"} {
		s.until("the Bundle says the same of "+cluster, func() bool { return s.status(cluster) == s.explain(cluster).Message })
	}

	s.apply("c1") // as its agent would
	s.saysOf("c1", "", "")
	s.saysOf("c2", "delivered", "NeverSeen")
	s.apply("c2")
	s.saysOf("c2", "", "")

	s.ok("suspend", "cluster/c1", "-n", s.ns)
	s.put("web/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {site: {{ .Values.site | quote }}, more: x}\n")
	s.ok("apply", "-n", s.ns, "--commit", "c2", "shop", "web")
	s.saysOf("c1", "pause", "Paused")
	s.saysOf("c2", "rollout", "Deferred")
	s.saysTogether()

	s.ok("resume", "cluster/c1", "-n", s.ns)
	s.saysOf("c1", "rollout", "Deferred") // none may be unavailable
	s.until("c1 waits for room", func() bool {
		text := s.status("c1")
		return strings.HasPrefix(text, "waits for room") && text == s.explain("c1").Message
	})
}

// saysOf waits until a cluster is explained so.
func (s *fixture) saysOf(cluster, stoppedAt, reason string) {
	s.t.Helper()
	var got explained
	s.until(fmt.Sprintf("%s stops at %q", cluster, stoppedAt), func() bool {
		got = s.explain(cluster)
		return got.StoppedAt == stoppedAt && got.Reason == reason
	})
}

// saysTogether compares the overview, whose rollout is planned by the command
// itself, with what the Bundle's status says.
func (s *fixture) saysTogether() {
	s.t.Helper()
	s.until("the overview says what the Bundle says", func() bool {
		a := s.run("", "explain", "shop-web", "-n", s.ns, "-o", "json")
		if a.code != 3 {
			s.t.Fatalf("exit code %d\n%s%s", a.code, a.out, a.notes)
		}
		for _, cluster := range []string{"c2", "c3"} {
			if text := s.status(cluster); text == "" || !strings.Contains(a.out, jsonText(text)) {
				return false
			}
		}
		return strings.Contains(a.out, "the cluster is paused") && strings.Contains(a.out, "not meant for it")
	})
}

func jsonText(text string) string {
	raw, _ := json.Marshal(text)
	return strings.Trim(string(raw), `"`)
}

// status returns the message in the Bundle's status about a cluster.
func (s *fixture) status(cluster string) string {
	s.t.Helper()
	b, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "shop-web"})
	s.must(err)
	for _, r := range b.Status.Summary.NonReadyResources {
		if r.Name == s.ns+"/"+cluster {
			return r.Message
		}
	}
	return ""
}

// apply reports what the manager wants of a cluster as deployed and ready, as an
// agent does.
func (s *fixture) apply(cluster string) {
	s.t.Helper()
	store := kube.StoreOf[*fleet.BundleDeployment](s.admin)
	key := kube.Key{Namespace: naming.ClusterNamespace(s.ns, cluster), Name: "shop-web"}
	s.until(cluster+" has something new", func() bool {
		bd, err := store.Get(s.t.Context(), key)
		if kube.IsGone(err) || err == nil && bd.Spec.DeploymentID == bd.Status.AppliedDeploymentID {
			return false
		}
		s.must(err)
		done := bd.DeepCopy()
		done.Status.AppliedDeploymentID, done.Status.Release = bd.Spec.DeploymentID, "web/web:1"
		done.Status.Ready, done.Status.NonModified = true, true
		done.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: corev1.ConditionTrue, ObservedGeneration: bd.Generation}}
		_, err = store.PatchStatus(s.t.Context(), bd, done)
		return err == nil
	})
}
