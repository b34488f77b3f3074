package register

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Where things are: the server is the manager and the agent's own cluster in one.
const (
	agentNamespace = "agent"
	workspace      = "workspace"
	answers        = "answers" // namespace of the Secrets that answer requests
)

var (
	createRequest = kubetest.Match{Verb: "create", Resource: "clusterregistrations"}
	readAnswer    = kubetest.Match{Verb: "get", Resource: "secrets", Namespace: answers}
	keepWord      = kubetest.Match{Verb: "patch", Resource: "secrets", Namespace: agentNamespace, Name: fleet.SecretAgentBootstrap}
)

func makeNamespaces(s *kubetest.Server) {
	for _, name := range []string{agentNamespace, workspace, answers} {
		s.MakeNamespace(name)
	}
}

// bootstrap returns registration data with a token.
func bootstrap(token string) Bootstrap {
	return Bootstrap{registration.Bootstrapping{
		// client-go reads a token of a kubeconfig for https only.
		APIServerURL: "https://kubetest", Token: token, TokenName: "token", ClusterNamespace: workspace, RegistrationNamespace: answers,
	}}
}

func bootstrapSecret(b Bootstrap) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: fleet.SecretAgentBootstrap}, Data: b.Data()}
}

// answerTo returns what a manager answers to a request.
func answerTo(r *fleet.ClusterRegistration) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: answers, Name: naming.RegistrationSecret(r.Spec.ClientID, r.Spec.ClientRandom)},
		Data: map[string][]byte{
			keyToken: []byte("agent-token"), keyDeploymentNamespace: []byte("deployments"),
			keyClusterNamespace: []byte(r.Namespace), keyClusterName: []byte("c"),
		},
	}
}

// configFor returns the configuration of an agent whose own cluster down leads to.
func configFor(down *kube.Client, userAgent string) Config {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return Config{Down: down, Namespace: agentNamespace, UserAgent: userAgent, Log: logrus.NewEntry(log), Wrap: down.REST().WrapTransport}
}

// applicant is an agent with a registration token, in a bubble of fake time.
type applicant struct {
	*testing.T
	server   *kubetest.Server
	cfg      Config
	user     *kube.Client
	secrets  *kube.Store[*corev1.Secret]
	requests *kube.Store[*fleet.ClusterRegistration]
	silent   []Request  // that the agent was notified of
	noted    sync.Mutex // orders silent and what a test reads of it
}

// testApplicant runs f for an agent whose bootstrap Secret holds a token.
func testApplicant(t *testing.T, f func(a *applicant)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		s := kubetest.New(t)
		makeNamespaces(s)
		a := &applicant{T: t, server: s, cfg: configFor(s.Connect("agent"), "agent/v0"), user: s.Connect("user")}
		a.secrets, a.requests = kube.StoreOf[*corev1.Secret](a.user), kube.StoreOf[*fleet.ClusterRegistration](a.user)
		a.put(bootstrapSecret(bootstrap("first")))
		f(a)
	})
}

func (a *applicant) put(s *corev1.Secret) {
	a.Helper()
	if _, err := a.secrets.Apply(a.Context(), s); err != nil {
		a.Fatal(err)
	}
}

// notices are the requests that the agent was notified of so far.
func (a *applicant) notices() []Request {
	a.noted.Lock()
	defer a.noted.Unlock()
	return slices.Clone(a.silent)
}

// attempt begins a series of tries, as an agent does that was just started.
func (a *applicant) attempt(token string) *Attempt {
	return NewAttempt(a.cfg, bootstrap(token), func(r Request) {
		a.noted.Lock()
		defer a.noted.Unlock()
		a.silent = append(a.silent, r)
	})
}

// outcome is the end of a try.
type outcome struct {
	grant Grant
	err   error
	took  time.Duration
}

// try tries in the background.
func (a *applicant) try(ctx context.Context, attempt *Attempt) <-chan outcome {
	out, began := make(chan outcome, 1), time.Now()
	go func() {
		g, err := attempt.Try(ctx)
		out <- outcome{g, err, time.Since(began)}
	}()
	synctest.Wait()
	return out
}

// asked returns what the manager was asked for.
func (a *applicant) asked() []*fleet.ClusterRegistration {
	a.Helper()
	list, err := a.requests.List(a.Context(), workspace, "")
	if err != nil {
		a.Fatal(err)
	}
	return list
}

// answer answers the only request.
func (a *applicant) answer() {
	a.Helper()
	asked := a.asked()
	if len(asked) != 1 {
		a.Fatalf("want one request, got %d", len(asked))
	}
	a.put(answerTo(asked[0]))
}

// registered tries, and answers.
func (a *applicant) registered(token string) Grant {
	a.Helper()
	done := a.try(a.Context(), a.attempt(token))
	a.answer()
	got := <-done
	if got.err != nil {
		a.Fatal(got.err)
	}
	return got.grant
}
