package alone

import (
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// every is how often the agents of these tests connect, and late how much later
// than that at most.
const (
	every = 12 * time.Second
	late  = every / 10
)

// polling makes an agent one that connects by a schedule.
func (p *place) polling() {
	p.Helper()
	s, err := heartbeat.ParseSchedule("*/12 * * * * *", time.UTC, time.Now())
	p.Must(err)
	p.Config.Poll = s
}

// visited waits until the agent has visited and has hung up, and returns when it
// comes next.
func (p *place) visited(since time.Time) time.Time {
	p.Helper()
	var next time.Time
	p.Until("a visit is over", func() bool {
		a := p.cluster().Status.Agent
		if a.NextCheckIn == nil || !a.LastSeen.After(since.Add(-time.Second)) || p.tcpProxy.Open() > 0 {
			return false
		}
		next = a.NextCheckIn.Time
		return true
	})
	return next
}

// An agent with a schedule connects at its times, asks once for what is wanted,
// does it, reports, says when it comes next, and hangs up. In between it sends
// nothing, and does without its manager what it does with one.
func visits(p *place) {
	p.polling()
	p.Order("first", harness.Order{Files: files("one"), Options: correcting()})
	began := time.Now()
	p.Start()
	p.State("first", fleet.Ready) // the first visit does not wait: the agent is new
	next := p.visited(began)
	if left := time.Until(next); left > every+late {
		p.Errorf("it says that it comes in %s", left)
	}
	for try := range 5 {
		if p.between(try) {
			return
		}
	}
	p.Errorf("nothing gets done in the %s between two visits", every)
}

// between orders something after a visit, and looks what the next one makes of it. It
// is false if that took until the visit after, on a machine that does other things:
// nothing can be said about one visit then.
func (p *place) between(try int) bool {
	p.Helper()
	goes, value, since := fmt.Sprint("goes", try), fmt.Sprint("two", try), time.Now()
	p.Order(goes, harness.Order{Files: files("one")})
	p.State(goes, fleet.Ready)
	next := p.visited(since)

	quiet, opened := time.Now(), p.tcpProxy.Opened()
	p.Order("first", harness.Order{Files: files(value), Options: correcting()})
	p.Withdraw(goes, "o1")
	p.SetData("visits-first", "a", "edited")
	if time.Now().After(next.Add(-time.Second)) { // the contact record has a resolution of seconds
		return false
	}
	p.Until("drift is put back in between, or what was ordered is there", func() bool { return p.Data("visits-first", "a") != "edited" })
	if c := p.Contact(); c["next"] == "" || c["reached"] != "true" {
		p.Errorf("in between the agent says %v", c)
	}
	p.Until("the order is carried out", func() bool { return p.Data("visits-first", "a") == value })
	p.State("first", fleet.Ready)
	p.Answered(goes, "o1")
	following := p.visited(next)
	asked, connections := p.asked(quiet), p.tcpProxy.Opened()-opened
	if time.Now().After(following.Add(-time.Second)) {
		return false
	}
	p.visit(asked, next)
	if connections != 1 {
		p.Errorf("%d connections for one visit", connections)
	}
	if p.Data("visits-"+goes, "a") != "" {
		p.Error("what was withdrawn is still there")
	}
	return true
}

// visit checks the requests between two visits and in one visit: none before the
// announced time; then a check-in, one list, no watch, and a check-in at the end.
func (p *place) visit(asked []harness.Request, next time.Time) {
	p.Helper()
	lists := 0
	for _, r := range asked {
		if r.At.Before(next.Add(-time.Second)) { // the contact record has a resolution of seconds
			p.Errorf("asked in between: %s", r)
		}
		if r.Verb == "watch" {
			p.Errorf("a watch: %s", r)
		}
		if r.Resource == "bundledeployments" && r.Verb == "list" {
			lists++
		}
	}
	if len(asked) < 3 || lists != 1 || asked[0].What() != "clusters/status" || asked[len(asked)-1].What() != "clusters/status" {
		p.Errorf("%d lists:\n%s", lists, harness.Lines(asked))
	}
}

// The agent reports a failed visit on its own cluster, retries within the time of
// the visit, and catches up with the next one.
func missed(p *place) {
	p.polling()
	p.Order("app", harness.Order{Files: files("one")})
	began := time.Now()
	p.Start()
	p.State("app", fleet.Ready)
	p.visited(began)
	p.Must(p.tcpProxy.Set(wire.Refused))
	p.Order("app", harness.Order{Files: files("two")})
	p.contact("the visit failed", func(c map[string]string) bool { return c["reason"] == "ManagerAway" && c["next"] != "" })
	p.reported("ManagerAway")

	// An agent that is started in between waits for its time.
	p.Restart()
	p.Must(p.tcpProxy.Set(wire.None))
	p.Until("the next visit makes up for it", func() bool { return p.Data("missed-app", "a") == "two" })
	p.State("app", fleet.Ready)
	p.contact("all is well", func(c map[string]string) bool { return c["reached"] == "true" })
}
