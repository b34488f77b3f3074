package register

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// An agent asks with the UID of its cluster and a word of its own, waits for the answer,
// and keeps the credential in it. It asks for nothing while it waits.
func TestAttemptRegisters(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		done := t.try(t.Context(), t.attempt("first"))
		time.Sleep(10 * time.Second)
		asked := t.asked()
		system, err := kube.StoreOf[*corev1.Namespace](t.user).Get(t.Context(), kube.Key{Name: metav1.NamespaceSystem})
		if err != nil || len(asked) != 1 {
			t.Fatalf("want one request, got %v, %v", asked, err)
		}
		if r := asked[0]; r.Spec.ClientID != string(system.UID) || r.Spec.ClientRandom == "" || r.Labels[fleet.LabelRegistrationToken] != "token" {
			t.Errorf("want the UID of kube-system, a word and the token's name: %+v, %v", r.Spec, r.Labels)
		}
		t.answer()
		got := <-done
		if got.err != nil || len(t.notices()) > 0 {
			t.Fatalf("%v; silent: %v", got.err, t.notices())
		}
		if _, err := Read(t.Context(), t.cfg); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("a credential is kept before it was tried: %v", err)
		}
		if err := got.grant.Keep(t.Context(), t.cfg); err != nil {
			t.Fatal(err)
		}
		cred, err := Read(t.Context(), t.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if cred.REST.BearerToken != "agent-token" || cred.URL() != "https://kubetest" || cred.DeploymentNamespace != "deployments" ||
			cred.Cluster != (kube.Key{Namespace: workspace, Name: "c"}) || cred.Origin != bootstrap("first").Origin() {
			t.Errorf("what is read is not what was answered: %+v", cred)
		}
		before := len(t.server.Writes())
		if err := got.grant.Keep(t.Context(), t.cfg); err != nil || len(t.server.Writes()) > before+1 {
			t.Errorf("the same credential again: %v, %v", err, t.server.Writes()[before:])
		}
	})
}

// A process that is started again before it has an answer asks for the same one. A new
// token is a new request.
func TestAttemptRepeatsItsWord(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		words := map[string]bool{}
		ask := func(token string) string {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			done := t.try(ctx, t.attempt(token))
			word := ""
			for _, r := range t.asked() {
				if !words[r.Name] {
					words[r.Name], word = true, r.Spec.ClientRandom
				}
			}
			cancel()
			if got := <-done; !errors.Is(got.err, context.Canceled) {
				t.Errorf("want the wait to end with the process, got %v", got.err)
			}
			return word
		}
		first, again, other := ask("first"), ask("first"), ask("second")
		if first == "" || first != again {
			t.Errorf("want the same word after a restart, got %q and %q", first, again)
		}
		if other == "" || other == first {
			t.Errorf("want another word for another token, got %q after %q", other, first)
		}
	})
}

// What goes wrong before a request was made ends the try with an error that says why, and
// nothing is asked for.
func TestAttemptFails(t *testing.T) {
	own := func(resource, name string) kubetest.Match {
		return kubetest.Match{Verb: "get", Resource: resource, Name: name}
	}
	for name, c := range map[string]struct {
		fault func(*kubetest.Server) *kubetest.Fault
		is    func(error) bool
		says  string
	}{
		"Unauthorized":    {func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(1, createRequest) }, kube.IsUnauthorized, "ask https://kubetest to register"},
		"Forbidden":       {func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(1, createRequest) }, kube.IsForbidden, "ask https://kubetest to register"},
		"Denied":          {func(s *kubetest.Server) *kubetest.Fault { return s.Deny(1, createRequest) }, kube.IsDenied, kubetest.DeniedText},
		"Broken":          {func(s *kubetest.Server) *kubetest.Fault { return s.Broken(1, createRequest) }, kube.IsAway, "etcdserver"},
		"WordConflict":    {func(s *kubetest.Server) *kubetest.Fault { return s.Conflict(1, keepWord) }, kube.IsConflict, "keep the word of the request"},
		"WordBroken":      {func(s *kubetest.Server) *kubetest.Fault { return s.Broken(1, keepWord) }, nil, "keep the word of the request"},
		"WordCut":         {func(s *kubetest.Server) *kubetest.Fault { return s.CutAfter(1, keepWord) }, nil, "keep the word of the request"},
		"ConfigForbidden": {func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(1, own("configmaps", fleet.ConfigMapAgent)) }, kube.IsForbidden, fleet.ConfigMapAgent},
		"LabelsForbidden": {func(s *kubetest.Server) *kubetest.Fault {
			return s.Forbid(1, own("configmaps", fleet.ConfigMapAgentLabels))
		}, kube.IsForbidden, fleet.ConfigMapAgentLabels},
		"ClusterForbidden": {func(s *kubetest.Server) *kubetest.Fault {
			return s.Forbid(1, own("namespaces", metav1.NamespaceSystem))
		}, kube.IsForbidden, "identify this cluster"},
		"TokenUnreadable": {func(s *kubetest.Server) *kubetest.Fault {
			return s.Broken(1, own("secrets", fleet.SecretAgentBootstrap))
		}, nil, "read the registration token"},
	} {
		t.Run(name, func(t *testing.T) {
			testApplicant(t, func(t *applicant) {
				c.fault(t.server)
				got := <-t.try(t.Context(), t.attempt("first"))
				if got.err == nil || !strings.Contains(got.err.Error(), c.says) || c.is != nil && !c.is(got.err) {
					t.Errorf("got %v, want it to say %q", got.err, c.says)
				}
				if asked := t.asked(); len(asked) > 0 {
					t.Errorf("want nothing asked for, got %v", asked)
				}
				t.registered("first")
			})
		})
	}
}

