package checkin

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

const often = time.Minute // between two check-ins

var (
	clusterKey = kube.Key{Namespace: "default", Name: "c"}
	checksIn   = kubetest.Match{Verb: "patch", Resource: "clusters", Subresource: "status"}
)

func isCheckIn(r kubetest.Request) bool { return r.Resource == "clusters" && r.Subresource == "status" }

// configOf is the configuration of an agent that runs under a name.
func configOf(up *kube.Client, instance string) Config {
	return Config{
		Statuses: kube.StoreOf[*fleet.Cluster](up), Cluster: clusterKey, Next: heartbeat.Every(often, clusterKey.String()),
		Namespace: "agent", Version: "v1", Kubernetes: "v1.36.0", Instance: instance,
		Orphans:  func() (fleet.AgentOrphans, bool) { return fleet.AgentOrphans{}, false },
		OnAnswer: func(Answer) {}, OnFailure: func(error) {},
	}
}

// manager is an API server with one Cluster, in a bubble of fake time.
type manager struct {
	*testing.T
	*kubetest.Server
	clusters *kube.Store[*fleet.Cluster]
}

func testManager(t *testing.T, f func(m *manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer synctest.Wait()
		s := kubetest.New(t)
		m := &manager{T: t, Server: s, clusters: kube.StoreOf[*fleet.Cluster](s.Connect("user"))}
		if _, err := m.clusters.Create(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name}}); err != nil {
			t.Fatal(err)
		}
		f(m)
	})
}

func (m *manager) cluster() *fleet.Cluster {
	m.Helper()
	c, err := m.clusters.Get(m.Context(), clusterKey)
	if err != nil {
		m.Fatal(err)
	}
	return c
}

func (m *manager) annotate(annotations map[string]string) {
	m.Helper()
	old := m.cluster()
	changed := old.DeepCopy()
	changed.Annotations = annotations
	if _, err := m.clusters.Patch(m.Context(), old, changed); err != nil {
		m.Fatal(err)
	}
}

// noted orders what agents note and what a test reads between two calls of pass.
var noted sync.Mutex

// agent is a series of check-ins, and what it has found.
type agent struct {
	*CheckIn
	m       *manager
	stop    func() // ends it, and waits for that
	answers []Answer
	failed  []error
	at      []time.Time // when it has found that
}

// agent makes an agent; change may change its configuration.
func (m *manager) agent(instance string, change func(*Config)) *agent {
	a := &agent{m: m}
	cfg := configOf(m.Connect(instance), instance)
	cfg.OnAnswer = func(ans Answer) {
		noted.Lock()
		defer noted.Unlock()
		a.answers, a.at = append(a.answers, ans), append(a.at, time.Now())
	}
	cfg.OnFailure = func(err error) {
		noted.Lock()
		defer noted.Unlock()
		a.failed, a.at = append(a.failed, err), append(a.at, time.Now())
	}
	if change != nil {
		change(&cfg)
	}
	a.CheckIn = New(cfg)
	return a
}

// run runs the check-ins in the background.
func (a *agent) run() *agent {
	ctx, cancel := context.WithCancel(a.m.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.stop = func() {
		cancel()
		if err := <-done; err != nil {
			a.m.Error(err)
		}
	}
	synctest.Wait()
	return a
}

// bodies are what was sent with each check-in under a name: the keys of status.agent.
func (m *manager) bodies(instance string) []map[string]any {
	m.Helper()
	var out []map[string]any
	for _, r := range m.Writes() {
		var body struct {
			Status struct{ Agent map[string]any }
		}
		if !isCheckIn(r) || r.UserAgent != instance+"/v0" {
			continue
		}
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			m.Fatal(err)
		}
		out = append(out, body.Status.Agent)
	}
	return out
}

func pass(d time.Duration) {
	func() { // what the test has read comes before what agents note from now on
		noted.Lock()
		defer noted.Unlock()
	}()
	time.Sleep(d)
	synctest.Wait()
}

