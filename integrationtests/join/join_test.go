package join

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clone := harness.ConnectHub(t, harness.Memory(t, "clone"))
	t.Run("Parallel", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *world){
			"LostAgentComesBackToItsCluster": lostAgent,
			"LabelsOnlyAtCreation":           labels,
			"SameTokenIsNotUsed":             sameToken,
			"NewTokenIsUsed":                 newToken,
			"TokenAndIdentityTogether":       newIdentity,
			"AnotherWorkspace":               anotherWorkspace,
			"AnotherAddress":                 anotherAddress,
			"DeadTokenChangesNothing":        deadToken,
			"RevokedCredentialJoinsAgain":    revoked,
			"OldCredentialUntilNewWorks":     newDoesNotWork,
			"WrongTokensSaySo":               wrongTokens,
			"StartedAgainWhileItAsks":        startedAgain,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
		t.Run("ClonedWithCredential", func(t *testing.T) {
			t.Parallel()
			clonedCredential(t, w, clone)
		})
	})
	t.Run("ClonedBeforeJoining", func(t *testing.T) { clonedImage(t, w, clone) })
	t.Run("Approve", func(t *testing.T) {
		w.again(func(g *harness.ManagerProcess) { g.Settings.Reclaim = registration.ReclaimApprove })
		approve(t, w)
	})
	t.Run("Ends", func(t *testing.T) { ends(t, w) })
	t.Run("WrongAuthorityAtTheManager", func(t *testing.T) { wrongAuthority(t, w) })
}

// A Cluster that was made beforehand, with the cluster's own identity, gets its
// agent; when the agent has lost everything a new one gets the same Cluster,
// whatever that is called, and the first credential ends.
func lostAgent(t *testing.T, w *world) {
	w = w.in(t)
	ns, ok := get[*corev1.Namespace](w, "", metav1.NamespaceSystem)
	if !ok {
		t.Fatal("no kube-system")
	}
	create(w, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "whatever", Labels: map[string]string{"env": "prod"}},
		Spec:       fleet.ClusterSpec{ClientID: string(ns.UID)},
	})
	n := w.newcomer(t, w.hub, "lost", "", map[string]string{"env": "dev"})
	n.Start()
	if text := n.says("NotRegistered"); !strings.Contains(text, "no registration token") {
		t.Errorf("want what is missing, got %q", text)
	}
	n.Give(w.token(n.Workspace, "lost-1", time.Hour))
	c := n.in(nil)
	if c.Name != "whatever" || c.Labels["env"] != "prod" {
		t.Errorf("want the Cluster that waits for this client, as it was made, got %s %v", c.Name, c.Labels)
	}
	n.works("app", "one")
	first, uid := n.alone(), n.uid("app")

	n.Stop()
	old := n.credential()
	n.Must(kube.StoreOf[*corev1.Secret](n.Down.Admin).Delete(t.Context(), kube.KeyOf(old), kube.Precondition{}))
	n.Give(w.token(n.Workspace, "lost-2", time.Hour))
	n.Start()
	if c := n.in(old); c.Name != "whatever" {
		t.Errorf("want the same Cluster, got %s", c.Name)
	}
	n.works("app", "two")
	if n.uid("app") != uid {
		t.Error("a workload was created again")
	}
	if text := w.reported(n.Workspace, "whatever", "RegisteredAgain"); !strings.Contains(text, "lost-2") {
		t.Errorf("want the token that was used, got %q", text)
	}
	if second := n.alone(); second.Name == first.Name {
		t.Error("the first credential is the one that is left")
	}
	lost := kube.StoreOf[*fleet.BundleDeployment](n.with(old))
	w.until("the lost credential ends", func() bool { // an API server remembers for seconds whose a token was
		_, err := lost.List(t.Context(), n.Deployments, "")
		return kube.IsUnauthorized(err) || kube.IsForbidden(err)
	})
}

// with is a client with a credential that an agent had.
func (n *newcomer) with(secret *corev1.Secret) *kube.Client {
	n.Helper()
	cfg, err := kube.ParseKubeconfig(secret.Data["kubeconfig"])
	n.Must(err)
	c, err := kube.Connect(kube.Config{REST: cfg, UserAgent: harness.TestAgent, FieldManager: "test"})
	n.Must(err)
	return c
}

