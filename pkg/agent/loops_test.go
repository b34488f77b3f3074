package agent

import (
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An agent that is given a token is registered in the end, works with its manager, and has
// forgotten the token.
func TestAgentRegisters(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(nil), Regular: isCheckIn,
		Spare: func(fault string, _ kubetest.Match) bool { return fault == "Busy" }, // client-go sends the request again by itself
		Given: func(w *looptest.World) {
			cryptotest.SetGlobalRandom(w.T, 1)
			givenManager(w)
			answersAll(w)
		},
		When: func(w *looptest.World) { looptest.Make(w, bootstrapSecret()) },
		Then: func(w *looptest.World) {
			wantsReached(w)
			if left := looptest.Read[*corev1.Secret](w, home, fleet.SecretAgentBootstrap); left != nil {
				w.Error("the token is still there")
			}
		},
	})
}

// An agent with a credential takes the one that its manager offers, and shows it from then
// on; the manager learns that.
func TestAgentTakesOffer(t *testing.T) {
	offer := plan.Offer{Namespace: deploymentsAt, Account: "agent", Token: "agent-token"}.String()
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(nil), Regular: isCheckIn,
		Given: func(w *looptest.World) {
			givenAgent(w)
			looptest.Make(w, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: deploymentsAt, Name: "agent-token"},
				Data:       map[string][]byte{corev1.ServiceAccountTokenKey: []byte("lasting")},
			})
		},
		When: func(w *looptest.World) {
			looptest.Change(w, workspace, clusterKey.Name, func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationCredential] = offer })
		},
		Settles: 5 * time.Minute,
		Then: func(w *looptest.World) {
			wantsReached(w)
			if got := looptest.Read[*fleet.Cluster](w, workspace, clusterKey.Name).Status.Agent.Credential; got != plan.Digest(offer) {
				w.Errorf("the agent reports %q", got)
			}
			for _, r := range slices.Backward(w.Server.Requests()) {
				if isCheckIn(r) {
					if r.Token != "lasting" {
						w.Errorf("the agent shows %q", r.Token)
					}
					break
				}
			}
		},
	})
}

// An agent that loses its manager notes why, once, and that it is back. It goes on checking
// in, and writes nothing else meanwhile.
func TestAgentLosesItsManager(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(*kubetest.Server) *kubetest.Fault
		reason  string
		refused string
	}{
		"Refused":   {func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(kubetest.Always, checksIn) }, reasonCredential, "true"},
		"Forbidden": {func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, checksIn) }, reasonRights, "true"},
		"Denied":    {func(s *kubetest.Server) *kubetest.Fault { return s.Deny(kubetest.Always, checksIn) }, reasonDenied, "false"},
		"Broken":    {func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, checksIn) }, reasonFailing, "false"},
		"Away":      {func(s *kubetest.Server) *kubetest.Fault { return s.CutAfter(kubetest.Always, checksIn) }, reasonAway, "false"},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(nil), Given: givenAgent, Rests: 10 * time.Minute,
				Regular: isCheckIn,
				When: func(w *looptest.World) {
					w.Pass(2 * time.Minute)
					wantsReached(w)
					fault := c.fault(w.Server)
					w.Pass(2 * time.Minute)
					if got := contactOf(w); got[keyReached] != "false" || got[keyReason] != c.reason || got[keyRefused] != c.refused || got[keyManager] != mark.String() {
						w.Errorf("the agent notes %v", got)
					}
					w.Rests(10 * time.Minute)
					fault.Lift()
				},
				Then: wantsReached,
			})
		})
	}
}

// hourly connects at each full hour.
func hourly(w *testing.T) *heartbeat.Schedule {
	w.Helper()
	s, err := heartbeat.ParseSchedule("0 * * * *", time.UTC, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// ofManager returns how many requests were sent that go to the manager.
func ofManager(w *looptest.World) int {
	return count(w, "patch", "clusters") + count(w, "list", "bundledeployments") + count(w, "watch", "bundledeployments")
}

// An agent with a schedule connects at the start, as its manager has not heard of it, and
// then at the times of the schedule alone. In between it sends the manager nothing.
func TestAgentPolls(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(func(c *Config) { c.Poll = hourly(t) }), Given: givenAgent, Rests: 20 * time.Minute,
		When: func(w *looptest.World) {
			w.Pass(10 * time.Minute)
			wantsReachedByPoll(w)
			lists, all := count(w, "list", "bundledeployments"), ofManager(w)
			if lists == 0 || count(w, "watch", "bundledeployments") > 0 {
				w.Errorf("want lists and no watch, got %d and %d", lists, count(w, "watch", "bundledeployments"))
			}
			w.Pass(45 * time.Minute)
			if n := ofManager(w); n != all {
				w.Errorf("sent %d requests between two visits", n-all)
			}
			w.Pass(10 * time.Minute)
			if n := count(w, "list", "bundledeployments") - lists; n != 1 {
				w.Errorf("want one list for a visit, got %d", n)
			}
		},
		Then: wantsReachedByPoll,
	})
}

// wantsReachedByPoll checks that the last visit has succeeded, and that the next one is
// announced.
func wantsReachedByPoll(w *looptest.World) {
	w.Helper()
	got := contactOf(w)
	next, err := time.Parse(time.RFC3339, got[keyNext])
	if got[keyReached] != "true" || err != nil || time.Until(next) <= 0 || time.Until(next) > 61*time.Minute {
		w.Errorf("the agent notes %v", got)
	}
}

