package harness

import (
	"encoding/base64"
	"fmt"
	"net"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Roles that a manager binds its agents to, by their names in production.
const (
	roleDeployments = "fleet-bundle-deployment"
	roleContents    = "fleet-content"
)

// A Hub is an API server on which a test plays the manager by hand: it has Fleet's
// kinds and the roles of agents, and no process of Fleet's. Any number of Sites
// may belong to one Hub.
type Hub struct {
	Cluster ControlPlane
	Admin   *kube.Client         // the test, as the manager
	Client  kubernetes.Interface // the same
}

// TestAgent is the User-Agent of what a test does itself.
const TestAgent = "test/v0"

// NewHub makes an API server a Hub.
func NewHub(t testing.TB, c ControlPlane) *Hub {
	t.Helper()
	h := ConnectHub(t, c)
	InstallCRDs(t, h.Admin)
	rules := map[string][]rbacv1.PolicyRule{
		roleDeployments: {
			{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{fleet.Group}, Resources: []string{"bundledeployments/status"}, Verbs: []string{"update", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get"}},
		},
		roleContents: {{APIGroups: []string{fleet.Group}, Resources: []string{"contents"}, Verbs: []string{"get"}}},
	}
	for name, list := range rules {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: list}
		if _, err := kube.StoreOf[*rbacv1.ClusterRole](h.Admin).Create(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// ConnectHub connects to an API server that is a Hub already.
func ConnectHub(t testing.TB, c ControlPlane) *Hub {
	t.Helper()
	config := c.REST()
	config.UserAgent = TestAgent
	admin, err := kube.Connect(kube.Config{REST: config, UserAgent: TestAgent, FieldManager: "fleet-controller"})
	if err != nil {
		t.Fatal(err)
	}
	return &Hub{Cluster: c, Admin: admin, Client: kubernetes.NewForConfigOrDie(config)}
}

// Namespace makes a namespace, if there is none of this name.
func (h *Hub) Namespace(t testing.TB, name string) {
	t.Helper()
	_, err := kube.StoreOf[*corev1.Namespace](h.Admin).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !kube.IsExists(err) {
		t.Fatal(err)
	}
}

// Kubeconfig is that of a bearer token.
func (h *Hub) Kubeconfig(token string) []byte {
	return Kubeconfig(h.Cluster.URL(), h.Cluster.CA(), token)
}

// Kubeconfig is that of a bearer token at a URL with a certificate authority.
func Kubeconfig(url string, ca []byte, token string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"m",
"clusters":[{"name":"m","cluster":{"server":%q,"certificate-authority-data":%q}}],
"users":[{"name":"m","user":{"token":%q}}],"contexts":[{"name":"m","context":{"cluster":"m","user":"m"}}]}`,
		url, base64.StdEncoding.EncodeToString(ca), token)
}

// FreeAddress is an address on this machine at which no process listens, for this
// test alone.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(port.Loopback, strconv.Itoa(FreePorts(t, 1)))
}

// FreePorts is the first of n ports of loopback in a row, at most 50, on which no
// process listens, for this test alone.
func FreePorts(t testing.TB, n int) int {
	t.Helper()
	first, release, err := port.Block(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return first
}
