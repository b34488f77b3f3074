package credential

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// An offered credential is tried, kept and then shown with every request. The check-in
// reports it at once; the same offer is not taken again, also not by the next process.
func TestOfferIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		offer string
		ends  time.Duration
	}{"Lasting": {offer: offerLasting()}, "Ending": {offer: offerHour(), ends: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			testRotator(t, func(t *rotatorTest) {
				if t.observe("") || t.shows() != oldToken {
					t.Error("without an offer nothing changes")
				}
				if !t.observe(c.offer) {
					t.Fatalf("the offer was not taken: %v", t.events)
				}
				token := t.shows()
				if token != lastToken && !isOf("agent", token) || !slices.Equal(t.events, []string{ReasonTaken}) {
					t.Errorf("shows %q; events: %v", token, t.events)
				}
				digest, ends := t.Uses()
				if digest != plan.Digest(c.offer) || c.ends > 0 && !ends.Equal(time.Now().Add(c.ends)) || c.ends == 0 && !ends.IsZero() {
					t.Errorf("reports %s, which ends at %s", digest, ends)
				}
				up, err := kube.Connect(kube.Config{REST: t.REST(), UserAgent: "agent/v0", FieldManager: "agent"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := kube.StoreOf[*fleet.Cluster](up).Get(t.Context(), clusterKey); err != nil {
					t.Fatal(err)
				}
				requests := t.server.Requests()
				if last := requests[len(requests)-1]; last.Token != token {
					t.Errorf("a connection shows %q", last.Token)
				}
				before := len(t.server.Writes())
				again := t.observe(c.offer)
				t.start()
				if again || t.observe(c.offer) || len(t.server.Writes()) > before {
					t.Errorf("taken again: %v", t.server.Writes()[before:])
				}
			})
		})
	}
}

// Whatever goes wrong while an offer is taken, the present credential is used on, one event
// says so, and the next check-in takes it.
func TestOfferIsNotTaken(t *testing.T) {
	tokens := kubetest.Match{Verb: "create", Resource: "serviceaccounts", Subresource: "token"}
	renewals := tokens
	renewals.Name = plan.RenewalAccount("agent")
	for name, c := range map[string]struct {
		offer string
		fault func(*kubetest.Server) *kubetest.Fault
	}{
		"NotFetched": {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(2, tokens) }},
		"NoRenewal":  {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Broken(2, renewals) }},
		"Unreadable": {offerLasting(), func(s *kubetest.Server) *kubetest.Fault {
			return s.Forbid(2, kubetest.Match{Verb: "get", Resource: "secrets", Name: "agent-token"})
		}},
		"WithoutRights": {offerLasting(), func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(2, kubetest.Match{Token: lastToken}) }},
		"Denied":        {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Deny(2, tryStatus) }},
		"SecretBroken": {offerHour(), func(s *kubetest.Server) *kubetest.Fault {
			return s.Broken(2, kubetest.Match{Verb: "get", Resource: "secrets", Name: fleet.SecretAgent, Agent: "agent"})
		}},
		"NotKept":         {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Broken(2, keepSecret) }},
		"SecretChanged":   {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Conflict(2, keepSecret) }},
		"ManagerIsSilent": {offerHour(), func(s *kubetest.Server) *kubetest.Fault { return s.Busy(kubetest.Always, tokens, time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			testRotator(t, func(t *rotatorTest) {
				fault := c.fault(t.server)
				for range 2 {
					began := time.Now()
					if t.observe(c.offer) || t.shows() != oldToken {
						t.Error("a credential was taken")
					}
					if took := time.Since(began); took > 3*requestLimit {
						t.Errorf("check-ins wait for %s", took)
					}
				}
				if !slices.Equal(t.events, []string{ReasonNotTaken}) {
					t.Errorf("want one event, got %v", t.events)
				}
				fault.Lift()
				if !t.observe(c.offer) || t.shows() == oldToken {
					t.Errorf("not taken at the next check-in: %v", t.events)
				}
			})
		})
	}
}

// An offer that cannot be read, or whose token is not there yet, changes nothing.
func TestOfferOfNothing(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		for _, offer := range []string{"{", plan.Offer{Namespace: "default", Account: "agent", Token: secretKey.Name}.String()} {
			if t.observe(offer) || t.shows() != oldToken {
				t.Errorf("%s was taken", offer)
			}
		}
		if !slices.Equal(t.events, []string{ReasonNotTaken, ReasonNotTaken}) {
			t.Errorf("want one event for each, got %v", t.events)
		}
	})
}

// A process that lost the answer to its write of the Secret takes the credential
// nonetheless: the Secret holds what it wrote, and not another registration's.
func TestOfferIsTakenAfterLostAnswer(t *testing.T) {
	for name, offer := range map[string]string{"Lasting": offerLasting(), "Ending": offerHour()} {
		t.Run(name, func(t *testing.T) {
			testRotator(t, func(t *rotatorTest) {
				t.server.CutAfter(1, keepSecret)
				if t.observe(offer) {
					t.Error("it is not known yet whether it is kept")
				}
				if !t.observe(offer) || t.shows() == oldToken {
					t.Errorf("not taken at the next check-in: %v", t.events)
				}
			})
		})
	}
}

// An agent that was registered again meanwhile keeps what that registration gave it.
func TestOtherRegistrationStays(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		_, s, err := kept(t.Context(), t.user)
		if err != nil {
			t.Fatal(err)
		}
		other := s.DeepCopy()
		if other.Data[registration.KeyKubeconfig], err = replaceToken(s.Data[registration.KeyKubeconfig], "other"); err != nil {
			t.Fatal(err)
		}
		if _, err := kube.StoreOf[*corev1.Secret](t.user).Patch(t.Context(), s, other); err != nil {
			t.Fatal(err)
		}
		if t.observe(offerHour()) {
			t.Error("the offer was taken")
		}
		if cfg, s, err := kept(t.Context(), t.user); err != nil || cfg.BearerToken != "other" || len(s.Data[KeyRecord]) > 0 {
			t.Errorf("the other registration was changed: %v", err)
		}
	})
}