// A request whose answer was lost is made again with the same word: both have one answer.
func TestAttemptLosesTheAnswerToItsRequest(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		t.server.CutAfter(1, createRequest)
		if got := <-t.try(t.Context(), t.attempt("first")); !kube.IsAway(got.err) {
			t.Fatalf("want a manager that is away, got %v", got.err)
		}
		t.answer()
		if got := <-t.try(t.Context(), t.attempt("first")); got.err != nil || got.took > time.Second {
			t.Errorf("want the answer at once, got %v after %s", got.err, got.took)
		}
		if asked := t.asked(); len(asked) != 2 || !cmp.Equal(asked[0].Spec, asked[1].Spec) {
			t.Errorf("want the same request twice, got %v", asked)
		}
	})
}

// While the agent waits, only a token that has ended ends the wait: the right to read the
// answer comes with the answer, and a manager that is away comes back.
func TestAttemptWaits(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*kubetest.Server) *kubetest.Fault
		ends  bool
	}{
		"Forbidden":    {fault: func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, readAnswer) }},
		"Broken":       {fault: func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, readAnswer) }},
		"Busy":         {fault: func(s *kubetest.Server) *kubetest.Fault { return s.Busy(kubetest.Always, readAnswer, time.Second) }},
		"Cut":          {fault: func(s *kubetest.Server) *kubetest.Fault { return s.CutAfter(kubetest.Always, readAnswer) }},
		"Unauthorized": {fault: func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(kubetest.Always, readAnswer) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			testApplicant(t, func(t *applicant) {
				fault := c.fault(t.server)
				done := t.try(t.Context(), t.attempt("first"))
				if c.ends {
					if got := <-done; !kube.IsUnauthorized(got.err) || got.took > time.Second {
						t.Errorf("want a try that ends at once, got %v after %s", got.err, got.took)
					}
					return
				}
				t.answer()
				time.Sleep(time.Minute)
				fault.Lift()
				if got := <-done; got.err != nil || got.took > time.Minute+requestLimit+pollInterval {
					t.Errorf("want a grant soon, got %v after %s", got.err, got.took)
				}
			})
		})
	}
}

// An answer without a token is one that the manager is still writing.
func TestAttemptWaitsForWholeAnswer(t *testing.T) {
	for _, key := range []string{keyToken, keyDeploymentNamespace} {
		t.Run(key, func(t *testing.T) {
			testApplicant(t, func(t *applicant) {
				done := t.try(t.Context(), t.attempt("first"))
				whole := answerTo(t.asked()[0])
				part := whole.DeepCopy()
				delete(part.Data, key)
				t.put(part)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				select {
				case got := <-done:
					t.Fatalf("the answer was not waited for: %v", got.err)
				default:
				}
				t.put(whole)
				if got := <-done; got.err != nil {
					t.Error(got.err)
				}
			})
		})
	}
}

