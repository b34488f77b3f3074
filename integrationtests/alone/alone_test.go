package alone

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// A trouble is one way in which a manager can be of no use.
type trouble struct {
	why     string
	begin   func(*place)
	end     func(*place)
	reason  string // as the agent names it
	text    string // a piece of what it says
	refused string
}

func troubles() map[string]trouble {
	fault := func(f wire.Fault) (begin, end func(*place)) {
		return func(p *place) { p.Must(p.tcpProxy.Set(f)) }, func(p *place) { p.Must(p.tcpProxy.Set(wire.None)) }
	}
	mood := func(m wire.Mood) (begin, end func(*place)) {
		return func(p *place) { p.front.Set(m) }, func(p *place) { p.front.Set(wire.Fine) }
	}
	make := func(why, reason, text, refused string, begin, end func(*place)) trouble {
		return trouble{why: why, begin: begin, end: end, reason: reason, text: text, refused: refused}
	}
	of := func(begin, end func(*place)) func(why, reason, text, refused string) trouble {
		return func(why, reason, text, refused string) trouble { return make(why, reason, text, refused, begin, end) }
	}
	var cert tls.Certificate
	var ca []byte
	return map[string]trouble{
		"Refused": of(fault(wire.Refused))("the manager's process is gone", "ManagerAway", "refused", "false"),
		"Reset":   of(fault(wire.Reset))("a firewall says no", "ManagerAway", "reset", "false"),
		"Silent":  of(fault(wire.Silent))("the link is down without an error", "ManagerSilent", "deadline", "false"),
		"Lost":    of(fault(wire.Lost))("a router has forgotten the connections", "ManagerSilent", "deadline", "false"),
		"Hanging": of(mood(wire.Hanging))("the manager takes requests and never answers", "ManagerSilent", "deadline", "false"),
		"Failing": of(mood(wire.Failing))("the manager's database is gone", "ManagerFailing", "database", "false"),
		"Proxy":   of(mood(wire.Elsewhere))("a proxy has lost the manager", "ManagerFailing", "Bad Gateway", "false"),
		"Busy":    of(mood(wire.Busy))("the manager has too much to do", "ManagerBusy", "too many requests", "false"),
		"Expired": of(mood(wire.Expired))("the credential is not known any more", "CredentialRefused", "Unauthorized", "true"),
		"Revoked": make("the rights were taken away", "RightsRefused", "forbidden", "true",
			func(p *place) {
				p.Revoke()
				p.contact("no rights", func(c map[string]string) bool { return c["refused"] == "true" })
				p.front.Set(wire.Fine) // an open watch would go on for minutes
			}, func(p *place) { p.Grant() }),
		"Certificate": make("the manager shows a certificate of an unknown authority", "CertificateRefused", "certificate", "false",
			func(p *place) { cert, ca = p.front.Certificate(), p.front.CA(); p.Must(p.front.Rotate()) },
			func(p *place) { p.front.Certify(cert, ca) }),
	}
}

// TestAlone runs all tests in parallel with one API server: they wait for most
// of their time.
func TestAlone(t *testing.T) {
	hub := harness.NewHub(t, harness.Memory(t, "hub"))
	tests := map[string]func(*place){
		"TrueTimes": trueTimes, "Store": kept, "Visits": visits, "Missed": missed, "Joins": joins,
	}
	for name, trouble := range troubles() {
		tests[name] = trouble.run
	}
	for _, f := range []wire.Fault{wire.Refused, wire.Reset, wire.Silent, wire.Lost} {
		tests["Reconnects"+f.String()] = func(p *place) { reconnects(p, f) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newPlace(t, hub, strings.ToLower(name)))
		})
	}
}

