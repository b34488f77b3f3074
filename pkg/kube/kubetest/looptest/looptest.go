// Package looptest takes a loop through what an API server and a machine may do to it, on
// package kubetest. It notes which requests a loop sends while nothing goes wrong, and
// then lets each of them fail, in each of the ways in which requests fail. It ends the
// process after each of its writes, and delays, cuts and compacts each of its watches.
// In the end the result has to be the same every time, and then the loop has to rest: it
// writes nothing.
package looptest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// agent is the field manager of the process, and the beginning of its User-Agent.
const agent = "process"

// outage is how long a request fails.
const outage = 20 * time.Second

// A Loop is a loop in one situation.
type Loop struct {
	// Start returns what a process runs. It is called once for each process.
	Start func(c *kube.Client) []kube.Runner
	// Given makes what is there before the first process starts.
	Given func(w *World)
	// When acts while the loop runs. It may let time pass. Default: nothing.
	When func(w *World)
	// Then checks what has become of it.
	Then func(w *World)
	// Settles is how long it takes at most until the loop has done all that it can. Default:
	// two minutes.
	Settles time.Duration
	// Rests is for how long nothing is written afterwards. Default: an hour.
	Rests time.Duration
	// Regular reports whether a write is one that the loop makes again and again also where
	// nothing changes, like a heartbeat: it does not disturb the rest. Default: none is.
	Regular func(kubetest.Request) bool
	// Of is the name of the loop, as kube.Client.Loop was given it, whose requests fail. Default:
	// those of all loops that Start returns.
	Of string
	// Spare reports whether a request does not fail in this situation. Default: each does.
	Spare func(fault string, m kubetest.Match) bool
}

// fault makes requests fail until it is lifted. What is expired is so once: an API server
// that says so for ever is asked again and again without a pause.
type fault struct {
	name  string
	verbs string // that meet it
	make  func(*kubetest.Server, kubetest.Match) *kubetest.Fault
}

var faults = []fault{
	{"Conflict", "patch update", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault { return s.Conflict(kubetest.Always, m) }},
	{"Busy", "get create patch update delete", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault {
		return s.Busy(kubetest.Always, m, 2*time.Second)
	}},
	{"Broken", "get create patch update delete", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault {
		return s.Broken(kubetest.Always, m)
	}},
	{"Forbidden", "get create patch update delete", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault {
		return s.Forbid(kubetest.Always, m)
	}},
	{"Expired", "list watch", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault { return s.Expired(1, m) }},
	{"CutAfter", "get create patch update delete", func(s *kubetest.Server, m kubetest.Match) *kubetest.Fault {
		return s.CutAfter(kubetest.Always, m)
	}},
}

// Run tests a loop in one situation: without faults, and with each fault.
func Run(t *testing.T, l Loop) {
	t.Helper()
	l = l.defaults()
	var sent []kubetest.Request
	writes := 0
	t.Run("Undisturbed", func(t *testing.T) { sent, writes = l.undisturbed(t) })
	if t.Failed() {
		return // what is noted would be of another situation
	}
	l.faults(t, sent)
	l.deaths(t, writes)
	l.watches(t, sent)
}

// Undisturbed tests a loop in one situation without faults.
func Undisturbed(t *testing.T, l Loop) {
	t.Helper()
	l.defaults().undisturbed(t)
}

func (l Loop) defaults() Loop {
	if l.Settles == 0 {
		l.Settles = 2 * time.Minute
	}
	if l.Rests == 0 {
		l.Rests = time.Hour
	}
	if l.When == nil {
		l.When = func(*World) {}
	}
	if l.Regular == nil {
		l.Regular = func(kubetest.Request) bool { return false }
	}
	return l
}

