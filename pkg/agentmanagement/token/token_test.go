package token

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

var (
	tokenKey  = kube.Key{Namespace: "workspace", Name: "token"}
	tokenKind = fleet.GroupVersion.WithResource("clusterregistrationtokens")
)

// tokenTest is the loop for registration tokens on an API server in memory, in a
// bubble of fake time.
type tokenTest struct {
	*testing.T
	cfg    Config
	server *kubetest.Server
	tokens *kube.Store[*fleet.ClusterRegistrationToken]
	grants grant.Writer
	stop   func() // ends the loop, and waits until it has ended
}

// testTokens runs f with the loop running.
func testTokens(t *testing.T, cfg Config, f func(*tokenTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		s.MakeNamespace(tokenKey.Namespace)
		cfg.System = registration.System{Namespace: "cattle-fleet-system", ManagerID: "manager"}
		cfg.Now = time.Now
		user := s.Connect("user")
		tt := &tokenTest{T: t, cfg: cfg, server: s, tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](user), grants: grant.NewWriter(user, nil)}
		tt.start()
		defer func() { tt.stop() }()
		f(tt)
	})
}

// start starts the loop as a process does that begins with nothing.
func (t *tokenTest) start() {
	log := logrus.New()
	log.SetOutput(io.Discard)
	c := t.server.Connect("fleet-agentmanagement")
	caches, events := cache.New(c, t.cfg.System), kube.NewRecorder(c, "agentmanagement")
	l := New(t.cfg, c, caches, events, logrus.NewEntry(log))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, append(append(caches.Runnables(), events), l.Runnables()...)...) }()
	t.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	time.Sleep(time.Second) // kube.Run looks every 10 ms whether the caches are filled
}

// create makes the token; without a ttl it does not end.
func (t *tokenTest) create(ttl time.Duration) *fleet.ClusterRegistrationToken {
	t.Helper()
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: tokenKey.Namespace, Name: tokenKey.Name}}
	if ttl > 0 {
		token.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	made, err := t.tokens.Create(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return made
}

// granted makes the token and lets the token controller work.
func (t *tokenTest) granted(ttl time.Duration) *fleet.ClusterRegistrationToken {
	t.Helper()
	token := t.create(ttl)
	t.server.FillAccountTokens()
	synctest.Wait()
	return token
}

// has lists the objects in the workspace, as "kind name", without the part of a name
// after a dot.
func (t *tokenTest) has() []string {
	t.Helper()
	return slices.Concat(inWorkspace(t, "account", t.grants.Accounts), inWorkspace(t, "binding", t.grants.Bindings),
		inWorkspace(t, "role", t.grants.Roles), inWorkspace(t, "secret", t.grants.Secrets), inWorkspace(t, "token", t.tokens))
}

func inWorkspace[P kube.Object](t *tokenTest, kind string, store *kube.Store[P]) []string {
	t.Helper()
	list, err := store.List(t.Context(), tokenKey.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range list {
		out = append(out, kind+" "+o.GetName())
	}
	return out
}

// wantsAll checks that all that a token needs is there, once, and that it is finished.
func (t *tokenTest) wantsAll() {
	t.Helper()
	token, err := t.tokens.Get(t.Context(), tokenKey)
	if err != nil {
		t.Fatal(err)
	}
	g := registration.GrantToken(token, t.cfg.System)
	want := []string{
		"account " + g.ServiceAccount.Name, "binding " + g.RoleBinding.Name, "role " + g.Role.Name,
		"secret " + g.Secret.Name, "secret token", "token token",
	}
	slices.Sort(want)
	got := t.has()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	values, err := t.grants.Secrets.Get(t.Context(), tokenKey)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := registration.ReadTokenSecret(values); err != nil || read.Token == "" || token.Status.SecretName != "token" {
		t.Errorf("want values with the account's token, and the status to name them; got %+v, %v, %+v", read, err, token.Status)
	}
}

// wantsRest checks that nothing is written for an hour.
func (t *tokenTest) wantsRest() {
	t.Helper()
	t.wantsRestFor(time.Hour)
}

func (t *tokenTest) wantsRestFor(d time.Duration) {
	t.Helper()
	before := t.server.Writes()
	time.Sleep(d)
	if now := t.server.Writes(); len(now) > len(before) {
		t.Errorf("want rest, got %v", now[len(before):])
	}
}

// A token gets an account with a right, and a Secret of values once the account has its
// token. It ends with its ttl, and what it owns goes with it.
func TestTokenIsGrantedAndEnds(t *testing.T) {
	testTokens(t, Config{}, func(t *tokenTest) {
		made := t.create(2 * time.Hour)
		if _, err := t.grants.Secrets.Get(t.Context(), tokenKey); !kube.IsGone(err) {
			t.Errorf("values were written before the account had a token: %v", err)
		}
		t.server.FillAccountTokens()
		synctest.Wait()
		t.wantsAll()
		token, err := t.tokens.Get(t.Context(), tokenKey)
		if want := made.CreationTimestamp.Add(2 * time.Hour); err != nil || token.Status.Expires == nil || !token.Status.Expires.Time.Equal(want) {
			t.Errorf("want it to end at %s, got %+v, %v", want, token.Status, err)
		}
		t.wantsRest()
		t.server.CollectGarbage()
		t.wantsAll()
		time.Sleep(time.Hour)
		synctest.Wait()
		t.server.CollectGarbage()
		if got := t.has(); len(got) > 0 {
			t.Errorf("want nothing left, got %v", got)
		}
		t.wantsRest()
	})
}

// Where a ttl is required a token without one is deleted, and granted nothing.
func TestTokenWithoutRequiredTTL(t *testing.T) {
	testTokens(t, Config{TTLRequired: true}, func(t *tokenTest) {
		t.create(0)
		if got := t.has(); len(got) > 0 {
			t.Errorf("want nothing, got %v", got)
		}
		t.wantsRest()
	})
}

// A Secret of the token's name that is of another type belongs to another owner.
func TestTokenSecretTaken(t *testing.T) {
	testTokens(t, Config{}, func(t *tokenTest) {
		taken := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: tokenKey.Namespace, Name: tokenKey.Name}, Data: map[string][]byte{"own": []byte("data")},
		}
		taken, err := t.grants.Secrets.Create(t.Context(), taken)
		if err != nil {
			t.Fatal(err)
		}
		t.granted(0)
		now, err := t.grants.Secrets.Get(t.Context(), tokenKey)
		if err != nil || now.ResourceVersion != taken.ResourceVersion {
			t.Errorf("the Secret was changed: %+v, %v", now, err)
		}
		token, err := t.tokens.Get(t.Context(), tokenKey)
		if err != nil || token.Status.SecretName != "" {
			t.Errorf("the status names a Secret that is not the token's: %+v, %v", token.Status, err)
		}
		t.wantsRest()
	})
}

