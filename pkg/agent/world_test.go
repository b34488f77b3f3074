package agent

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Where things are: the server is the manager and the agent's own cluster in one.
const (
	home          = "agent"
	workspace     = "workspace"
	answersAt     = "answers" // namespace of the Secrets that answer requests
	deploymentsAt = "deployments"
	managerURL    = "https://kubetest"
)

var (
	clusterKey = kube.Key{Namespace: workspace, Name: "c"}
	mark       = registration.Mark{ID: "manager", Epoch: 1, Protocol: 1}
	checksIn   = kubetest.Match{Verb: "patch", Resource: "clusters", Subresource: "status"}
)

func isCheckIn(r kubetest.Request) bool { return r.Resource == "clusters" && r.Subresource == "status" }

func quiet() *logrus.Entry {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return logrus.NewEntry(log)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// start returns a function that makes the process of an agent. Its requests to the manager
// are those of the process too.
func start(change func(*Config)) func(c *kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		cfg := Default()
		cfg.Namespace, cfg.Version, cfg.Workers = home, "v0", 1
		own := c.REST().WrapTransport
		cfg.wrapManager = func(next http.RoundTripper) http.RoundTripper {
			next = own(next)
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				req.Header.Set("User-Agent", strings.Replace(req.UserAgent(), "fleet-agent/", "process/", 1))
				return next.RoundTrip(req)
			})
		}
		if change != nil {
			change(&cfg)
		}
		return []kube.Runner{kube.RunnerFunc(func(ctx context.Context) error {
			return run(ctx, cfg, &ownCluster{namespace: home}, c, quiet())
		})}
	}
}

// givenManager makes a manager that has the Cluster.
func givenManager(w *looptest.World) {
	for _, name := range []string{home, workspace, answersAt, deploymentsAt} {
		w.Server.MakeNamespace(name)
	}
	looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: clusterKey.Name, Annotations: map[string]string{fleet.AnnotationManager: mark.String()},
	}})
}

// givenAgent makes a manager, and the credential of a registered agent.
func givenAgent(w *looptest.World) {
	givenManager(w)
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: managerURL}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "agent-token"}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	kubeconfig, err := clientcmd.Write(*file)
	w.Must(err)
	looptest.Make(w, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: fleet.SecretAgent},
		Data: map[string][]byte{
			registration.KeyKubeconfig: kubeconfig, "deploymentNamespace": []byte(deploymentsAt),
			"clusterNamespace": []byte(workspace), "clusterName": []byte(clusterKey.Name),
		},
	})
}

// answersAll answers every request to register, as a manager does.
func answersAll(w *looptest.World) {
	requests := kube.NewCache[*fleet.ClusterRegistration](w.User, kube.Watch{Namespace: workspace}, nil)
	requests.OnChange(func(old, made *fleet.ClusterRegistration) {
		if old != nil {
			return
		}
		_, err := kube.StoreOf[*corev1.Secret](w.User).Apply(w.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: answersAt, Name: naming.RegistrationSecret(made.Spec.ClientID, made.Spec.ClientRandom)},
			Data: map[string][]byte{
				"token": []byte("agent-token"), "deploymentNamespace": []byte(deploymentsAt),
				"clusterNamespace": []byte(workspace), "clusterName": []byte(clusterKey.Name),
			},
		})
		w.Must(err)
	})
	go func() { _ = requests.Run(w.Context()) }()
}

func bootstrapSecret() *corev1.Secret {
	b := registration.Bootstrapping{APIServerURL: managerURL, Token: "token", TokenName: "token", ClusterNamespace: workspace, RegistrationNamespace: answersAt}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: fleet.SecretAgentBootstrap}, Data: b.Data()}
}

// contactOf is what the agent notes about its manager.
func contactOf(w *looptest.World) map[string]string {
	if cm := looptest.Read[*corev1.ConfigMap](w, home, contactName); cm != nil {
		return cm.Data
	}
	return nil
}

// wantsReached checks that the agent works with its manager, and that both know that.
func wantsReached(w *looptest.World) {
	w.Helper()
	if got := contactOf(w); got[keyReached] != "true" || got[keyManager] != mark.String() || got[keyURL] != managerURL || got[keyReason] != "" {
		w.Errorf("the agent notes %v", got)
	}
	if seen := looptest.Read[*fleet.Cluster](w, workspace, clusterKey.Name).Status.Agent; time.Since(seen.LastSeen.Time) > 2*time.Minute || seen.Namespace != home {
		w.Errorf("the manager has %+v", seen)
	}
}

// count returns how many requests the process has sent that match.
func count(w *looptest.World, verb, resource string) int {
	n := 0
	for _, r := range w.Server.Requests() {
		if strings.HasPrefix(r.UserAgent, "process") && r.Verb == verb && r.Resource == resource {
			n++
		}
	}
	return n
}
