package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestAtRest checks what the fleet does when all other tests of the fleet have
// ended. The fleet rests for minutes: the tests that have an API server of their
// own run meanwhile.
func TestAtRest(t *testing.T) {
	t.Parallel()
	t.Run("Quiet", quietAtRest)
	t.Run("ManagerNeverDialsIn", managerNeverDialsIn)
}

// A fleet at rest writes nothing but leases and signs of life, on no API
// server, although a bundle fails and is tried again for ever, another was
// refused, a third is never Ready, a repository cannot be reached, and all are
// polled each second.
func quietAtRest(t *testing.T) {
	window := 2 * time.Minute
	if os.Getenv("FLEET_TEST_SOAK") != "" {
		window = 30 * time.Minute
	}
	w := harness.Open(t)
	repo := w.Repository("quiet")
	repo.Write("good/fleet.yaml", harness.FleetYAML("quiet"))
	repo.Write("good/settings.yaml", harness.ConfigMapYAML("good", "one"))
	repo.Write("failing/fleet.yaml", harness.FleetYAML("quiet"))
	repo.Write("failing/thing.yaml", "apiVersion: nobody.example/v1\nkind: Thing\nmetadata: {name: thing}\n")
	repo.Write("refused/fleet.yaml", harness.FleetYAML("quiet"))
	repo.Write("refused/settings.yaml", harness.ConfigMapYAML("Not_A_Name", "one"))
	repo.Write("waiting/fleet.yaml", harness.FleetYAML("quiet"))
	repo.Write("waiting/deployment.yaml", harness.DeploymentYAML("waiting", "test/nowhere"))
	commit := repo.Commit("good, failing, refused and waiting")
	repo.Deploy()
	lost := w.Repository("quiet-lost")
	lost.Unreachable()
	lost.Deploy()

	harness.Eventually(w, "two of eight", repo.State, harness.State{Commit: commit, Counts: "2/8"})
	for bundle, state := range map[string]fleet.BundleState{"quiet-failing": fleet.ErrApplied, "quiet-waiting": fleet.NotReady} {
		for _, m := range w.Downstream() {
			harness.Eventually(w, bundle+" on "+m.Name, func() string { return repo.Deployment(m, bundle).Status.Display.State }, string(state))
		}
	}
	w.Until("the lost repository is known to be lost", func() string {
		return harness.Missing(lost.Message(fleet.ConditionReady, corev1.ConditionFalse), "127.0.0.1")
	})
	dropContents(w)
	// Writes may still be due from what led here: passing states are written once
	// per second.
	w.Until("none of our processes has written anything for ten seconds", func() string {
		return harness.Lines(w.Requests(w.Now().Add(-10*time.Second), unrest, w.Members()...))
	})

	begin := w.Now()
	wrote := func() string { return harness.Lines(w.Requests(begin, unrest, w.Members()...)) }
	for end := begin.Add(window); time.Now().Before(end); {
		harness.Throughout(w, min(time.Until(end), 5*time.Second), "the fleet rests", func() []harness.State {
			return []harness.State{repo.State(), lost.State()}
		}, []harness.State{{Commit: commit, Counts: "2/8"}, {Counts: "0/0"}})
		if text := wrote(); text != "" {
			t.Fatalf("written %s after rest began:\n%s", time.Since(begin).Round(time.Second), text)
		}
	}
	polls := w.Requests(begin, func(r harness.Request) bool { return r.Ours() && r.What() == "clusters/status" && r.Verb == "patch" }, w.Local)
	if least := int(window/harness.CheckIn) * 3 / 2; len(polls) < least {
		t.Errorf("only %d signs of life of three agents in %s, want at least %d: was anybody there?", len(polls), window, least)
	}
}

// dropContents removes the contents that no deployment holds any more. The manager does
// so itself ten minutes after their test, and that may be now.
func dropContents(w *harness.World) {
	held := map[string]bool{}
	for _, d := range harness.List[*fleet.BundleDeployment](w, w.Local, "", "") {
		for _, id := range []string{d.Spec.DeploymentID, d.Spec.StagedDeploymentID, d.Status.AppliedDeploymentID} {
			name, _, _ := strings.Cut(id, ":")
			held[name] = true
		}
	}
	for _, c := range harness.List[*fleet.Content](w, w.Local, "", "") {
		if !held[c.Name] && !held[c.Labels[fleet.LabelContentOf]] {
			harness.Delete(w, w.Local, c)
		}
	}
}

// unrest is a write by one of our processes that a fleet at rest does not
// make: other than leases, and the agents' signs of life.
func unrest(r harness.Request) bool {
	if !r.Ours() || !r.Writes() {
		return false
	}
	switch {
	case r.Group == "coordination.k8s.io" && r.Resource == "leases":
		return false
	case r.What() == "clusters/status" && r.Verb == "patch" && strings.HasPrefix(r.Agent, "fleet-agent/"):
		return false
	}
	return true
}

// In the whole life of this fleet, no client has spoken to a downstream
// cluster but its own components, its own agent and the test's administrator:
// the manager never dials in.
func managerNeverDialsIn(t *testing.T) {
	w := harness.Open(t)
	for _, m := range w.Downstream() {
		requests := w.Requests(w.Started(), nil, m)
		unknownNames := map[string]int{}
		agents := 0
		for _, r := range requests {
			switch {
			case r.User == ownAgent:
				agents++
				if !strings.HasPrefix(r.Agent, "fleet-agent/") && !strings.HasPrefix(r.Agent, "Helm/") {
					unknownNames[fmt.Sprintf("%s with the agent's credential", r.Agent)]++
				}
			case !component(r.User):
				unknownNames[fmt.Sprintf("%s, %s", r.User, r.Agent)]++
			}
		}
		if agents == 0 {
			t.Errorf("%s: the audit log does not even show its agent", m.Name)
		}
		for who, times := range unknownNames {
			t.Errorf("%s: %d requests by %s", m.Name, times, who)
		}
	}
}

const ownAgent = "system:serviceaccount:" + fleet.NamespaceSystem + ":fleet-agent"

// component reports whether a user is a part of the cluster itself, or the
// administrator who sets up and looks.
func component(user string) bool {
	return strings.HasPrefix(user, "system:serviceaccount:kube-system:") || slices.Contains([]string{
		"system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "kwok", "sandbox-admin",
	}, user)
}
