package register

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
)

var secretKind = corev1.SchemeGroupVersion.WithResource("secrets")

// watch starts a watcher of the bootstrap Secret.
func (a *applicant) watch() *BootstrapWatcher {
	l := NewBootstrapWatcher(a.cfg.Down, agentNamespace)
	go func() { _ = l.Run(a.Context()) }()
	time.Sleep(time.Second)
	synctest.Wait()
	return l
}

// changed reports whether the watcher has notified of a change since it was asked last.
func changed(l *BootstrapWatcher) bool {
	synctest.Wait()
	select {
	case <-l.Changed():
		return true
	default:
		return false
	}
}

// The watcher knows the present token, and notifies of each change, also after a watch
// that was cut and compacted.
func TestBootstrapWatcher(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		if _, there := NewBootstrapWatcher(t.cfg.Down, agentNamespace).Look(); there {
			t.Error("a watcher that does not run knows a token")
		}
		l := t.watch()
		wants := func(token, why string) {
			t.Helper()
			if !changed(l) {
				t.Errorf("%s: not notified", why)
			}
			if b, there := l.Look(); there != (token != "") || b.Token != token {
				t.Errorf("%s: got %q, %t", why, b.Token, there)
			}
		}
		wants("first", "the token that was there before")
		t.put(bootstrapSecret(bootstrap("second")))
		wants("second", "another token")
		if err := t.secrets.Delete(t.Context(), l.key, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		wants("", "a deleted token")
		release := t.server.HoldWatches(secretKind)
		t.server.CutWatches(secretKind)
		t.put(bootstrapSecret(bootstrap("third")))
		t.server.ForgetHistory()
		if changed(l) {
			t.Error("notified before the watch has the change")
		}
		release()
		time.Sleep(time.Minute)
		wants("third", "a token that came while the watch was cut")
		if changed(l) {
			t.Error("notified although nothing has changed")
		}
	})
}

// A token that is put there while the agent runs is used once what Helm wrote after it has
// arrived. One that was there before is used at once, and what the agent itself adds to
// the Secret is no other token.
func TestBootstrapSettles(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		l := t.watch()
		settles := func() time.Duration {
			t.Helper()
			began := time.Now()
			if err := l.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if took := settles(); took != 0 {
			t.Errorf("a token from before was used after %s", took)
		}
		if _, err := NewAttempt(t.cfg, bootstrap("first"), nil).clientRandom(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if took := settles(); took != 0 {
			t.Errorf("a word that was added delays by %s", took)
		}
		t.put(bootstrapSecret(bootstrap("second")))
		synctest.Wait()
		go func() {
			time.Sleep(settling / 2)
			t.put(bootstrapSecret(bootstrap("third")))
		}()
		if took := settles(); took != settling*3/2 {
			t.Errorf("a token that was replaced meanwhile was used after %s, want %s after it", took, settling)
		}
		t.put(bootstrapSecret(bootstrap("fourth")))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the wait to end with its context, got %v", err)
		}
	})
}

// Forget removes the token that was used and no other one, whatever is in its way.
func TestForget(t *testing.T) {
	key := kube.Key{Namespace: agentNamespace, Name: fleet.SecretAgentBootstrap}
	remove := kubetest.Match{Verb: "delete", Resource: "secrets"}
	for name, c := range map[string]struct {
		given            func(*applicant)
		used             string
		removed, fails   bool
		stays, goesAgain bool // after a second call, which nothing is in the way of
	}{
		"Same":     {given: func(*applicant) {}, used: "first", removed: true},
		"Gone":     {given: func(t *applicant) { _ = t.secrets.Delete(t.Context(), key, kube.Precondition{}) }, used: "first"},
		"Other":    {given: func(*applicant) {}, used: "earlier", stays: true},
		"Conflict": {given: func(t *applicant) { t.server.Conflict(1, remove) }, used: "first", removed: true},
		"Broken":   {given: func(t *applicant) { t.server.Broken(1, remove) }, used: "first", fails: true, goesAgain: true},
		"Forbidden": {given: func(t *applicant) {
			t.server.Forbid(1, kubetest.Match{Verb: "get", Resource: "secrets", Agent: "agent"})
		}, used: "first", fails: true, goesAgain: true},
		"Cut": {given: func(t *applicant) { t.server.CutAfter(1, remove) }, used: "first", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			testApplicant(t, func(t *applicant) {
				c.given(t)
				removed, err := Forget(t.Context(), t.cfg.Down, agentNamespace, bootstrap(c.used))
				if removed != c.removed || (err != nil) != c.fails {
					t.Errorf("got %t, %v", removed, err)
				}
				removed, err = Forget(t.Context(), t.cfg.Down, agentNamespace, bootstrap(c.used))
				if removed != c.goesAgain || err != nil {
					t.Errorf("again: %t, %v", removed, err)
				}
				if _, err := t.secrets.Get(t.Context(), key); kube.IsGone(err) == c.stays {
					t.Errorf("want it to stay: %t; got %v", c.stays, err)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// A token that is replaced between the look and the deletion stays.
func TestForgetLeavesReplacedToken(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		cfg := t.server.REST()
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.Method == http.MethodDelete {
					t.put(bootstrapSecret(bootstrap("second")))
				}
				return next.RoundTrip(req)
			})
		})
		down, err := kube.Connect(kube.Config{REST: cfg, UserAgent: "agent/v0", FieldManager: "agent"})
		if err != nil {
			t.Fatal(err)
		}
		if removed, err := Forget(t.Context(), down, agentNamespace, bootstrap("first")); removed || err != nil {
			t.Errorf("got %t, %v", removed, err)
		}
		s, err := t.secrets.Get(t.Context(), kube.Key{Namespace: agentNamespace, Name: fleet.SecretAgentBootstrap})
		if err != nil || !bootstrapOf(s).Same(bootstrap("second")) {
			t.Errorf("the other token was removed: %v", err)
		}
	})
}