// The agent checks in at once and then at each next time, says when that is, and writes
// nothing in between. It writes its name once.
func TestChecksInRegularly(t *testing.T) {
	testManager(t, func(t *manager) {
		a := t.agent("one", nil).run()
		first := time.Now()
		pass(time.Hour)
		if n := len(t.Writes()) - 1; n != 61 || len(a.answers) != 61 || len(a.failed) > 0 {
			t.Errorf("want a check-in at the start and each minute, got %d and %d answers", n, len(a.answers))
		}
		if !a.at[0].Equal(first) || a.at[2].Sub(a.at[1]) != often {
			t.Errorf("answered at %v", a.at[:3])
		}
		got := t.cluster().Status.Agent
		next := heartbeat.Every(often, clusterKey.String())(time.Now())
		if got.Instance != "one" || got.Namespace != "agent" || got.Version != "v1" || got.Kubernetes != "v1.36.0" ||
			time.Since(got.LastSeen.Time) > often || got.NextCheckIn == nil || next.Sub(got.NextCheckIn.Time).Abs() > time.Second {
			t.Errorf("the Cluster says %+v, want the next one at %s", got, next)
		}
		for i, b := range t.bodies("one") {
			if _, named := b["instance"]; named != (i == 0) {
				t.Errorf("check-in %d says %v", i, b)
			}
		}
		a.stop()
		before := len(t.Writes())
		pass(time.Hour)
		if len(t.Writes()) > before || len(a.failed) > 0 {
			t.Errorf("an agent that has ended goes on: %v", a.failed)
		}
	})
}

// An answer says what the manager wrote into the Cluster; what cannot be read is left out.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        Answer
	}{
		"Nothing": {},
		"All": {
			map[string]string{fleet.AnnotationManager: "m/2/1", fleet.AnnotationCheckInInterval: "5m", fleet.AnnotationCredential: "offer"},
			Answer{Mark: registration.Mark{ID: "m", Epoch: 2, Protocol: 1}, Interval: 5 * time.Minute, Credential: "offer"},
		},
		"Unreadable": {annotations: map[string]string{fleet.AnnotationManager: "m", fleet.AnnotationCheckInInterval: "often"}},
	} {
		t.Run(name, func(t *testing.T) {
			testManager(t, func(t *manager) {
				t.annotate(c.annotations)
				got, err := t.agent("one", nil).Once(t.Context())
				if err != nil || got.Version != t.cluster().ResourceVersion {
					t.Errorf("version %q, %v", got.Version, err)
				}
				got.Version = ""
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
			})
		})
	}
}

// A check-in that fails is repeated soon, and then rarely; the manager that is back is
// found within 15 s. The wait does not end for a reason to check in at once.
func TestChecksInAgainAfterFailures(t *testing.T) {
	for name, fail := range map[string]func(*kubetest.Server) *kubetest.Fault{
		"Broken":       func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, checksIn) },
		"Conflict":     func(s *kubetest.Server) *kubetest.Fault { return s.Conflict(kubetest.Always, checksIn) },
		"Unauthorized": func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(kubetest.Always, checksIn) },
		"Forbidden":    func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, checksIn) },
		"Denied":       func(s *kubetest.Server) *kubetest.Fault { return s.Deny(kubetest.Always, checksIn) },
		"Cut":          func(s *kubetest.Server) *kubetest.Fault { return s.CutAfter(kubetest.Always, checksIn) },
		"Busy":         func(s *kubetest.Server) *kubetest.Fault { return s.Busy(kubetest.Always, checksIn, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			testManager(t, func(t *manager) {
				fault := fail(t.Server)
				a := t.agent("one", nil).run()
				for range 30 {
					a.Soon()
					a.Doubt()
					pass(10 * time.Second)
				}
				if len(a.answers) > 0 || len(a.failed) < 10 || len(a.failed) > 26 {
					t.Errorf("%d answers and %d failures in five minutes", len(a.answers), len(a.failed))
				}
				fault.Lift()
				back := time.Now()
				pass(time.Minute)
				if len(a.answers) == 0 || a.at[len(a.failed)].Sub(back) > heartbeat.RetryInterval+requestTime {
					t.Fatalf("not back: %v", a.at)
				}
				if n := len(a.answers); n > 2 {
					t.Errorf("checked in %d times in the first minute: reasons from before count still", n)
				}
				once := t.Broken(1, checksIn)
				before := len(a.at)
				pass(often)
				if once.Met() != 1 || a.at[before+1].Sub(a.at[before]) > time.Second {
					t.Errorf("another failure is not the first of a new series: %v", a.at[before:])
				}
				a.stop()
			})
		})
	}
}

