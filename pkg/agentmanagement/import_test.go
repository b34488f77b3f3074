package agentmanagement

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Addresses of the manager. They are http, so that no certificate is looked at.
const (
	rightURL = "http://manager.example"
	wrongURL = "http://elsewhere.example"
)

const importWorkspace = "workspace"

// importTest is agent management on an API server in memory, which installs agents in a
// cluster that is another one, in a bubble of fake time. The test plays the agents.
type importTest struct {
	*testing.T
	cfg      Config
	late     time.Duration // how much later than of anything else the manager hears of Clusters
	silent   atomic.Bool   // the other cluster does not answer
	up, down *kubetest.Server
	clusters *kube.Store[*fleet.Cluster]
	tokens   *kube.Store[*fleet.ClusterRegistrationToken]
	requests *kube.Store[*fleet.ClusterRegistration]
	events   *kube.Store[*eventsv1.Event]
	secrets  *kube.Store[*corev1.Secret]
	below    *kube.Store[*corev1.Secret] // of the other cluster
	stop     func()                      // ends the manager, and waits until it has ended
}

// testImports runs f with the manager running.
func testImports(t *testing.T, late time.Duration, f func(*importTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up, down := kubetest.New(t), kubetest.New(t)
		up.MakeNamespace(importWorkspace)
		up.MakeNamespace(fleet.NamespaceSystem)
		user := up.Connect("user")
		it := &importTest{
			T: t, late: late, up: up, down: down, clusters: kube.StoreOf[*fleet.Cluster](user),
			tokens: kube.StoreOf[*fleet.ClusterRegistrationToken](user), requests: kube.StoreOf[*fleet.ClusterRegistration](user),
			events: kube.StoreOf[*eventsv1.Event](user), secrets: kube.StoreOf[*corev1.Secret](user),
			below: kube.StoreOf[*corev1.Secret](down.Connect("agent")),
		}
		it.cfg = Config{Namespace: fleet.NamespaceSystem, Installation: registration.Installation{ID: "manager", ClusterUID: "upstream"}}
		it.cfg.Settings = registration.Settings{
			AgentImage: "fleet-agent:v1", APIServerURL: rightURL, AgentTLSMode: registration.TLSStrict,
			AgentCheckinInterval: 15 * time.Minute, Reclaim: registration.ReclaimAllow, AgentsUnmanaged: true,
		}
		it.start()
		defer func() {
			it.stop()
			time.Sleep(late) // until nothing is on its way any more
		}()
		f(it)
	})
}

// start starts the manager as a process does that begins with nothing.
func (t *importTest) start() {
	log := logrus.New()
	log.SetOutput(io.Discard)
	server := t.up.REST()
	server.WrapTransport = func(http.RoundTripper) http.RoundTripper { return lateClusters{t.up, t.late} }
	c, err := kube.Connect(kube.Config{REST: server, UserAgent: "fleet-controller/v0", FieldManager: fleet.FieldManagerAgentManagement})
	if err != nil {
		t.Fatal(err)
	}
	h := compose(t.cfg, c, logrus.NewEntry(log), t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- kube.Run(ctx, nil, h.Runnables()...) }()
	t.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.pass(t.late + time.Second)
}

// again starts the manager again, with another address of its own.
func (t *importTest) again(url string) {
	t.stop()
	t.cfg.Settings.APIServerURL = url
	t.start()
}

// pass lets time pass, in which the token controller works.
func (t *importTest) pass(d time.Duration) {
	step := time.Second
	for left := d; left > 0; left -= step {
		if left < d-time.Minute {
			step = 30 * time.Second // by now it has come to rest
		}
		step = min(step, left)
		time.Sleep(step)
		synctest.Wait()
		t.up.FillAccountTokens()
		synctest.Wait()
	}
}

// cluster makes a Cluster with a kubeconfig.
func (t *importTest) cluster(name string, labels map[string]string) {
	t.Helper()
	_, err := t.secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: importWorkspace, Name: name + "-kubeconfig"}, Data: map[string][]byte{clusterimport.KeyKubeconfig: kubeconfigOf(name)},
	})
	t.must(err)
	_, err = t.clusters.Create(t.Context(), &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: importWorkspace, Name: name, Labels: labels},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: name + "-kubeconfig", AgentNamespace: "agent-" + name},
	})
	t.must(err)
}