// A token is renewed once, after half of its life, and the time of that differs between
// agents. Where that fails, it is tried again at each check-in.
func TestTokenIsRenewed(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		t.observe(offerHour())
		first, began := t.shows(), time.Now()
		var fault *kubetest.Fault
		var tries int
		for t.shows() == first && time.Since(began) < 2*time.Hour {
			time.Sleep(often)
			if time.Since(began) == 25*time.Minute {
				fault = t.server.Broken(3, kubetest.Match{Verb: "create", Resource: "serviceaccounts", Subresource: "token"})
			}
			if t.observe(offerHour()) {
				t.Error("a renewal asks for a check-in")
			}
			if fault != nil && fault.Met() > tries {
				tries = fault.Met()
			}
		}
		took := time.Since(began)
		if tries != 3 || took < 30*time.Minute || took > 36*time.Minute+4*often {
			t.Errorf("renewed after %s, and %d failures", took, tries)
		}
		if second := t.shows(); !isOf("agent", second) || !slices.Equal(t.events, []string{ReasonTaken}) {
			t.Errorf("shows %q; events: %v", second, t.events)
		}
		t.start()
		before := len(t.server.Writes())
		t.observe(offerHour())
		if now := t.server.Writes()[before:]; len(now) > 0 {
			t.Errorf("a restarted agent renews it again: %v", now)
		}
		if t.Observe(t.Context(), offerHour(), time.Now().Add(2*time.Hour)); len(t.server.Writes()) == before {
			t.Error("an agent that connects too late for its token has to renew it now")
		}
	})
}

// lastOf returns the token that the last request for the token of an account showed.
func (t *rotatorTest) lastOf(m kubetest.Match) (token string) {
	for _, r := range t.server.Requests() {
		if r.Subresource == m.Subresource && r.Name == m.Name {
			token = r.Token
		}
	}
	return token
}

// A token that ended while the manager was away is fetched again with the token for
// renewal, also where that one cannot be renewed itself, and another time.
func TestTokenIsRecovered(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		t.observe(offerHour())
		renewals := kubetest.Match{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: plan.RenewalAccount("agent")}
		t.server.Broken(1, renewals)
		for i := range 2 {
			time.Sleep(2 * time.Hour)
			ended := t.shows()
			t.server.Refuse(kubetest.Always, kubetest.Match{Token: ended})
			if done, err := t.Recover(t.Context()); !done || err != nil || t.shows() == ended || t.Ended() {
				t.Fatalf("time %d: %t, %v", i, done, err)
			}
			if with := t.lastOf(renewals); with != t.shows() {
				t.Errorf("time %d: the token for renewal was asked for with %q", i, with)
			}
			if _, ends := t.Uses(); !ends.Equal(time.Now().Add(time.Hour)) {
				t.Errorf("time %d: ends at %s", i, ends)
			}
			t.start()
		}
		if want := []string{ReasonTaken, ReasonRecovered, ReasonRecovered}; !slices.Equal(t.events, want) {
			t.Errorf("want %v, got %v", want, t.events)
		}
	})
}

// An agent that lost the answer to its write of a recovered token recovers at the next
// check-in.
func TestTokenIsRecoveredAfterLostAnswer(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		t.observe(offerHour())
		time.Sleep(2 * time.Hour)
		ended := t.shows()
		t.server.Refuse(kubetest.Always, kubetest.Match{Token: ended})
		t.server.CutAfter(1, keepSecret)
		if done, err := t.Recover(t.Context()); done || !strings.Contains(err.Error(), "keep the credential") {
			t.Errorf("got %t, %v", done, err)
		}
		if done, err := t.Recover(t.Context()); !done || err != nil || t.shows() == ended {
			t.Errorf("got %t, %v", done, err)
		}
	})
}

// A credential that ended for good is asked for again every five minutes, and at once
// when the manager answers in between.
func TestEndedTokenIsAskedForSparingly(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		t.observe(offerHour())
		time.Sleep(2 * time.Hour)
		fault := t.server.Refuse(kubetest.Always, kubetest.Match{Resource: "serviceaccounts"})
		for range 20 {
			_, _ = t.Recover(t.Context())
			time.Sleep(often)
		}
		if fault.Met() != 4 || !t.Ended() {
			t.Errorf("asked %d times in 20 minutes; ended: %t", fault.Met(), t.Ended())
		}
		_, _ = t.Recover(t.Context())
		t.observe("")
		if t.Ended() {
			t.Error("a manager that answers has not refused the credential")
		}
	})
}

// A credential without an end, one that has no record, and no rotator at all have nothing to
// renew or recover.
func TestNothingToRecover(t *testing.T) {
	testRotator(t, func(t *rotatorTest) {
		var none *Rotator
		if done, err := none.Recover(t.Context()); done || err != nil || none.Ended() || none.Observe(t.Context(), offerHour(), time.Now()) {
			t.Error("no rotator does something")
		}
		if done, err := t.Recover(t.Context()); done || err != nil {
			t.Errorf("a token of a registration: %t, %v", done, err)
		}
		t.observe(offerLasting())
		if done, err := t.Recover(t.Context()); done || err != nil {
			t.Errorf("a token that lasts: %t, %v", done, err)
		}
		if offer, renewal := readRecord([]byte(`{"offer":"x","token":"y","for":"other"}`), oldToken); offer != "" || renewal != "" {
			t.Error("the record of another registration counts")
		}
	})
}
