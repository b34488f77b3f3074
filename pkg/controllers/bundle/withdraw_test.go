package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// An apiServer answers from a few objects, by path, and keeps what is written.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]any
	writes  []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	o, ok := s.objects[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		return
	}
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		s.writes = append(s.writes, r.Method+" "+r.URL.Path+" "+string(body))
	}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		raw, _ := json.Marshal(o)
		var meta metav1.PartialObjectMetadata
		_ = json.Unmarshal(raw, &meta)
		meta.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
		o = meta
	}
	_ = json.NewEncoder(w).Encode(o)
}

func (s *apiServer) orders() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.writes {
		if strings.Contains(w, fleet.AnnotationWithdrawn) {
			n++
		}
	}
	return n
}

// stands lets something exist since a time.
func (s *apiServer) stands(path string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "ws", UID: "x", CreationTimestamp: metav1.NewTime(since)}}
}

// change changes something that exists.
func (s *apiServer) change(path string, f func(*metav1.ObjectMeta)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.objects[path].(*metav1.PartialObjectMetadata).ObjectMeta)
}

// ends lets something be deleted at a time.
func (s *apiServer) ends(path string, at time.Time) {
	s.change(path, func(m *metav1.ObjectMeta) { m.DeletionTimestamp = new(metav1.NewTime(at)) })
}

const (
	pathNamespace = "/api/v1/namespaces/ws"
	pathBundles   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundles.fleet.cattle.io"
)

// start is the time of the tests with an apiServer.
var start = time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)

// controllersAt returns controllers whose caches do not run, on an API server that has a
// workspace and the kind of Bundles since a day before start.
func controllersAt(t *testing.T, now *time.Time) (*eventHandlers, *apiServer) {
	t.Helper()
	s := &apiServer{objects: map[string]any{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	s.stands(pathNamespace, start.Add(-24*time.Hour))
	s.stands(pathBundles, start.Add(-24*time.Hour))
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{CheckinInterval: time.Minute, Now: func() time.Time { return *now }}, client, logrus.NewEntry(log)).handlers, s
}

// withAgent adds a Cluster whose agent has reported with a protocol; negative: never.
func (e *eventHandlers) withAgent(protocol int) {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: "c"}}
	c.Status.Namespace = "cluster-c1"
	if protocol >= 0 {
		manager := fleet.FieldManagerRelease
		if protocol > 0 {
			manager = fmt.Sprintf("%s%d", fleet.FieldManagerAgentPrefix, protocol)
		}
		at := metav1.NewTime(start)
		c.Status.Agent.LastSeen = at
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status", Time: &at,
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:agent":{"f:lastSeen":{}}}}`)}}
	}
	e.targeting.observeCluster(c)
}

// deploymentOf is the deployment of Bundle "ws/web" on that Cluster.
func deploymentOf(applied string) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-c1", Name: "web", UID: "bd", ResourceVersion: "1",
		CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Labels: map[string]string{
			fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "ws",
			fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "ws",
		}}}
	bd.Status.AppliedDeploymentID = applied
	return bd
}

// An agent that knows no orders gets none: to it a mark is nothing, and the deployment
// would stay for ever. One that knows them gets no deletion, which it takes for a loss.
func TestJudgeByProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		why      string
		protocol int
		applied  string
		want     withdrawal.Action
	}{
		"Reference":  {"deletion is all it knows", 0, "a:b", withdrawal.Delete},
		"Ours":       {"it uninstalls what is marked", fleet.ProtocolVersion, "a:b", withdrawal.Mark},
		"First":      {"also the first one", 1, "a:b", withdrawal.Mark},
		"NeverSeen":  {"nothing was deployed", -1, "", withdrawal.Delete},
		"NotBackYet": {"something was deployed, by an agent that has not reported here", -1, "a:b", withdrawal.Mark},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			e, _ := controllersAt(t, &now)
			e.withAgent(c.protocol)
			l := &staleDeployment{cluster: kube.Key{Namespace: "ws", Name: "c1"}, bd: deploymentOf(c.applied)}
			if got, why := e.withdrawals.decideNext(kube.Key{Namespace: "ws", Name: "web"}, l, ""); got != c.want {
				t.Errorf("%s: got %d (%s), want %d", c.why, got, why, c.want)
			}
		})
	}
}

// A deployment without its Bundle is ordered to leave after ten minutes, and not where
// the Bundle was lost with its namespace or its kind, or a person has kept it.
func TestLostBundle(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		after time.Duration
		scene func(*apiServer, *fleet.BundleDeployment)
		want  int // orders
	}{
		"InGrace": {"the Bundle may be about to be restored", 9 * time.Minute, nil, 0},
		"Lost":    {"it was not", 10 * time.Minute, nil, 1},
		"Kept": {"a person has let its Bundle go", 10 * time.Minute, func(_ *apiServer, bd *fleet.BundleDeployment) {
			bd.Annotations = map[string]string{fleet.AnnotationKept: "true"}
		}, 0},
		"KindGone": {"its Bundle went with the kind", 10 * time.Minute,
			func(s *apiServer, _ *fleet.BundleDeployment) { delete(s.objects, pathBundles) }, 0},
		"KindAgain": {"the kind is there again, without its Bundle", 10 * time.Minute,
			func(s *apiServer, _ *fleet.BundleDeployment) { s.stands(pathBundles, start) }, 0},
		"NamespaceGone": {"its Bundle went with the namespace", 10 * time.Minute,
			func(s *apiServer, _ *fleet.BundleDeployment) { delete(s.objects, pathNamespace) }, 0},
		"NamespaceAgain": {"the namespace is there again, without its Bundle", 10 * time.Minute,
			func(s *apiServer, _ *fleet.BundleDeployment) { s.stands(pathNamespace, start) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			e, s := controllersAt(t, &now)
			e.withAgent(fleet.ProtocolVersion)
			bd := deploymentOf("a:b")
			if c.scene != nil {
				c.scene(s, bd)
			}
			s.objects["/apis/fleet.cattle.io/v1alpha1/namespaces/cluster-c1/bundledeployments/web"] = bd
			e.table.SetDeployment(bd)
			for _, now = range []time.Time{start, start.Add(c.after)} {
				if _, err := e.withdrawals.reconcileWithdrawal(t.Context(), kube.KeyOf(bd)); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.orders(); got != c.want {
				t.Errorf("%s: %d orders, want %d: %v", c.why, got, c.want, s.writes)
			}
		})
	}
}
