package credential

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Where things are: the server is the manager and the agent's own cluster in one.
const (
	oldToken  = "old"
	lastToken = "lasting"
	often     = time.Minute // between two check-ins
)

var (
	clusterKey = kube.Key{Namespace: "default", Name: "c"}
	secretKey  = kube.Key{Namespace: "default", Name: fleet.SecretAgent}
	keepSecret = kubetest.Match{Verb: "patch", Resource: "secrets", Name: fleet.SecretAgent}
	tryStatus  = kubetest.Match{Verb: "patch", Resource: "clusters", Subresource: "status"}
)

// offerLasting is the offer of a token that lasts, offerHour that of tokens that last an
// hour.
func offerLasting() string {
	return plan.Offer{Namespace: "default", Account: "agent", Token: "agent-token"}.String()
}

func offerHour() string {
	return plan.Offer{
		Namespace: "default", Account: "agent", Renewal: plan.RenewalAccount("agent"),
		Life: plan.Lifetimes{TTL: time.Hour, Grace: plan.DefaultGrace},
	}.String()
}

// given makes what a manager grants, and the credential of an agent with a token.
func given(t *testing.T, c *kube.Client, token string, kept []byte) {
	t.Helper()
	create(t, c, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: clusterKey.Namespace, Name: clusterKey.Name}})
	for _, name := range []string{"agent", plan.RenewalAccount("agent")} {
		create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	create(t, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent-token"},
		Data:       map[string][]byte{corev1.ServiceAccountTokenKey: []byte(lastToken)},
	})
	file := clientcmdapi.NewConfig()
	// client-go reads a token of a kubeconfig for https only.
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://kubetest"}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	kubeconfig, err := clientcmd.Write(*file)
	if err != nil {
		t.Fatal(err)
	}
	create(t, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name},
		Data:       map[string][]byte{registration.KeyKubeconfig: kubeconfig, KeyRecord: kept, "other": []byte("key")},
	})
}

func create[P kube.Object](t *testing.T, c *kube.Client, o P) {
	t.Helper()
	if _, err := kube.StoreOf[P](c).Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// kept reads the credential that an agent would begin with.
func kept(ctx context.Context, c *kube.Client) (*rest.Config, *corev1.Secret, error) {
	s, err := kube.StoreOf[*corev1.Secret](c).Get(ctx, secretKey)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data[registration.KeyKubeconfig])
	if err != nil {
		return nil, nil, err
	}
	cfg.WrapTransport = c.REST().WrapTransport
	return cfg, s, nil
}

// rotatorFor returns the rotator of an agent that is started.
func rotatorFor(ctx context.Context, c *kube.Client, userAgent string, report func(kind, reason, text string)) (*Rotator, error) {
	cfg, s, err := kept(ctx, c)
	if err != nil {
		return nil, err
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{
		Down: c, Namespace: secretKey.Namespace, REST: cfg, Record: s.Data[KeyRecord], Cluster: clusterKey,
		UserAgent: userAgent, Log: logrus.NewEntry(log), Report: report,
	}), nil
}

// rotatorTest is an agent with a credential, in a bubble of fake time.
type rotatorTest struct {
	*testing.T
	*Rotator
	server *kubetest.Server
	user   *kube.Client
	events []string // their reasons
}

// testRotator runs f for an agent with the token that it got when it registered.
func testRotator(t *testing.T, f func(t *rotatorTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		k := &rotatorTest{T: t, server: s, user: s.Connect("user")}
		given(t, k.user, oldToken, nil)
		k.start()
		f(k)
	})
}

// start begins as a process does that knows nothing.
func (t *rotatorTest) start() {
	t.Helper()
	r, err := rotatorFor(t.Context(), t.server.Connect("agent"), "agent/v0", func(_, reason, _ string) { t.events = append(t.events, reason) })
	if err != nil {
		t.Fatal(err)
	}
	t.Rotator = r
}

// observe handles an answer of the manager with an offer.
func (t *rotatorTest) observe(offer string) bool {
	return t.Observe(t.Context(), offer, time.Now().Add(often))
}

// shows is the token that the agent shows, and that it would begin with: both have to be
// the same.
func (t *rotatorTest) shows() string {
	t.Helper()
	cfg, s, err := kept(t.Context(), t.user)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.BearerToken != t.bearer.get() || string(s.Data["other"]) != "key" {
		t.Errorf("shows %q, and the Secret holds %q, %q", t.bearer.get(), cfg.BearerToken, s.Data["other"])
	}
	return cfg.BearerToken
}

func isOf(account, token string) bool {
	return plan.SubjectOf(token) == "system:serviceaccount:default:"+account
}
