package token

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/grant"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
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

// has is what stands in the workspace, as "kind name", without what is behind a dot.
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

// A Secret of the token's name that is of another type is somebody else's.
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

// Whatever request fails, and however, in the end all is there once, and then there is
// rest.
func TestTokenFaults(t *testing.T) {
	faults := map[string]func(*kubetest.Server, kubetest.Match){
		"Conflict": func(s *kubetest.Server, m kubetest.Match) { s.Conflict(2, m) },
		"Busy":     func(s *kubetest.Server, m kubetest.Match) { s.Busy(3, m, 2*time.Second) },
		"Broken":   func(s *kubetest.Server, m kubetest.Match) { s.Broken(5, m) },
		"Forbid":   func(s *kubetest.Server, m kubetest.Match) { s.Forbid(5, m) },
		"CutAfter": func(s *kubetest.Server, m kubetest.Match) { s.CutAfter(1, m) },
	}
	for _, m := range []kubetest.Match{
		{Verb: "create", Resource: "serviceaccounts"}, {Verb: "create", Resource: "secrets"}, {Verb: "create", Resource: "secrets", Name: "token"},
		{Verb: "create", Resource: "roles"}, {Verb: "create", Resource: "rolebindings"}, {Verb: "get", Resource: "secrets"},
		{Verb: "patch", Resource: "clusterregistrationtokens", Subresource: "status"},
	} {
		for name, fault := range faults {
			if name == "Conflict" && m.Verb != "patch" {
				continue // nothing but a patch is refused so
			}
			t.Run(strings.Join([]string{name, m.Verb, m.Resource, m.Name}, "/"), func(t *testing.T) {
				testTokens(t, Config{}, func(t *tokenTest) {
					fault(t.server, m)
					t.create(0)
					time.Sleep(time.Minute)
					t.server.FillAccountTokens()
					time.Sleep(time.Minute)
					t.wantsAll()
					t.wantsRestFor(10 * time.Minute)
				})
			})
		}
	}
}

// While watches are late the loop does not know what it has made. It makes nothing twice
// and takes nothing back.
func TestTokenLateWatches(t *testing.T) {
	for _, gvr := range []schema.GroupVersionResource{
		tokenKind, corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
		rbacv1.SchemeGroupVersion.WithResource("roles"), rbacv1.SchemeGroupVersion.WithResource("rolebindings"),
	} {
		t.Run(gvr.Resource, func(t *testing.T) {
			testTokens(t, Config{}, func(t *tokenTest) {
				release := t.server.HoldWatches(gvr)
				t.create(0)
				t.server.FillAccountTokens()
				for i := range 3 {
					change := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, i)
					if _, err := t.tokens.PatchRaw(t.Context(), tokenKey, types.MergePatchType, change); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
				}
				release()
				synctest.Wait()
				t.server.FillAccountTokens()
				time.Sleep(time.Minute)
				t.wantsAll()
				t.wantsRest()
			})
		})
	}
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
		t.server.CollectGarbage() // what was made anew for the first one
		t.wantsAll()
		t.wantsRest()
	})
}

// A process that ends at any time leaves what the next one finishes; where all is done
// the next one writes nothing.
func TestTokenRestart(t *testing.T) {
	testTokens(t, Config{}, func(t *tokenTest) {
		t.server.Broken(1, kubetest.Match{Verb: "create", Resource: "rolebindings"})
		t.server.CutAfter(1, kubetest.Match{Verb: "create", Resource: "roles"})
		t.create(0)
		t.stop()
		t.server.FillAccountTokens()
		t.start()
		time.Sleep(time.Minute)
		t.wantsAll()
		before := len(t.server.Writes())
		t.stop()
		t.start()
		t.wantsRest()
		if now := t.server.Writes(); len(now) > before {
			t.Errorf("a new start has written: %v", now[before:])
		}
	})
}