// An agent sets labels once, when it registers, without the reserved ones.
func labels(t *testing.T, w *world) {
	w = w.in(t)
	n := w.newcomer(t, w.hub, "labels", "labels", map[string]string{
		"env": "prod", "fleet.cattle.io/cluster": "other", "management.cattle.io/cluster-display-name": "other",
		"objectset.rio.cattle.io/hash": "abc",
	})
	n.Give(w.token(n.Workspace, "labels-1", time.Hour))
	n.Start()
	c := n.in(nil)
	if c.Labels["env"] != "prod" || c.Labels[fleet.LabelDisplayName] != "" || c.Labels[fleet.LabelCluster] != c.Name || c.Labels["objectset.rio.cattle.io/hash"] != "" {
		t.Errorf("got %v", c.Labels)
	}
	if text := w.reported(n.Workspace, "request-", "LabelsDropped"); !strings.Contains(text, "reserved") {
		t.Errorf("want why, got %q", text)
	}
	change(w, c, func(c *fleet.Cluster) { c.Labels["env"] = "moved" })
	before := n.credential()
	n.Give(w.token(n.Workspace, "labels-2", time.Hour))
	if c := n.in(before); c.Labels["env"] != "moved" {
		t.Errorf("registering again changed labels: %v", c.Labels)
	}
}

// settled is a newcomer that is in and has deployed something.
func settled(t *testing.T, w *world, name string) (*newcomer, registration.Bootstrapping) {
	t.Helper()
	n := w.newcomer(t, w.hub, name, name, nil)
	b := w.token(n.Workspace, name+"-1", time.Hour)
	n.Give(b)
	n.Start()
	n.in(nil)
	n.works("app", "one")
	return n, b
}

// The values that an agent has registered with come again with each helm upgrade.
func sameToken(t *testing.T, w *world) {
	w = w.in(t)
	n, b := settled(t, w, "same")
	before, request := n.credential(), n.alone()
	n.Give(b)
	w.until("the token is forgotten", n.forgotten)
	if text := n.says("TokenNotNeeded"); !strings.Contains(text, "that works") {
		t.Errorf("want why, got %q", text)
	}
	if n.credential().ResourceVersion != before.ResourceVersion || n.alone().Name != request.Name {
		t.Error("the agent has registered again for nothing")
	}
}

// A running agent registers again with another token, without a restart.
func newToken(t *testing.T, w *world) {
	w = w.in(t)
	n, _ := settled(t, w, "again")
	before, request, instance, uid := n.credential(), n.alone(), n.cluster().Status.Agent.Instance, n.uid("app")
	token := w.token(n.Workspace, "again-2", time.Hour)
	given := time.Now()
	n.Give(token)
	w.until("the agent asks", func() bool {
		return slices.ContainsFunc(w.requests(n.Workspace), func(r *fleet.ClusterRegistration) bool {
			return r.Labels[fleet.LabelRegistrationToken] == "again-2"
		})
	})
	t.Logf("a running agent asks %s after it was given another token", time.Since(given).Round(time.Millisecond)) // 5 s are wanted
	n.in(before)
	if text := n.says("RegisteredAgain"); !strings.Contains(text, ": token)") || !strings.Contains(text, "given up after the new one had worked") {
		t.Errorf("want what was done and why, got %q", text)
	}
	n.works("app", "two")
	if n.alone().Name == request.Name || n.cluster().Status.Agent.Instance != instance || n.uid("app") != uid {
		t.Error("want another credential of the same agent, and the same workload")
	}
}

// upgradeTime is how much later than a Secret Helm may write a ConfigMap here: a
// little less than agents wait for it.
const upgradeTime = 1500 * time.Millisecond

// A hearer waits for a word in a log.
type hearer struct {
	word  string
	heard chan struct{}
	once  sync.Once
}

func (h *hearer) Write(p []byte) (int, error) {
	if strings.Contains(string(p), h.word) {
		h.once.Do(func() { close(h.heard) })
	}
	return len(p), nil
}

