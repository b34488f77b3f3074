package join

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A managerProcess is a server with TLS before a handler.
type managerProcess struct {
	URL string
	CA  []byte
}

func newManagerProcess(t testing.TB, h http.Handler) managerProcess {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return managerProcess{URL: s.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
}

// A machine that was cloned together with its credential: both agents report it,
// the Cluster shows it, the younger one deploys nothing, and neither removes
// anything.
func clonedCredential(t *testing.T, w *world, elsewhere *harness.Hub) {
	w = w.in(t)
	n, _ := settled(t, w, "original")
	since := n.Moment()
	twin := w.newcomer(t, elsewhere, "original", "original", nil)
	secret := n.credential()
	_, err := kube.StoreOf[*corev1.Secret](elsewhere.Admin).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: twin.Namespace, Name: fleet.SecretAgent}, Data: secret.Data,
	})
	n.Must(err)
	twin.Start()
	twin.Workspace, twin.Name, twin.Deployments = n.Workspace, n.Name, n.Deployments
	if text := n.condition(fleet.ConditionDuplicateIdentity); !strings.Contains(text, "two agents") || !strings.Contains(text, "clientID") {
		t.Errorf("want what is wrong and what helps, got %q", text)
	}
	w.reported(n.Workspace, n.Name, "DuplicateIdentity")
	n.says("DuplicateIdentity")
	if text := twin.says("DuplicateIdentity"); !strings.Contains(text, "this one is younger and deploys nothing") {
		t.Errorf("the younger one has to say so, got %q", text)
	}
	n.works("app", "two")
	n.works("more", "one")
	for _, name := range []string{"app", "more"} { // not even before it knows of the other one
		if got := twin.Data(twin.Home(name), "a"); got != "" {
			t.Errorf("the younger one deploys %s: %q", name, got)
		}
	}
	if text := twin.says("OtherCluster"); !strings.Contains(text, n.Workspace+"/"+n.Name) {
		t.Errorf("want whose credential it is, got %q", text)
	}
	if removed := append(n.Removed(since), twin.Removed(since)...); len(removed) > 0 {
		t.Errorf("workloads were removed: %s", harness.Lines(removed))
	}
}

// A machine that was cloned before it joined: each agent registers, with one
// identity. The manager sees both at work, says so, and leaves the credential to
// the one that came last; the other one keeps its workloads and says what became
// of it.
//
// The first credential is good for as long as agents may be late; then that time is
// made short.
func clonedImage(t *testing.T, w *world, elsewhere *harness.Hub) {
	w = w.in(t)
	w.again(func(g *harness.ManagerProcess) { g.Settings.AgentCheckinInterval = time.Minute })
	n, b := settled(t, w, "image")
	since := n.Moment()
	w.nextSecond(n.alone())
	twin := w.newcomer(t, elsewhere, "image", "image", nil)
	twin.Give(b)
	twin.Start()
	n.condition(fleet.ConditionDuplicateIdentity)
	w.reported(n.Workspace, n.Name, "DuplicateIdentity")
	w.again(func(g *harness.ManagerProcess) { g.Settings.AgentCheckinInterval = checkIn })
	n.Until("one of two keeps the Cluster", func() bool { return n.Contact()["reason"] == "CredentialRefused" })
	if text := n.says("CredentialRefused"); !strings.Contains(text, "another agent has registered with the identity of this cluster") {
		t.Errorf("want what may have happened, got %q", text)
	}
	n.alone()
	if got := n.Data(n.Home("app"), "a"); got != "one" {
		t.Errorf("the workload of the first is %q", got)
	}
	if removed := append(n.Removed(since), twin.Removed(since)...); len(removed) > 0 {
		t.Errorf("workloads were removed: %s", harness.Lines(removed))
	}
	// It gets an identity of its own, and another Cluster.
	_, err := kube.StoreOf[*corev1.ConfigMap](n.Down.Admin).Apply(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: fleet.ConfigMapAgent},
		Data:       map[string]string{fleet.KeyConfig: "agentTLSMode: strict\nclientID: image-2\n"},
	})
	n.Must(err)
	before, name := n.credential(), n.Name
	n.Give(b)
	if c := n.in(before); c.Name == name {
		t.Error("want a Cluster of its own")
	}
}