// Whatever keeps an agent from its manager, and also if it is started then: it
// deploys what it has accepted, puts back what others change, removes nothing, and
// says what is wrong, since when, and what helps. Back in touch it reports what
// happened, with the times at which it did, and does what was ordered meanwhile.
func (tr trouble) run(p *place) {
	kept, seen, later, gone := p.Name+"-kept", p.Name+"-seen", p.Name+"-later", p.Name+"-gone"
	p.Start()
	p.Order("kept", harness.Order{Files: files("one"), Options: correcting()})
	p.Order("seen", harness.Order{Files: files("one")})
	p.Order("gone", harness.Order{Files: files("one")})
	p.Order("later", harness.Order{Files: files("one"), Options: fleet.BundleDeploymentOptions{ServiceAccount: "later"}})
	p.State("kept", fleet.Ready)
	p.State("gone", fleet.Ready)
	since := p.stamp(p.readyAt("seen"))
	p.State("later", fleet.ErrApplied) // accepted, and waits for its account

	begun := time.Now()
	tr.begin(p)
	p.contact(tr.reason, func(c map[string]string) bool { return c["reached"] == "false" && c["reason"] == tr.reason })
	tr.says(p, begun)

	// Drift, something new to deploy, and what is ordered meanwhile.
	p.Order("kept", harness.Order{Files: files("two"), Options: correcting()})
	p.Withdraw("gone", "o1")
	p.SetData(kept, "a", "edited")
	p.Until("drift is put back", func() bool { return p.Data(kept, "a") == "one" })
	edited := time.Now()
	p.SetData(seen, "a", "edited")
	p.Until("the difference is noticed, and since when", func() bool {
		r, _ := p.Record("seen")
		return condition.IsFalse(r.Unreported, fleet.ConditionReady)
	})
	noticed := time.Now()

	p.Restart()
	tr.account(p)
	p.Until("what was accepted is deployed", func() bool { return p.Data(later, "a") == "one" })
	p.remove(kept, "a")
	p.Until("what was removed is back", func() bool { return p.Data(kept, "a") == "one" })
	if p.Data(gone, "a") != "one" {
		p.Error("something was removed without an order that could be known")
	}
	p.contact("the same after a restart", func(c map[string]string) bool { return c["reason"] == tr.reason })
	time.Sleep(max(0, 2*time.Second-time.Since(noticed))) // times of conditions have seconds

	tr.end(p)
	healed := time.Now()
	p.Until("the order of the meantime is carried out", func() bool { return p.Data(kept, "a") == "two" })
	p.Answered("gone", "o1")
	p.State("kept", fleet.Ready)
	p.State("later", fleet.Ready)
	p.State("seen", fleet.Modified)
	p.Logf("caught up %s after the end of it", time.Since(healed).Round(10*time.Millisecond))
	if at := p.stamp(p.ready("seen").LastTransitionTime); at.Before(since) || at.After(healed.Add(-time.Second)) || at.Before(edited.Add(-2*time.Second)) {
		p.Errorf("it differs since %s, which is reported as %s (back in touch at %s)", edited.UTC(), at, healed.UTC())
	}
	p.contact("it is back", func(c map[string]string) bool {
		return c["reached"] == "true" && c["reason"] == "" && c["error"] == "" && c["hint"] == "" && c["refused"] == ""
	})
	p.reported("ManagerReached")
	for _, r := range p.Removed(begun) {
		if r.Namespace != gone {
			p.Errorf("removed: %s", r)
		}
	}
}

// says looks at what the agent says about its manager.
func (tr trouble) says(p *place, begun time.Time) {
	p.Helper()
	c := p.Contact()
	at := p.stamp(c["since"])
	if at.Before(begun.Add(-time.Second)) || at.After(time.Now()) {
		p.Errorf("since %s, but it began at %s", at, begun.UTC())
	}
	if c["url"] != p.tcpProxy.URL() || c["hint"] == "" || c["refused"] != tr.refused || !strings.Contains(c["error"], tr.text) {
		p.Errorf("%s: it says %v", tr.why, c)
	}
	text := p.reported(tr.reason)
	if !strings.Contains(text, p.tcpProxy.URL()) || !strings.Contains(text, c["hint"]) || !strings.Contains(text, "Everything that runs is kept") {
		p.Errorf("the event says %q", text)
	}
}

// readyAt waits until a deployment is Ready, and returns since when.
func (p *place) readyAt(name string) string {
	p.Helper()
	return condition.Find(p.State(name, fleet.Ready).Status.Conditions, fleet.ConditionReady).LastTransitionTime
}

// account makes what the deployment "later" waits for.
func (tr trouble) account(p *place) {
	p.Helper()
	ctx := p.Context()
	_, err := kube.StoreOf[*corev1.ServiceAccount](p.Down.Admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "later"}})
	p.Must(err)
	_, err = p.Down.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-later"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: p.Namespace, Name: "later"}},
	}, metav1.CreateOptions{})
	p.Must(err)
}

// A change that is undone while the agent cannot reach its manager is reported
// with the time of the undoing, also by an agent that was restarted in between.
func trueTimes(p *place) {
	p.Start()
	p.Order("app", harness.Order{Files: files("one")})
	p.State("app", fleet.Ready)
	p.Must(p.tcpProxy.Set(wire.Refused))
	p.contact("it is away", func(c map[string]string) bool { return c["reached"] == "false" })

	pause := func() { time.Sleep(1100 * time.Millisecond) } // times of conditions have seconds
	pause()
	p.SetData("truetimes-app", "a", "edited")
	p.Until("it is noticed and kept", func() bool {
		r, ok := p.Record("app")
		return ok && condition.IsFalse(r.Unreported, fleet.ConditionReady)
	})
	p.Stop()
	pause()
	p.Start()
	back := time.Now()
	p.SetData("truetimes-app", "a", "one")
	p.Until("that, too", func() bool {
		r, _ := p.Record("app")
		return condition.IsTrue(r.Unreported, fleet.ConditionReady)
	})
	pause()
	pause()
	healed := time.Now()
	p.Must(p.tcpProxy.Set(wire.None))
	p.Until("it is reported", func() bool {
		at := p.stamp(p.ready("app").LastTransitionTime)
		return !at.Before(back.Truncate(time.Second)) && at.Before(healed.Truncate(time.Second))
	})
	if bd := p.Deployment("app"); summary.State(bd, "") != fleet.Ready {
		p.Errorf("it is %s", summary.State(bd, ""))
	}
	p.Until("the memory of it ends", func() bool {
		r, _ := p.Record("app")
		return len(r.Unreported) == 0
	})
}