// One upgrade of the chart brings another token and another identity: Helm writes
// the Secret before the ConfigMap, and the agent, which runs, registers with both.
func newIdentity(t *testing.T, w *world) {
	w = w.in(t)
	for i := 1; !upgraded(t, w, fmt.Sprintf("till%d", i)); i++ {
		t.Log("the ConfigMap came too late after the Secret for one upgrade: once more")
	}
}

// upgraded is one such upgrade. It is false if so much time went by between the two
// writes, because this machine did something else, that they were not one upgrade for
// the agent.
func upgraded(t *testing.T, w *world, name string) bool {
	t.Helper()
	heard := hearer{word: "registers again", heard: make(chan struct{})}
	n := w.newcomer(t, w.hub, name, name, nil)
	n.Output = &heard
	n.Give(w.token(n.Workspace, name+"-1", time.Hour))
	n.Start()
	n.in(nil)
	before, first := n.credential(), n.cluster()
	identity, token := name+"-identity-99", name+"-2"
	made := create(w, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Workspace, Name: name + "-99"}, Spec: fleet.ClusterSpec{ClientID: identity},
	})
	values := w.token(n.Workspace, token, time.Hour)
	began := time.Now()
	n.Give(values)
	select {
	case <-heard.heard:
	case <-time.After(harness.Timeout):
		t.Fatal("the agent does not say that it registers again")
	}
	n.Reconfigure(registration.AgentConfig{TLSMode: registration.TLSStrict, ClientID: identity})
	if time.Since(began) > upgradeTime {
		n.Stop()
		return false
	}
	if c := n.in(before); c.Name != made.Name {
		t.Errorf("want the Cluster that was made for the new identity, got %s", c.Name)
	}
	for _, r := range w.requests(n.Workspace) {
		if r.Labels[fleet.LabelRegistrationToken] == token && r.Spec.ClientID != identity {
			t.Errorf("the agent has asked as %q, which it is no more", r.Spec.ClientID)
		}
	}
	if c, ok := get[*fleet.Cluster](w, first.Namespace, first.Name); !ok || c.UID != first.UID {
		t.Error("the Cluster of the former identity was touched")
	}
	return true
}

// A token of another workspace moves the agent there; what runs stays.
func anotherWorkspace(t *testing.T, w *world) {
	w = w.in(t)
	n, _ := settled(t, w, "moves")
	before, uid, since := n.credential(), n.uid("app"), n.Moment()
	w.hub.Namespace(t, "team-a")
	n.Give(w.token("team-a", "moves-2", time.Hour))
	c := n.in(before)
	if c.Namespace != "team-a" {
		t.Errorf("want a Cluster in the other workspace, got %s", kube.KeyOf(c))
	}
	if text := n.says("RegisteredAgain"); !strings.Contains(text, "namespace, token") {
		t.Errorf("want why, got %q", text)
	}
	n.works("app", "two") // of the same bundle: adopted
	if n.uid("app") != uid || len(n.Removed(since)) > 0 {
		t.Errorf("what ran was touched: %s", harness.Lines(n.Removed(since)))
	}
}

// The manager is reached at another address now, with another authority.
func anotherAddress(t *testing.T, w *world) {
	w = w.in(t)
	n, b := settled(t, w, "address")
	front, err := wire.NewFront(w.hub.Cluster.REST())
	n.Must(err)
	t.Cleanup(front.Close)
	before := n.credential()
	wrong := b
	wrong.APIServerURL, wrong.APIServerCA = front.URL(), w.hub.Cluster.CA()
	n.Give(wrong)
	if text := n.says("CertificateRefused"); !strings.Contains(text, "apiServerCA") || !strings.Contains(text, "The present credential is kept") {
		t.Errorf("want what is wrong, got %q", text)
	}
	right := wrong
	right.APIServerCA = front.CA()
	n.Give(right) // while it tries the wrong one
	n.in(before)
	if text := n.says("RegisteredAgain"); !strings.Contains(text, "URL, certificate authority") {
		t.Errorf("want why, got %q", text)
	}
	n.Until("the agent is there", func() bool { return n.Contact()["url"] == front.URL() })
	n.works("app", "two")
}