// nextSecond waits until an object that is made now is newer than one before: requests made
// in the same second are equally new.
func (w *world) nextSecond(before kube.Object) {
	w.Helper()
	created := before.GetCreationTimestamp()
	w.until("the second is over", func() bool { return time.Now().Unix() > created.Unix() })
}

// Where a person has to agree, another agent for a Cluster waits for that.
func approve(t *testing.T, w *world) {
	w = w.in(t)
	n := w.newcomer(t, w.hub, "asked", "asked", nil)
	n.Give(w.token(n.Workspace, "asked-1", time.Hour))
	n.Start()
	n.in(nil) // a new Cluster needs no approval
	n.works("app", "one")
	first, before := n.alone(), n.credential()

	n.Give(w.token(n.Workspace, "asked-2", time.Hour))
	waiting := func() *fleet.ClusterRegistration {
		for _, r := range w.requests(n.Workspace) {
			if r.Status.ClusterName == n.Name && !r.Status.Granted {
				return r
			}
		}
		return nil
	}
	n.Until("the request waits", func() bool { return waiting() != nil })
	if text := n.condition(fleet.ConditionRegistrationWaiting); !strings.Contains(text, waiting().Name) || !strings.Contains(text, "fleet cluster accept -n "+n.Workspace+" "+n.Name) {
		t.Errorf("want who waits and what helps, got %q", text)
	}
	w.reported(n.Workspace, n.Name, "RegistrationWaiting")
	w.reported(n.Workspace, waiting().Name, "RegistrationWaiting")
	n.works("app", "two") // with the credential that it has

	// Another agent asks too; the word is about the first, and accepts only that
	// one.
	foreign := w.ask(w.values(n.Workspace, "asked-1"), "asked", "a stranger's word")
	n.Until("the stranger waits too", func() bool {
		r, ok := get[*fleet.ClusterRegistration](w, n.Workspace, foreign.Name)
		return ok && r.Status.ClusterName == n.Name
	})
	accepted := waiting()
	if accepted.Name == foreign.Name {
		accepted = w.requests(n.Workspace)[slices.IndexFunc(w.requests(n.Workspace), func(r *fleet.ClusterRegistration) bool {
			return !r.Status.Granted && r.Name != foreign.Name && r.Status.ClusterName == n.Name
		})]
	}
	change(w, n.cluster(), func(c *fleet.Cluster) {
		c.Annotations[fleet.AnnotationAcceptRegistration] = accepted.Name
	})
	n.in(before)
	n.works("app", "three")
	n.Until("the word is taken back", func() bool { return n.cluster().Annotations[fleet.AnnotationAcceptRegistration] == "" })
	if r, ok := get[*fleet.ClusterRegistration](w, n.Workspace, foreign.Name); ok && r.Status.Granted {
		t.Error("the stranger was let in")
	}
	n.Until("the first credential ends", func() bool {
		_, ok := get[*fleet.ClusterRegistration](w, n.Workspace, first.Name)
		return !ok
	})
	remove(w, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: n.Workspace, Name: foreign.Name}})
	n.Until("no agent waits", func() bool {
		return condition.Find(n.cluster().Status.Conditions, fleet.ConditionRegistrationWaiting) == nil
	})

	// The manager's own token for this Cluster needs no approval.
	create(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: n.Workspace, Name: "asked-3", OwnerReferences: registration.OwnedByCluster(n.cluster()),
	}})
	before = n.credential()
	n.Give(w.values(n.Workspace, "asked-3"))
	n.in(before)
}

// ask makes a request as an agent does, which asks again where an API server has not
// heard yet of the rights of a new token.
func (w *world) ask(b registration.Bootstrapping, clientID, word string) *fleet.ClusterRegistration {
	w.Helper()
	return harness.CreateAllowed(w, w.as(b.Token), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "request-", Namespace: b.ClusterNamespace, Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: word},
	})
}