// An agent that checks in more often than it would try again keeps its interval.
func TestFrequentCheckInsStayFrequent(t *testing.T) {
	testManager(t, func(t *manager) {
		t.Broken(kubetest.Always, checksIn)
		a := t.agent("one", func(c *Config) { c.Next = heartbeat.Every(2*time.Second, clusterKey.String()) }).run()
		pass(time.Minute)
		if n := len(a.failed); n < 30 || n > 35 {
			t.Errorf("tried %d times in a minute", n)
		}
		a.stop()
	})
}

// A manager that asks for a little time is not away, one that goes on asking for it is. A
// check-in takes 10 s at most.
func TestBusyManager(t *testing.T) {
	const sent = 11 // by client-go, for one attempt
	testManager(t, func(t *manager) {
		t.Busy(2*sent, checksIn, 0)
		began := time.Now()
		if _, err := t.agent("one", nil).Once(t.Context()); err != nil || time.Since(began) > requestTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		fault := t.Busy(kubetest.Always, checksIn, 0)
		began = time.Now()
		if _, err := t.agent("two", nil).Once(t.Context()); !kube.IsBusy(err) || time.Since(began) > requestTime || fault.Met() > overloadTries*sent {
			t.Errorf("after %s and %d requests: %v", time.Since(began), fault.Met(), err)
		}
		fault.Lift()
		t.Busy(kubetest.Always, checksIn, time.Minute)
		began = time.Now()
		if _, err := t.agent("three", nil).Once(t.Context()); err == nil || time.Since(began) > requestTime {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A reason to check in is served at once, a doubt within half a second, and both once.
func TestChecksInAtOnce(t *testing.T) {
	testManager(t, func(t *manager) {
		a := t.agent("one", func(c *Config) { c.Next = heartbeat.Every(time.Hour, clusterKey.String()) }).run()
		for _, nudge := range []func(){a.Soon, a.Doubt} {
			before, began := len(a.answers), time.Now()
			nudge()
			nudge()
			pass(haste)
			if len(a.answers) == before || a.at[before].Sub(began) > haste {
				t.Fatalf("checked in at %v", a.at)
			}
			pass(time.Minute)
			if n := len(a.answers) - before; n > 2 {
				t.Errorf("checked in %d times", n)
			}
		}
		a.stop()
	})
}

// The journal is sent when it has changed, until a check-in with it was answered.
func TestJournalIsSentOnce(t *testing.T) {
	testManager(t, func(t *manager) {
		var journal []byte
		a := t.agent("one", func(c *Config) { c.Journal = func() []byte { return journal } })
		sends := func(want bool, why string) {
			t.Helper()
			_, _ = a.Once(t.Context())
			bodies := t.bodies("one")
			if _, sent := bodies[len(bodies)-1]["journal"]; sent != want {
				t.Errorf("%s: sent %t", why, sent)
			}
		}
		sends(false, "there is none")
		journal = []byte("first")
		t.Broken(1, checksIn)
		sends(true, "a new one")
		sends(true, "the check-in with it has failed")
		sends(false, "the manager has it")
		journal = []byte("second")
		t.CutAfter(1, checksIn)
		sends(true, "it has changed")
		sends(true, "it is not known whether the manager has it")
		sends(false, "the manager has it")
		if got := t.cluster().Status.Agent.Journal; !slices.Equal(got, []byte("second")) {
			t.Errorf("the manager has %q", got)
		}
	})
}

// What the agent reports is taken back when it is no longer so.
func TestReportsAreTakenBack(t *testing.T) {
	testManager(t, func(t *manager) {
		orphans, known := fleet.AgentOrphans{Count: 1, Names: []string{"web"}}, true
		trouble, digest, ends := "no space", "offer", time.Now().Add(time.Hour)
		claims := true
		a := t.agent("one", func(c *Config) {
			c.Orphans = func() (fleet.AgentOrphans, bool) { return orphans, known }
			c.Trouble = func() string { return trouble }
			c.Credential = func() (string, time.Time) { return digest, ends }
			c.ClusterUID, c.Claims = "uid", func() bool { return claims }
		})
		reports := func() fleet.AgentStatus {
			t.Helper()
			if _, err := a.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			return t.cluster().Status.Agent
		}
		got := reports()
		if got.Orphans == nil || got.Orphans.Count != 1 || got.Trouble != trouble || got.Credential != digest || got.CredentialExpires == nil || got.ClusterUID != "uid" {
			t.Errorf("got %+v", got)
		}
		orphans, known = fleet.AgentOrphans{}, false
		if got = reports(); got.Orphans == nil {
			t.Error("the manager forgets orphans while it is not known whether there are any")
		}
		known, trouble, ends, claims = true, "", time.Time{}, false
		if got = reports(); got.Orphans != nil || got.Trouble != "" || got.Credential != digest || got.CredentialExpires != nil || got.ClusterUID != "uid" {
			t.Errorf("got %+v", got)
		}
		if _, err := t.agent("registered again", nil).Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got = t.cluster().Status.Agent; got.Credential != "" {
			t.Errorf("the credential of an earlier agent is still reported: %+v", got)
		}
	})
}

// Two agents with one identity find each other within minutes; the younger one gives way,
// until the other one is gone. Where they work in different clusters, the one whose
// cluster the manager knows goes on.
func TestTwoAgents(t *testing.T) {
	name := func(at int64, uid string) string {
		out, err := NewInstance(time.UnixMilli(at), uid)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for why, c := range map[string]struct {
		uids  [2]string
		known string
		gives [2]bool // who gives way
	}{
		"OneCluster":  {uids: [2]string{"a", "a"}, known: "a", gives: [2]bool{false, true}},
		"TwoClusters": {uids: [2]string{"a", "b"}, known: "b"},
	} {
		t.Run(why, func(t *testing.T) {
			testManager(t, func(t *manager) {
				old := t.cluster()
				changed := old.DeepCopy()
				changed.Status.Agent.ClusterUID = c.known
				if _, err := t.clusters.PatchStatus(t.Context(), old, changed); err != nil {
					t.Fatal(err)
				}
				var agents [2]*agent
				for i, uid := range c.uids {
					agents[i] = t.agent(name(int64(i+1)*1000, uid), func(cfg *Config) { cfg.ClusterUID = uid }).run()
					pass(time.Second)
				}
				pass(6 * often)
				for i, a := range agents {
					last := a.answers[len(a.answers)-1]
					if last.Duplicate != agents[1-i].cfg.Instance || last.Younger != c.gives[i] {
						t.Errorf("agent %d: %+v", i, last)
					}
				}
				agents[0].stop()
				pass(6 * often)
				if last := agents[1].answers[len(agents[1].answers)-1]; last.Duplicate != "" || last.Younger {
					t.Errorf("the other one is gone: %+v", last)
				}
				if got := t.cluster().Status.Agent.Instance; got != agents[1].cfg.Instance {
					t.Errorf("the Cluster names %q", got)
				}
				agents[1].stop()
			})
		})
	}
}

// Two agents that check in rarely find each other at their second check-ins: an agent
// that has seen the other checks in again at once.
func TestTwoAgentsThatCheckInRarely(t *testing.T) {
	testManager(t, func(t *manager) {
		rarely := func(c *Config) { c.Next = heartbeat.Every(time.Hour, c.Instance) }
		first, second := t.agent("1", rarely).run(), t.agent("2", rarely).run()
		pass(2*time.Hour + time.Minute)
		for i, a := range []*agent{first, second} {
			if last := a.answers[len(a.answers)-1]; last.Duplicate == "" {
				t.Errorf("agent %d does not know: %+v", i+1, a.answers)
			}
			a.stop()
		}
	})
}

// Whatever goes wrong, the manager sees in the end that the agent lives, under the name of
// its last process, and the agent writes nothing but its check-ins.
func TestCheckInFaults(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner {
			instance, err := NewInstance(time.Now(), "uid")
			if err != nil {
				t.Fatal(err)
			}
			return []kube.Runner{New(configOf(c, instance))}
		},
		Given: func(w *looptest.World) {
			looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name}})
		},
		Then: func(w *looptest.World) {
			got := looptest.Read[*fleet.Cluster](w, clusterKey.Namespace, clusterKey.Name).Status.Agent
			if age := time.Since(got.LastSeen.Time); age > often || got.Instance == "" || got.Namespace != "agent" {
				w.Errorf("seen last %s ago: %+v", age, got)
			}
		},
		Regular: isCheckIn,
	})
}