// A visit that finds the manager away is over soon, and the next one is at its time.
func TestAgentPollsAManagerThatIsAway(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(func(c *Config) { c.Poll = hourly(t) }), Rests: 20 * time.Minute,
		Regular: func(r kubetest.Request) bool { return isCheckIn(r) || r.Name == contactName }, // of the process after the restart
		Given: func(w *looptest.World) {
			givenAgent(w)
			w.Server.Broken(kubetest.Always, checksIn)
		},
		When: func(w *looptest.World) { w.Pass(30 * time.Minute) },
		Then: func(w *looptest.World) {
			if got := contactOf(w); got[keyReached] != "false" || got[keyReason] != reasonFailing {
				w.Errorf("the agent notes %v", got)
			}
			if n := count(w, "list", "bundledeployments"); n > 0 {
				w.Errorf("listed %d times", n)
			}
		},
		Settles: time.Second,
	})
}

// Of two agents with one identity that poll, the one in the cluster that the manager does
// not know the Cluster by reads and deploys nothing.
func TestPollingAgentOfOtherClusterReadsNothing(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(func(c *Config) { c.Poll = hourly(t) }), Rests: 10 * time.Minute,
		Given: func(w *looptest.World) {
			givenAgent(w)
			looptest.Change(w, workspace, clusterKey.Name, func(c *fleet.Cluster) { c.Status.Agent.ClusterUID = "another" })
		},
		Then: func(w *looptest.World) {
			if checked, n := count(w, "patch", "clusters"), count(w, "list", "bundledeployments"); checked == 0 || n > 0 {
				w.Errorf("checked in %d times, and listed %d times", checked, n)
			}
		},
	})
}

// An orphan is removed where that is configured, after its time, while the manager answers;
// else it stays.
func TestOrphans(t *testing.T) {
	const grace = 10 * time.Minute
	for name, c := range map[string]struct {
		policy string
		maker  string // the manager that the orphan is of
		away   bool
		stays  bool
	}{
		"Collected":    {policy: OrphansCollected, maker: mark.ID},
		"Kept":         {policy: OrphansKept, maker: mark.ID, stays: true},
		"OtherManager": {policy: OrphansCollected, maker: "other", stays: true},
		"ManagerAway":  {policy: OrphansCollected, maker: mark.ID, away: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			records := func(w *looptest.World) []store.Record {
				s := store.New(w.User, home)
				w.Must(s.Load(w.Context()))
				return s.All()
			}
			looptest.Undisturbed(t, looptest.Loop{
				Start:   start(func(cfg *Config) { cfg.OrphanPolicy, cfg.OrphanGracePeriod = c.policy, grace }),
				Regular: isCheckIn, Settles: 5 * time.Minute, Rests: 20 * time.Minute,
				Given: func(w *looptest.World) {
					givenAgent(w)
					w.Must(store.New(w.User, home).Save(w.Context(), store.Record{
						Key: store.Key{Manager: c.maker, Name: "web"}, Epoch: mark.Epoch, Release: release.ID{Namespace: "default", Name: "web"},
					}))
				},
				When: func(w *looptest.World) {
					w.Pass(grace / 2)
					if len(records(w)) != 1 {
						w.Error("removed before its time")
					}
					if got := looptest.Read[*fleet.Cluster](w, workspace, clusterKey.Name).Status.Agent.Orphans; got == nil || got.Count != 1 {
						w.Errorf("the agent reports %+v", got)
					}
					if c.away {
						w.Server.Broken(kubetest.Always, checksIn)
					}
					w.Pass(grace)
				},
				Then: func(w *looptest.World) {
					if stays := len(records(w)) == 1; stays != c.stays {
						w.Errorf("it stays: %t", stays)
					}
				},
			})
		})
	}
}

// A taken credential is reported at once, also where the agent checks in rarely: the manager
// waits for that before it withdraws the former one.
func TestTakenOfferIsReportedAtOnce(t *testing.T) {
	offer := plan.Offer{Namespace: deploymentsAt, Account: "agent", Token: "agent-token"}.String()
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(func(c *Config) { c.CheckinInterval = time.Hour }), Regular: isCheckIn,
		Given: func(w *looptest.World) {
			givenAgent(w)
			looptest.Make(w, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: deploymentsAt, Name: "agent-token"},
				Data:       map[string][]byte{corev1.ServiceAccountTokenKey: []byte("lasting")},
			})
		},
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			looptest.Change(w, workspace, clusterKey.Name, func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationCredential] = offer })
			w.Pass(time.Hour - 10*time.Second) // with Settles there is one check-in of the interval
		},
		Settles: 10 * time.Second,
		Then: func(w *looptest.World) {
			if got := looptest.Read[*fleet.Cluster](w, workspace, clusterKey.Name).Status.Agent.Credential; got != plan.Digest(offer) {
				w.Errorf("the agent reports %q", got)
			}
		},
	})
}

// The Secret with the credential is written again where it was deleted: a restarted agent
// reaches its manager.
func TestCredentialIsWrittenAgain(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(nil), Regular: isCheckIn, Of: "credential", Given: givenAgent,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			looptest.Remove[*corev1.Secret](w, home, fleet.SecretAgent)
		},
		Then: func(w *looptest.World) {
			wantsReached(w)
			if s := looptest.Read[*corev1.Secret](w, home, fleet.SecretAgent); s == nil || string(s.Data["clusterName"]) != clusterKey.Name {
				w.Errorf("the agent has no credential any more: %v", s)
			}
		},
	})
}