// A token that is dead does not end a connection that works.
func deadToken(t *testing.T, w *world) {
	w = w.in(t)
	n, _ := settled(t, w, "dead")
	before, request := n.credential(), n.alone()
	b := w.token(n.Workspace, "dead-2", time.Hour)
	w.bury("dead-2", b)
	n.Give(b)
	if text := n.says("TokenRefused"); !strings.Contains(text, `"dead-2": it has expired or was removed`) || !strings.Contains(text, "The present credential is kept") {
		t.Errorf("want what is wrong, got %q", text)
	}
	n.works("app", "two")
	if n.credential().ResourceVersion != before.ResourceVersion || n.alone().Name != request.Name || n.Contact()["reached"] != "true" {
		t.Error("the agent has lost its connection")
	}
}

// bury deletes a token, and waits until no client can use it.
func (w *world) bury(name string, b registration.Bootstrapping) {
	w.Helper()
	remove(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: b.ClusterNamespace, Name: name}})
	w.until("the account of token "+name+" is gone", func() bool {
		return !slices.ContainsFunc(list[*corev1.ServiceAccount](w, b.ClusterNamespace, ""), func(a *corev1.ServiceAccount) bool {
			return strings.HasPrefix(a.Name, name+"-")
		})
	})
}

// An agent whose credential was revoked says so, goes on with what it has, and
// registers again with the token that it is given, were it the same.
func revoked(t *testing.T, w *world) {
	w = w.in(t)
	n, b := settled(t, w, "revoked")
	before, since := n.credential(), n.Moment()
	remove(w, n.alone())
	n.Until("the agent notices", func() bool { return n.Contact()["reason"] == "CredentialRefused" })
	if text := n.says("CredentialRefused"); !strings.Contains(text, "revoked") || !strings.Contains(text, "registration token") {
		t.Errorf("want what is wrong and what helps, got %q", text)
	}
	n.Give(b)
	n.in(before)
	n.works("app", "two")
	if removed := n.Removed(since); len(removed) > 0 {
		t.Errorf("workloads were removed: %s", harness.Lines(removed))
	}
	if text := n.says("RegisteredAgain"); !strings.Contains(text, "does not reach") {
		t.Errorf("want why, got %q", text)
	}
}

// A credential is given up only when the one after it has worked: here the new
// address lets the agent register, and nothing else.
func newDoesNotWork(t *testing.T, w *world) {
	w = w.in(t)
	n, b := settled(t, w, "halfway")
	before, request := n.credential(), n.alone()
	front, err := wire.NewFront(w.hub.Cluster.REST())
	n.Must(err)
	t.Cleanup(front.Close)
	to, err := url.Parse(front.URL())
	n.Must(err)
	trust, err := rest.TransportFor(&rest.Config{Host: front.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: front.CA()}})
	n.Must(err)
	var open atomic.Bool
	proxy := &httputil.ReverseProxy{Transport: trust, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	managerProcess := newManagerProcess(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !open.Load() && strings.HasSuffix(r.URL.Path, "/status") {
			http.Error(rw, "not yet", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(rw, r)
	}))
	b.APIServerURL, b.APIServerCA = managerProcess.URL, managerProcess.CA
	n.Give(b)
	if text := n.says("ManagerFailing"); !strings.Contains(text, "try the new credential") || !strings.Contains(text, "is kept") {
		t.Errorf("want what is wrong, got %q", text)
	}
	n.works("app", "two")
	if n.credential().ResourceVersion != before.ResourceVersion || n.Contact()["reached"] != "true" {
		t.Error("the old credential was given up")
	}
	if !slices.ContainsFunc(n.granted(), func(r *fleet.ClusterRegistration) bool { return r.Name == request.Name }) {
		t.Error("the manager has taken the old credential back although the new one is not used")
	}
	open.Store(true)
	n.in(before)
	n.works("app", "three")
	if n.alone().Name == request.Name {
		t.Error("the old credential is the one that is left")
	}
}