// Whatever goes wrong, an agent that is given a token has a credential in the end, has
// forgotten the token, and has asked with one word.
func TestRegistrationFaults(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner {
			down := c.Loop("register")
			cfg, l := configFor(down, "process/v0"), NewBootstrapWatcher(down, agentNamespace)
			return []kube.Runner{l, kube.RunnerFunc(func(ctx context.Context) error { return registers(ctx, cfg, l) })}
		},
		Given: func(w *looptest.World) {
			cryptotest.SetGlobalRandom(w.T, 1) // the name of an answer follows from the word
			makeNamespaces(w.Server)
			answersAll(w)
		},
		When: func(w *looptest.World) { looptest.Make(w, bootstrapSecret(bootstrap("first"))) },
		Then: func(w *looptest.World) {
			cred, err := Read(w.Context(), configFor(w.User, "user"))
			if err != nil || cred.REST.BearerToken != "agent-token" || cred.Origin != bootstrap("first").Origin() {
				w.Errorf("want a credential, got %+v, %v", cred, err)
			}
			if left := looptest.Read[*corev1.Secret](w, agentNamespace, fleet.SecretAgentBootstrap); left != nil {
				w.Error("the token is still there")
			}
			words := map[string]bool{}
			for _, name := range looptest.Names[*fleet.ClusterRegistration](w, workspace) {
				words[looptest.Read[*fleet.ClusterRegistration](w, workspace, name).Spec.ClientRandom] = true
			}
			if len(words) != 1 {
				w.Errorf("want one word, got %d", len(words))
			}
		},
	})
}

// registers does what an agent does with a token, until ctx ends.
func registers(ctx context.Context, cfg Config, l *BootstrapWatcher) error {
	var delays kube.Backoff
	for {
		if b, there := l.Look(); there {
			if err := registerOnce(ctx, cfg, l, b); err != nil && delays.Wait(ctx) == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Changed():
		}
	}
}

func registerOnce(ctx context.Context, cfg Config, l *BootstrapWatcher, b Bootstrap) error {
	if err := l.Settle(ctx); err != nil {
		return err
	}
	cred, err := Read(ctx, cfg)
	if err != nil && !errors.Is(err, ErrNotRegistered) {
		return err
	}
	if cred.Origin != b.Origin() {
		grant, err := NewAttempt(cfg, b, nil).Try(ctx)
		if err != nil {
			return err
		}
		if err := grant.Keep(ctx, cfg); err != nil {
			return err
		}
	}
	_, err = Forget(ctx, cfg.Down, agentNamespace, b)
	return err
}

// answersAll answers every request, as a manager does.
func answersAll(w *looptest.World) {
	requests := kube.NewCache[*fleet.ClusterRegistration](w.User, kube.Watch{Namespace: workspace}, nil)
	requests.OnChange(func(old, made *fleet.ClusterRegistration) {
		if old == nil {
			_, err := kube.StoreOf[*corev1.Secret](w.User).Apply(w.Context(), answerTo(made))
			w.Must(err)
		}
	})
	go func() { _ = requests.Run(w.Context()) }()
}
