package join

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Whatever is wrong with a token, the agent says it, and uses the right one as
// soon as it is there.
func wrongTokens(t *testing.T, w *world) {
	w = w.in(t)
	n := w.newcomer(t, w.hub, "wrong", "wrong", nil)
	right := w.token(n.Workspace, "wrong-1", time.Hour)
	dead := w.token(n.Workspace, "wrong-2", time.Hour)
	w.bury("wrong-2", dead)
	front, err := wire.NewFront(w.hub.Cluster.REST())
	n.Must(err)
	t.Cleanup(front.Close)
	with := func(f func(*registration.Bootstrapping)) registration.Bootstrapping {
		b := right
		f(&b)
		return b
	}
	n.Start()
	for _, c := range []struct {
		why, reason, text string
		b                 registration.Bootstrapping
	}{
		{"values were lost on the way", "TokenIncomplete", "has no token", with(func(b *registration.Bootstrapping) { b.Token = "" })},
		{"it was removed, or has expired", "TokenRefused", `"wrong-2": it has expired or was removed`, dead},
		{"the authority is another manager's", "CertificateRefused", "apiServerCA", with(func(b *registration.Bootstrapping) { b.APIServerURL = front.URL() })},
		{"it was made for another workspace", "TokenMayNotAsk", `ask in namespace "team-b"`, with(func(b *registration.Bootstrapping) { b.ClusterNamespace = "team-b" })},
		{"no server is there", "ManagerAway", "cannot be reached", with(func(b *registration.Bootstrapping) { b.APIServerURL = "https://127.0.0.1:1" })},
	} {
		n.Give(c.b)
		n.Until(c.why, func() bool { return n.Contact()["reason"] == c.reason })
		data := n.Contact()
		if data["reached"] != "false" || data["hint"] == "" || data["url"] != c.b.APIServerURL {
			t.Errorf("%s: got %v", c.why, data)
		}
		if text := n.says(c.reason); !strings.Contains(text, c.text) {
			t.Errorf("%s: want %q, got %q", c.why, c.text, text)
		}
	}
	n.Give(right)
	w.until("the agent asks", func() bool {
		return slices.ContainsFunc(w.requests(n.Workspace), func(r *fleet.ClusterRegistration) bool { return r.Spec.ClientID == "wrong" })
	})
	n.in(nil)
	n.says("Registered")
}

// An agent that dies while it asks asks for the same answer when it is started
// again.
func startedAgain(t *testing.T, w *world) {
	w = w.in(t)
	n := w.newcomer(t, w.hub, "twice", "twice", nil)
	b := w.token(n.Workspace, "twice-1", time.Hour)
	// Another controller manages this cluster: Fleet does not answer.
	create(w, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Workspace, Name: "twice", Labels: map[string]string{fleet.LabelClusterManagement: "somebody"}},
		Spec:       fleet.ClusterSpec{ClientID: "twice"},
	})
	n.Give(b)
	n.Start()
	asked := func() []*fleet.ClusterRegistration {
		return slices.DeleteFunc(w.requests(n.Workspace), func(r *fleet.ClusterRegistration) bool { return r.Spec.ClientID != "twice" })
	}
	n.Until("the agent asks", func() bool { return len(asked()) == 1 })
	n.Restart()
	n.Until("the agent asks again", func() bool { return len(asked()) == 2 })
	if all := asked(); all[0].Spec.ClientRandom != all[1].Spec.ClientRandom {
		t.Error("want the same words")
	}
	c, _ := get[*fleet.Cluster](w, n.Workspace, "twice")
	change(w, c, func(c *fleet.Cluster) { delete(c.Labels, fleet.LabelClusterManagement) })
	n.in(nil)
	n.alone()
}