// The agent is notified once that the manager takes its time, and gives up after half an
// hour, so that it makes a request again.
func TestAttemptIsUnanswered(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		done := t.try(t.Context(), t.attempt("first"))
		time.Sleep(silence - time.Second)
		if len(t.notices()) > 0 {
			t.Errorf("notified after %s: %v", silence-time.Second, t.notices())
		}
		time.Sleep(time.Minute)
		want := Request{Name: t.asked()[0].Name, Workspace: workspace, URL: "https://kubetest"}
		if !cmp.Equal(t.notices(), []Request{want}) {
			t.Errorf("want one notice of %+v, got %+v", want, t.notices())
		}
		if got := <-done; !errors.Is(got.err, ErrUnanswered) || got.took != giveUp || len(t.notices()) != 1 {
			t.Errorf("after %s: %v; silent: %v", got.took, got.err, t.notices())
		}
		reads := 0
		for _, r := range t.server.Requests() {
			if r.Verb == "get" && r.Namespace == answers {
				reads++
			}
		}
		if most := int(giveUp/pollInterval) + 5; reads > most {
			t.Errorf("the manager was asked %d times, want at most %d", reads, most)
		}
	})
}

// Incomplete values are an error that names what is missing, and the manager is not asked.
func TestAttemptIncomplete(t *testing.T) {
	testApplicant(t, func(t *applicant) {
		b := bootstrap("first")
		b.TokenName = ""
		got := <-t.try(t.Context(), NewAttempt(t.cfg, b, nil))
		if !errors.Is(got.err, ErrIncomplete) || !strings.Contains(got.err.Error(), "tokenName") {
			t.Errorf("got %v", got.err)
		}
	})
}

// A request carries the labels of both ConfigMaps, and a configured identity. Where both
// name a label, the agent's configuration wins.
func TestAttemptAsksForLabels(t *testing.T) {
	for name, c := range map[string]struct {
		config, labels string
		want           map[string]string
		id             string
		fails          string
	}{
		"None":       {},
		"Config":     {config: "labels: {env: prod}", want: map[string]string{"env": "prod"}},
		"Applied":    {labels: "env: dev", want: map[string]string{"env": "dev"}},
		"Both":       {config: "labels: {env: prod}", labels: "{env: dev, team: a}", want: map[string]string{"env": "prod", "team": "a"}},
		"Identity":   {config: "clientID: mine", id: "mine"},
		"BadConfig":  {config: "labels: [", fails: fleet.ConfigMapAgent},
		"BadApplied": {labels: "[", fails: fleet.ConfigMapAgentLabels},
	} {
		t.Run(name, func(t *testing.T) {
			testApplicant(t, func(t *applicant) {
				maps := kube.StoreOf[*corev1.ConfigMap](t.user)
				for at, data := range map[string]map[string]string{
					fleet.ConfigMapAgent: {fleet.KeyConfig: c.config}, fleet.ConfigMapAgentLabels: {fleet.KeyLabels: c.labels},
				} {
					cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: at}, Data: data}
					if _, err := maps.Create(t.Context(), cm); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := t.try(ctx, t.attempt("first"))
				asked := t.asked()
				cancel()
				got := <-done
				if c.fails != "" {
					if got.err == nil || !strings.Contains(got.err.Error(), `"`+c.fails+`"`) || len(asked) > 0 {
						t.Errorf("want an error that names the ConfigMap, got %v", got.err)
					}
					return
				}
				if len(asked) != 1 {
					t.Fatal(got.err)
				}
				if diff := cmp.Diff(c.want, asked[0].Spec.ClusterLabels); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				if c.id != "" && asked[0].Spec.ClientID != c.id {
					t.Errorf("want the configured identity, got %q", asked[0].Spec.ClientID)
				}
			})
		})
	}
}

// A credential that cannot be kept is an error; nothing of it is in use.
func TestGrantIsNotKept(t *testing.T) {
	keep := kubetest.Match{Verb: "patch", Resource: "secrets", Namespace: agentNamespace, Name: fleet.SecretAgent}
	testApplicant(t, func(t *applicant) {
		grant := t.registered("first")
		t.server.Broken(1, keep)
		if err := grant.Keep(t.Context(), t.cfg); err == nil || !strings.Contains(err.Error(), "keep the credential") {
			t.Errorf("got %v", err)
		}
		if _, err := Read(t.Context(), t.cfg); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("got %v", err)
		}
		t.server.CutAfter(1, keep)
		if err := grant.Keep(t.Context(), t.cfg); err == nil {
			t.Error("want an error where it is not known whether the credential is kept")
		}
		if cred, err := Read(t.Context(), t.cfg); err != nil || cred.REST.BearerToken != "agent-token" {
			t.Errorf("got %v", err)
		}
	})
}