// ends reports how tokens and credentials end by the clock, which is moved.
func ends(t *testing.T, w *world) {
	w = w.in(t)
	hour := w.token(fleet.NamespaceDefault, "an-hour", time.Hour)
	w.token(fleet.NamespaceDefault, "for-ever", 0)
	late := w.ask(hour, "late", "a word")
	w.until("the request is granted", func() bool {
		r, ok := get[*fleet.ClusterRegistration](w, late.Namespace, late.Name)
		return ok && r.Status.Granted
	})
	expires, _ := get[*fleet.ClusterRegistrationToken](w, fleet.NamespaceDefault, "an-hour")
	if want := expires.CreationTimestamp.Add(time.Hour); expires.Status.Expires == nil || !expires.Status.Expires.Time.Equal(want) {
		t.Errorf("want the token to say that it ends at %s, got %v", want, expires.Status.Expires)
	}
	w.again(func(g *harness.ManagerProcess) {
		g.Ahead.Store(int64(2 * time.Hour))
		g.Required = true
	})
	for name, why := range map[string]string{"an-hour": "has expired", "for-ever": "no ttl"} {
		w.until("token "+name+" goes", func() bool {
			_, ok := get[*fleet.ClusterRegistrationToken](w, fleet.NamespaceDefault, name)
			return !ok
		})
		if text := w.reported(fleet.NamespaceDefault, name, "TokenEnded"); !strings.Contains(text, why) || !strings.Contains(text, "go on") {
			t.Errorf("want why, got %q", text)
		}
	}
	w.until("a credential that no agent fetched cannot be fetched any more", func() bool {
		return !slices.ContainsFunc(list[*corev1.Secret](w, fleet.NamespaceRegistration, ""), func(s *corev1.Secret) bool {
			return s.Type == fleet.SecretTypeAgentCredential
		})
	})
	// A request whose token went in the meantime says so.
	orphan := create(w, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "request-", Namespace: fleet.NamespaceDefault, Labels: map[string]string{fleet.LabelRegistrationToken: "an-hour"},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: "orphan", ClientRandom: "word"},
	})
	if text := w.reported(fleet.NamespaceDefault, orphan.Name, "RegistrationRefused"); !strings.Contains(text, `"an-hour" has expired or was removed`) {
		t.Errorf("want why, got %q", text)
	}
	if slices.ContainsFunc(list[*fleet.Cluster](w, fleet.NamespaceDefault, ""), func(c *fleet.Cluster) bool { return c.Spec.ClientID == "orphan" }) {
		t.Error("a request without a token has made a Cluster")
	}
	w.again(func(g *harness.ManagerProcess) {
		g.Ahead.Store(0)
		g.Required = false
	})
}

// wrongAuthority: agents would not trust the manager by the certificates that it
// gives them. They cannot report that; the manager finds out by itself.
func wrongAuthority(t *testing.T, w *world) {
	w = w.in(t)
	front, err := wire.NewFront(w.hub.Cluster.REST())
	w.must(err)
	t.Cleanup(front.Close)
	right := w.managerProcess.Settings
	w.again(func(g *harness.ManagerProcess) { g.Settings.APIServerURL = front.URL() })
	w.token(fleet.NamespaceDefault, "untrusted", time.Hour)
	if text := w.reported(fleet.NamespaceDefault, "untrusted", "WrongCertificateAuthority"); !strings.Contains(text, front.URL()) || !strings.Contains(text, "set apiServerCA") {
		t.Errorf("want what is wrong, got %q", text)
	}
	n := w.newcomer(t, w.hub, "untrusting", "untrusting", nil)
	n.Give(w.values(n.Workspace, "untrusted"))
	n.Start()
	n.Until("the agent says so too", func() bool { return n.Contact()["reason"] == "CertificateRefused" })
	w.again(func(g *harness.ManagerProcess) {
		g.Settings = right
		g.Settings.APIServerURL, g.Settings.APIServerCA = front.URL(), front.CA()
	})
	w.token(fleet.NamespaceDefault, "trusted", time.Hour)
	n.Give(w.values(n.Workspace, "trusted"))
	n.in(nil)
	events, err := w.hub.Client.EventsV1().Events(fleet.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range events.Items {
		if e := &events.Items[i]; e.Regarding.Name == "trusted" && e.Type == corev1.EventTypeWarning {
			t.Errorf("a token that works is warned about: %s", e.Note)
		}
	}
}