// undisturbed returns all requests until the loop rests, and how many of them are its
// writes.
func (l Loop) undisturbed(t *testing.T) (sent []kubetest.Request, writes int) {
	t.Helper()
	l.play(t, func(*World) {}, func(w *World) {
		l.When(w)
		w.Pass(l.Settles)
		l.Then(w)
		sent, writes = w.Server.Requests(), int(w.process.writes.Load())
		w.Rests(l.Rests)
		before := len(w.Server.Writes())
		w.Restart()
		w.Pass(l.Settles)
		again := slices.DeleteFunc(w.Server.Writes()[before:], func(r kubetest.Request) bool { return r.Resource == "events" || l.Regular(r) })
		if len(again) > 0 {
			w.Errorf("want nothing written by another process besides events, got %v", again)
		}
	})
	return sent, writes
}

// faults lets each request fail, in a World of its own. A loop whose watch has reported
// a write in time may not send the request: then the fault is lifted.
func (l Loop) faults(t *testing.T, sent []kubetest.Request) {
	for _, m := range l.steps(sent) {
		for _, f := range faults {
			if !slices.Contains(strings.Fields(f.verbs), m.Verb) || l.Spare != nil && l.Spare(f.name, m) {
				continue
			}
			t.Run(f.name+"/"+nameOf(m), func(t *testing.T) {
				var met *kubetest.Fault
				l.play(t, func(w *World) { met = f.make(w.Server, m) }, func(w *World) {
					l.When(w)
					w.Pass(outage)
					met.Lift()
					l.end(w)
				})
			})
		}
	}
}

// deaths ends the process after each of its writes.
func (l Loop) deaths(t *testing.T, writes int) {
	for n := 1; n <= writes; n++ {
		t.Run(fmt.Sprintf("Restart/AfterWrite%02d", n), func(t *testing.T) {
			l.play(t, func(w *World) { w.dies = n }, func(w *World) {
				l.When(w)
				w.Pass(outage) // a process that has heard of its writes in time may need fewer of them
				l.end(w)
			})
		})
	}
}

// watches delays, cuts and compacts each watch.
func (l Loop) watches(t *testing.T, sent []kubetest.Request) {
	for _, kind := range watched(sent) {
		t.Run("Late/"+kind.Resource, func(t *testing.T) {
			l.play(t, func(*World) {}, func(w *World) {
				release := w.Server.HoldWatches(kind)
				l.When(w)
				w.Pass(outage)
				release()
				l.end(w)
			})
		})
		t.Run("Compacted/"+kind.Resource, func(t *testing.T) {
			l.play(t, func(*World) {}, func(w *World) {
				release := w.Server.HoldWatches(kind)
				l.When(w)
				synctest.Wait()
				w.Server.CutWatches(kind)
				w.Server.ForgetHistory()
				release()
				l.end(w)
			})
		})
	}
}

// end checks the result, and that the loop rests.
func (l Loop) end(w *World) {
	w.Pass(l.Settles)
	l.Then(w)
	w.Rests(min(10*time.Minute, l.Rests))
}

// steps returns the requests that should fail, each once, without events.
func (l Loop) steps(sent []kubetest.Request) []kubetest.Match {
	var out []kubetest.Match
	for _, r := range sent {
		m := kubetest.Match{Verb: r.Verb, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Agent: agent}
		if l.Of != "" {
			m.Agent = agent + "/v0 (" + l.Of + ")"
		}
		if strings.HasPrefix(r.UserAgent, m.Agent) && r.Resource != "events" && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// watched returns the kinds that the process watches.
func watched(sent []kubetest.Request) []schema.GroupVersionResource {
	var out []schema.GroupVersionResource
	for _, r := range sent {
		if r.Verb == "watch" && strings.HasPrefix(r.UserAgent, agent) && !slices.Contains(out, r.Kind) {
			out = append(out, r.Kind)
		}
	}
	return out
}

func nameOf(m kubetest.Match) string {
	parts := []string{m.Verb, m.Resource, m.Subresource, m.Namespace, m.Name}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "-")
}
