package summary

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// An agent that checks in and cannot work in its own cluster makes the Cluster not
// Ready, whatever it has said of its deployments before.
func TestClusterWithAgentInTrouble(t *testing.T) {
	c := &fleet.Cluster{}
	c.Status.Agent.Trouble = "the agent may not read or write in its own cluster"
	cases := map[string]struct {
		why    string
		life   AgentLiveness
		state  string
		status corev1.ConditionStatus
		reason string
	}{
		"Online":  {"it says so with each check-in", Online, string(fleet.NotReady), corev1.ConditionFalse, fleet.ReasonAgentTrouble},
		"Offline": {"that it is away counts more", Offline, fleet.Offline, corev1.ConditionTrue, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			st := ClusterStatus(c, ClusterView{Life: tc.life}, now)
			r := condition.Find(st.Conditions, fleet.ConditionReady)
			if st.Display.State != tc.state || r == nil || r.Status != tc.status || r.Reason != tc.reason {
				t.Errorf("%s: state %q, condition %+v", tc.why, st.Display.State, r)
			}
		})
	}
}

// A field that this version does not act on is said in Accepted, and leaves the GitRepo
// Ready. Whatever else is not accepted does not.
func TestGitRepoNotAccepted(t *testing.T) {
	for reason, want := range map[string]corev1.ConditionStatus{
		fleet.ReasonNotImplemented: corev1.ConditionTrue,
		fleet.EventPolicyViolation: corev1.ConditionFalse,
	} {
		r := &fleet.GitRepo{}
		r.Status.Commit, r.Status.GitJobStatus = "c1", gitJobDone
		r.Status.Conditions = condition.Set(nil, fleet.Condition{Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, Reason: reason, Message: "webhookSecret"}, now)
		list := d("c1 Ready")
		st := GitRepoStatus(r, Sources{Deployments: list, Bundles: []RepoBundle{{Name: list[0].Bundle, Targets: 1}}}, now)
		c := condition.Find(st.Conditions, fleet.ConditionReady)
		if c == nil || c.Status != want || st.Display.Error != (want == corev1.ConditionFalse) {
			t.Errorf("%s: Ready is %+v, display %+v, want %s", reason, c, st.Display, want)
		}
	}
}