func (t *importTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *importTest) read(name string) *fleet.Cluster {
	t.Helper()
	c, err := t.clusters.Get(t.Context(), kube.Key{Namespace: importWorkspace, Name: name})
	t.must(err)
	return c
}

// bootstrap returns the Secret with which the agent of a Cluster registers.
func (t *importTest) bootstrap(name string) *corev1.Secret {
	t.Helper()
	s, err := t.below.Get(t.Context(), kube.Key{Namespace: "agent-" + name, Name: fleet.SecretAgentBootstrap})
	t.must(err)
	return s
}

// register asks as the agent of a Cluster does, with what it was given.
func (t *importTest) register(name string) {
	t.Helper()
	_, err := t.requests.Create(t.Context(), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: importWorkspace, GenerateName: "request-",
			Labels: map[string]string{fleet.LabelRegistrationToken: naming.ImportToken(name)},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: t.read(name).Spec.ClientID, ClientRandom: t.bootstrap(name).ResourceVersion},
	})
	t.must(err)
}

// checkIn says that the agent of a Cluster checks in, and that its credential is in use.
func (t *importTest) checkIn(name string) {
	t.Helper()
	c := t.read(name)
	changed := c.DeepCopy()
	changed.Status.Conditions = condition.Set(c.Status.Conditions, fleet.Condition{Type: fleet.ConditionConnected, Status: corev1.ConditionTrue}, time.Now())
	changed.Status.Agent.LastSeen = metav1.Now()
	_, err := t.clusters.PatchStatus(t.Context(), c, changed)
	t.must(err)
	list, err := t.secrets.List(t.Context(), "", cache.Managed)
	t.must(err)
	for _, s := range list {
		if s.Type == corev1.SecretTypeServiceAccountToken && len(cache.RequestOf(s)) > 0 {
			used := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"2026-01-01"}}}`, "kubernetes.io/legacy-token-last-used")
			_, err := t.secrets.PatchRaw(t.Context(), kube.KeyOf(s), types.MergePatchType, used)
			t.must(err)
		}
	}
}

// imported is the condition Imported of a Cluster, as "<status> <reason>".
func (t *importTest) imported(name string) string {
	t.Helper()
	c := condition.Find(t.read(name).Status.Conditions, fleet.ConditionImported)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason)
}

func (t *importTest) wants(name, imported string) {
	t.Helper()
	if got := t.imported(name); got != imported {
		t.Errorf("%s: want Imported to be %q, got %q", name, imported, got)
	}
}

// reported are the Clusters whose agents were given an address last.
func (t *importTest) reported(url string) []string {
	t.Helper()
	list, err := t.clusters.List(t.Context(), importWorkspace, "")
	t.must(err)
	var out []string
	for _, c := range list {
		if r := clusterimport.RecordOf(c); r != nil && r.URL == url {
			out = append(out, c.Name)
		}
	}
	return out
}

// about are the Clusters, sorted, that an event with a reason is about.
func (t *importTest) about(reason string) []string {
	t.Helper()
	list, err := t.events.List(t.Context(), importWorkspace, "")
	t.must(err)
	var out []string
	for _, e := range list {
		if e.Reason == reason {
			out = append(out, e.Regarding.Name)
		}
	}
	slices.Sort(out)
	return out
}

// wantsRest checks that nothing is written for an hour, here and there.
func (t *importTest) wantsRest() {
	t.Helper()
	up, down := len(t.up.Writes()), len(t.down.Writes())
	t.pass(time.Hour)
	if now := append(t.up.Writes()[up:], t.down.Writes()[down:]...); len(now) > 0 {
		t.Errorf("want rest, got %v", now)
	}
}

// lateClusters is a connection on which it is heard later of Clusters.
type lateClusters struct {
	next http.RoundTripper
	by   time.Duration
}

func (l lateClusters) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err == nil && l.by > 0 && strings.HasSuffix(req.URL.Path, "/clusters") && req.URL.Query().Has("watch") {
		resp.Body = delayed(resp.Body, l.by)
	}
	return resp, err
}

// delayed delays the data of body, each piece by some time after it arrived.
func delayed(body io.ReadCloser, by time.Duration) io.ReadCloser {
	type piece struct {
		data []byte
		err  error
		at   time.Time
	}
	pieces := make(chan piece, 10_000)
	go func() {
		for {
			data := make([]byte, 64<<10)
			n, err := body.Read(data)
			pieces <- piece{data[:n], err, time.Now().Add(by)}
			if err != nil {
				return
			}
		}
	}()
	out, in := io.Pipe()
	go func() {
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			if _, err := in.Write(p.data); err != nil || p.err != nil {
				_ = in.CloseWithError(p.err)
				return
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{out, closeBoth{out, body}}
}

type closeBoth [2]io.Closer

func (c closeBoth) Close() error {
	_ = c[0].Close()
	return c[1].Close()
}

// fleetOf makes Clusters whose agents register, check in, and have used up their tokens.
// The last one has the label of a canary.
func (t *importTest) fleetOf(n int) []string {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("site-%d", i))
		labels := map[string]string{}
		if i == n-1 {
			labels[clusterimport.LabelCanary] = "true"
		}
		t.cluster(names[i], labels)
	}
	t.pass(2 * time.Minute)
	for _, name := range names {
		t.wants(name, "True")
		t.register(name)
	}
	t.pass(time.Minute)
	for _, name := range names {
		t.checkIn(name)
	}
	t.pass(registration.CredentialLifetime) // then what was handed over goes
	tokens, err := t.tokens.List(t.Context(), importWorkspace, "")
	t.must(err)
	if len(tokens) > 0 {
		t.Fatalf("want the tokens ended, got %d", len(tokens))
	}
	return names
}

// A wrong address of the manager reaches the Cluster with the label and no other one, and
// it is said why; the right one then reaches all.
func TestImportWrongAddress(t *testing.T) {
	for _, late := range []time.Duration{0, 4 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			testImports(t, late, func(t *importTest) {
				names := t.fleetOf(6)
				canary := names[5]
				t.again(wrongURL)
				t.pass(30 * time.Second)
				if got := t.reported(wrongURL); !slices.Equal(got, []string{canary}) {
					t.Fatalf("want the one with the label to have it, got %v", got)
				}
				t.wants(canary, "True")
				t.pass(clusterimport.DefaultPace.Timeout)
				t.wants(canary, "False "+clusterimport.ReasonSilent)
				if got := t.about("ImportHalted"); len(got) != 1 {
					t.Errorf("want one event that the others wait, got %v", got)
				}
				t.wantsRest()
				if got := t.reported(wrongURL); !slices.Equal(got, []string{canary}) {
					t.Fatalf("want the one with the label to have it, got %v", got)
				}
			})
		})
	}
}

// A Secret that cannot be read keeps its Cluster where it is, and not the others.
func TestImportUnreadableSecret(t *testing.T) {
	testImports(t, 0, func(t *importTest) {
		names := t.fleetOf(3)
		canary := names[2]
		secret := kube.Key{Namespace: importWorkspace, Name: "site-0-kubeconfig"}
		t.stop()
		_, err := t.secrets.PatchRaw(t.Context(), secret, types.MergePatchType, []byte(`{"metadata":{"labels":{"another":"version"}}}`))
		t.must(err)
		t.up.Broken(kubetest.Always, kubetest.Match{Verb: "get", Resource: "secrets", Name: secret.Name})
		t.cfg.Settings.APIServerURL = wrongURL
		t.start()
		t.pass(30 * time.Second)
		if got := t.reported(wrongURL); !slices.Equal(got, []string{canary}) {
			t.Errorf("want the one with the label to have it, got %v", got)
		}
	})
}

// However often an agent checks in, and however late that is heard: that it has not
// registered is said in time.
func TestImportSilentAndBusy(t *testing.T) {
	testImports(t, 4*time.Second, func(t *importTest) {
		t.cluster("site", nil)
		t.pass(time.Minute)
		for range 120 {
			t.pass(3 * time.Second)
			t.checkIn("site")
		}
		t.wants("site", "False "+clusterimport.ReasonSilent)
	})
}

// Trouble that passes at once does not stand in the condition for good, also where it is
// over before the cache has heard of it.
func TestImportTroubleThatPasses(t *testing.T) {
	for _, late := range []time.Duration{0, 4 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			testImports(t, late, func(t *importTest) {
				t.fleetOf(1)
				t.up.Broken(1, kubetest.Match{Verb: "get", Resource: "secrets", Name: "site-0-kubeconfig"})
				key := kube.Key{Namespace: importWorkspace, Name: "site-0-kubeconfig"}
				_, err := t.secrets.PatchRaw(t.Context(), key, types.MergePatchType, []byte(`{"metadata":{"labels":{"wake":"up"}}}`))
				t.must(err)
				t.pass(time.Minute)
				t.wants("site-0", "True")
			})
		})
	}
}

// An agent that has not registered is given again what it has; that it is silent is said
// again.
func TestImportSilentAgain(t *testing.T) {
	for _, late := range []time.Duration{0, 4 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			testImports(t, late, func(t *importTest) {
				t.cluster("site", nil)
				t.pass(6 * time.Minute)
				t.wants("site", "False "+clusterimport.ReasonSilent)
				t.up.Busy(2, kubetest.Match{Verb: "patch", Resource: "clusters", Subresource: "status", Name: "site"}, 2*time.Second)
				key := kube.Key{Namespace: importWorkspace, Name: "site"}
				_, err := t.clusters.PatchRaw(t.Context(), key, types.MergePatchType, []byte(`{"spec":{"redeployAgentGeneration":1}}`))
				t.must(err)
				t.pass(time.Minute)
				t.wants("site", "False "+clusterimport.ReasonSilent)
			})
		})
	}
}

// An agent is given another address once, also where it has registered with what it was
// given before the cache has heard that it was given anything.
func TestImportGivesAnAddressOnce(t *testing.T) {
	testImports(t, 4*time.Second, func(t *importTest) {
		t.fleetOf(1)
		t.again(wrongURL)
		for len(t.reported(wrongURL)) == 0 {
			t.pass(100 * time.Millisecond)
		}
		given := t.bootstrap("site-0")
		t.register("site-0")
		t.pass(time.Second)
		t.checkIn("site-0")
		t.pass(time.Minute)
		if now := t.bootstrap("site-0"); now.ResourceVersion != given.ResourceVersion {
			t.Error("it was given another token")
		}
		if got := t.about("AgentInstalled"); len(got) != 2 {
			t.Errorf("want two installations, got %v", got)
		}
		t.wants("site-0", "True")
	})
}

// A token that bears the name of an import's, and is not of this Cluster, is replaced.
func TestForeignImportToken(t *testing.T) {
	testImports(t, 0, func(t *importTest) {
		_, err := t.tokens.Create(t.Context(), &fleet.ClusterRegistrationToken{
			ObjectMeta: metav1.ObjectMeta{Namespace: importWorkspace, Name: naming.ImportToken("site")},
		})
		t.must(err)
		t.pass(time.Minute)
		t.cluster("site", nil)
		t.pass(time.Minute)
		t.wants("site", "True")
	})
}

// A cluster that does not answer gets its agent once it does, whatever the import has to
// wait for then, and is not forgotten where no agent may be changed in between.
func TestImportAway(t *testing.T) {
	for name, between := range map[string]func(*importTest, bool){
		"Back":   func(*importTest, bool) {},
		"Braked": (*importTest).brake,
	} {
		t.Run(name, func(t *testing.T) {
			testImports(t, 0, func(t *importTest) {
				t.silent.Store(true)
				t.cluster("site", nil)
				t.pass(time.Minute)
				t.wants("site", "False "+clusterimport.ReasonUnreachable)
				between(t, true)
				t.silent.Store(false)
				t.pass(4 * time.Minute)
				between(t, false)
				t.pass(10 * time.Second)
				t.wants("site", "True")
			})
		})
	}
}

// brake holds all deployments, or no more.
func (t *importTest) brake(on bool) {
	t.Helper()
	store := kube.StoreOf[*corev1.ConfigMap](t.up.Connect("user"))
	key := kube.Key{Namespace: t.cfg.Namespace, Name: fleet.ConfigMapBrake}
	if !on {
		t.must(store.Delete(t.Context(), key, kube.Precondition{}))
		return
	}
	_, err := store.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: view.GlobalPause{On: true}.Data()})
	t.must(err)
}

// RoundTrip is the way to the other cluster.
func (t *importTest) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.silent.Load() {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return t.down.RoundTrip(req)
}

// Whatever write in the other cluster meets a fault, or the end of the token, the agent is
// installed and registers, once; then nothing more is written. Faults of the other
// requests are in TestImportOfOneCluster.
func TestImportFaults(t *testing.T) {
	faults := map[string]func(*kubetest.Server, kubetest.Match){
		"Conflict": func(s *kubetest.Server, m kubetest.Match) { s.Conflict(2, m) },
		"Busy":     func(s *kubetest.Server, m kubetest.Match) { s.Busy(2, m, 2*time.Second) },
		"Broken":   func(s *kubetest.Server, m kubetest.Match) { s.Broken(2, m) },
		"CutAfter": func(s *kubetest.Server, m kubetest.Match) { s.CutAfter(1, m) },
	}
	for what, m := range map[string]kubetest.Match{
		"TokenEnds":  {Verb: "delete", Resource: "clusterregistrationtokens"},
		"Below/Give": {Verb: "create", Resource: "secrets"}, "Below/Apply": {Verb: "patch", Resource: "deployments"}, "Below/Namespace": {Verb: "create", Resource: "namespaces"},
	} {
		for name, fault := range faults {
			if name == "Conflict" && m.Verb != "patch" {
				continue // nothing but a patch is refused so
			}
			t.Run(what+"/"+name, func(t *testing.T) {
				testImports(t, 0, func(t *importTest) {
					server := t.up
					if strings.HasPrefix(what, "Below") {
						server = t.down
					}
					fault(server, m)
					t.fleetOf(1)
					t.wants("site-0", "True")
					t.wantsRest()
				})
			})
		}
	}
}

// A manager that ends at any step leaves what the next one goes on with; where all is
// done the next one writes nothing.
func TestImportRestart(t *testing.T) {
	testImports(t, 4*time.Second, func(t *importTest) {
		names := t.fleetOf(3)
		canary := names[2]
		t.again(wrongURL)
		t.again(wrongURL) // it was given, and the cache of the first one may not know
		if got := t.reported(wrongURL); !slices.Equal(got, []string{canary}) {
			t.Fatalf("want the one with the label to have it, got %v", got)
		}
		t.pass(clusterimport.DefaultPace.Timeout / 2)
		t.again(wrongURL)
		t.pass(clusterimport.DefaultPace.Timeout)
		t.wants(canary, "False "+clusterimport.ReasonSilent)
		t.again(wrongURL)
		t.pass(time.Minute)
		t.wants(canary, "False "+clusterimport.ReasonSilent)
		if got := t.about("ImportHalted"); len(got) == 0 {
			t.Error("it is not said why the others wait")
		}
		t.again(rightURL)
		t.pass(time.Minute)
		t.register(canary)
		t.pass(time.Minute)
		t.checkIn(canary)
		t.pass(registration.CredentialLifetime)
		t.again(rightURL)
		t.wantsRest()
		for _, name := range names {
			t.wants(name, "True")
		}
		if got := t.reported(rightURL); !slices.Equal(got, names) {
			t.Errorf("want all to have the right address, got %v", got)
		}
	})
}

// A token that is made in the second of a request is not taken to be spent by it.
func TestImportInTheSecondOfARequest(t *testing.T) {
	testImports(t, 0, func(t *importTest) {
		t.cluster("site", nil)
		t.pass(time.Minute)
		t.register("site")
		synctest.Wait()
		t.up.FillAccountTokens()
		synctest.Wait()
		key := kube.Key{Namespace: importWorkspace, Name: "site"}
		_, err := t.clusters.PatchRaw(t.Context(), key, types.MergePatchType, []byte(`{"spec":{"redeployAgentGeneration":1}}`))
		t.must(err)
		t.pass(2 * time.Minute)
		t.wants("site", "True")
		if r := clusterimport.RecordOf(t.read("site")); r == nil || r.Generation != 1 {
			t.Errorf("want it installed again, got %+v", r)
		}
	})
}