// A token ends with its ttl also where its grant could not be finished.
func TestTokenEndsUnfinished(t *testing.T) {
	for name, prepare := range map[string]func(*tokenTest){
		"AccountWithoutToken": func(t *tokenTest) { t.create(time.Hour) },
		"SecretTaken": func(t *tokenTest) {
			taken := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tokenKey.Namespace, Name: tokenKey.Name}}
			if _, err := t.grants.Secrets.Create(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
			t.granted(time.Hour)
		},
		"Forbidden": func(t *tokenTest) {
			t.server.Forbid(kubetest.Always, kubetest.Match{Verb: "create", Resource: "roles"})
			t.create(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			testTokens(t, Config{}, func(t *tokenTest) {
				prepare(t)
				if _, err := t.tokens.Get(t.Context(), tokenKey); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if _, err := t.tokens.Get(t.Context(), tokenKey); !kube.IsGone(err) {
					t.Errorf("want the token deleted, got %v", err)
				}
			})
		})
	}
}

// Whatever goes wrong, a token has all that it needs in the end, once.
func TestTokenFaults(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: managertest.Start(func(p managertest.Ports) []kube.Runner {
			return New(Config{System: managertest.System, Now: time.Now}, p.Client, p.Caches, p.Events, p.Log).Runnables()
		}),
		Given: func(w *looptest.World) { w.Server.MakeNamespace("workspace") },
		When: func(w *looptest.World) {
			looptest.Make(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "workspace", Name: "token"}})
		},
		Then: func(w *looptest.World) {
			token := looptest.Read[*fleet.ClusterRegistrationToken](w, "workspace", "token")
			g := registration.GrantToken(token, managertest.System)
			got := slices.Concat(looptest.Names[*corev1.ServiceAccount](w, "workspace"), looptest.Names[*rbacv1.Role](w, "workspace"),
				looptest.Names[*rbacv1.RoleBinding](w, "workspace"), looptest.Names[*corev1.Secret](w, "workspace"))
			want := []string{g.ServiceAccount.Name, g.Role.Name, g.RoleBinding.Name, g.Secret.Name, "token"}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				w.Errorf("want %v, got %v", want, got)
			}
			if token.Status.SecretName != "token" {
				w.Errorf("the status does not name the Secret: %+v", token.Status)
			}
		},
	})
}

// A token that was deleted and made again lives by its own ttl, also where the loop has
// not heard of that when the first one ends.
func TestTokenMadeAgainOutlivesTheFirst(t *testing.T) {
	testTokens(t, Config{}, func(t *tokenTest) {
		t.granted(time.Hour)
		release := t.server.HoldWatches(tokenKind)
		if err := t.tokens.Delete(t.Context(), tokenKey, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		t.server.CollectGarbage()
		again := t.create(10 * time.Hour)
		time.Sleep(90 * time.Minute)
		release()
		synctest.Wait()
		t.server.FillAccountTokens()
		synctest.Wait()
		if now, err := t.tokens.Get(t.Context(), tokenKey); err != nil || now.UID != again.UID {
			t.Fatalf("the token that was made again is gone: %v", err)
		}
		t.server.CollectGarbage() // what was made again for the first one
		t.wantsAll()
		t.wantsRest()
	})
}
