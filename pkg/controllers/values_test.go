package controllers_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A thief stands between the manager and its API server. It takes the Secret of
// a deployment away just before the deployment is written, and lets the manager
// learn of that first.
type thief struct {
	w    *world
	key  kube.Key
	gone chan struct{} // signalled by the watch of Secrets

	mu    sync.Mutex
	waits string // method of the request that it waits for; empty: none
}

// thieved is one of the manager's connections.
type thieved struct {
	*thief
	next http.RoundTripper
}

func (t thieved) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.strikes(r) {
		// Not by the world's helper: ending this goroutine would end a write of the manager.
		if err := kube.StoreOf[*corev1.Secret](t.w.admin).Delete(r.Context(), t.key, kube.Precondition{}); err != nil {
			t.w.t.Error(err)
		}
		select {
		case <-t.gone:
		case <-r.Context().Done():
		case <-time.After(5 * time.Second): // it was gone before, or the watch has ended
		}
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/secrets") && r.URL.Query().Get("watch") != "" {
		resp.Body = &overheard{ReadCloser: resp.Body, thief: t.thief}
	}
	return resp, err
}

// strikes reports, once, whether a request is the one that the thief waits for.
func (t *thief) strikes(r *http.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Method != t.waits || !strings.Contains(r.URL.Path, "/"+t.key.Namespace+"/bundledeployments") {
		return false
	}
	t.waits = ""
	return true
}

func (t *thief) wait(method string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = method
}

// overheard is a watch of Secrets.
type overheard struct {
	io.ReadCloser
	*thief
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	if bytes.Contains(p[:n], []byte("DELETED")) {
		select {
		case o.gone <- struct{}{}:
		default:
		}
	}
	return n, err
}

// TestValuesTaken reports that values that another client removes while their
// deployment is being written come back.
func TestValuesTaken(t *testing.T) { synctest.Test(t, valuesTakenBubble) }

func valuesTakenBubble(t *testing.T) {
	ns := naming.ClusterNamespace(workspace, "c1")
	w := &world{t: t, agents: map[string]*agent{}}
	thief := &thief{w: w, key: kube.Key{Namespace: ns, Name: "app"}, gone: make(chan struct{}, 1), waits: http.MethodPost}
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return thieved{thief, next} }
	w.open()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	w.create(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: "c1", Annotations: map[string]string{registration.AnnotationDeploymentNamespace: ns},
	}})
	setStatus(w, in("c1"), func(c *fleet.Cluster) { c.Status.Namespace = ns })
	w.create(w.withValues(bundle("app", "v1", everywhere()), map[string]any{"v": "1"}))
	values := func() string {
		if s := get[*corev1.Secret](w, thief.key); s != nil && get[*fleet.BundleDeployment](w, thief.key) != nil {
			return string(s.Data[fleet.KeyValues])
		}
		return ""
	}
	sees(w, "those of a new deployment", `{"v":"1"}`, values)

	thief.wait(http.MethodPut)
	data := map[string][]byte{"values.yaml": []byte(`{"v":"2"}`)}
	update(w, in("app"), func(s *corev1.Secret) { s.Data = data })
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.ValuesHash = options.BundleValuesHash(data) })
	sees(w, "those of a new version", `{"v":"2"}`, values)
}

// A reader counts how often single deployments are read.
type reader struct {
	next  http.RoundTripper
	reads *atomic.Int64
}

func (r reader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/bundledeployments/") {
		r.reads.Add(1)
	}
	return r.next.RoundTrip(req)
}

// TestDeletionReadsNothing reports that values go with their deployments, and that
// no deployment is read for it.
func TestDeletionReadsNothing(t *testing.T) { synctest.Test(t, deletionReadsNothingBubble) }

func deletionReadsNothingBubble(t *testing.T) {
	w := &world{t: t, agents: map[string]*agent{}}
	var reads atomic.Int64
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return reader{next, &reads} }
	w.open()
	const clusters = 12
	var secrets []kube.Key
	for i := range clusters {
		name := fmt.Sprintf("c%02d", i)
		w.addCluster(name, nil)
		secrets = append(secrets, kube.Key{Namespace: naming.ClusterNamespace(workspace, name), Name: "app"})
	}
	there := func() int {
		n := 0
		for _, key := range secrets {
			if get[*corev1.Secret](w, key) != nil {
				n++
			}
		}
		return n
	}
	w.create(w.withValues(bundle("app", "v1", everywhere()), map[string]any{"v": "1"}))
	sees(w, "Ready", "True", bundleReady(w, "app"))
	sees(w, "values", clusters, there)
	reads.Store(0)
	if err := kube.StoreOf[*fleet.Bundle](w.admin).Delete(t.Context(), in("app"), kube.Precondition{}); err != nil {
		t.Fatal(err)
	}
	sees(w, "values", 0, there)
	w.until("the Bundle goes", func() bool { return get[*fleet.Bundle](w, in("app")) == nil })
	if n := reads.Load(); n > 0 {
		t.Errorf("%d reads of single deployments", n)
	}
}

// TestStagingReadsNothing reports that a version is staged without reading the
// deployment, and that nothing of the version staged before stays in it.
func TestStagingReadsNothing(t *testing.T) { synctest.Test(t, stagingReadsNothingBubble) }

func stagingReadsNothingBubble(t *testing.T) {
	w := &world{t: t, agents: map[string]*agent{}}
	var reads atomic.Int64
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return reader{next, &reads} }
	w.open()
	for _, name := range []string{"c1", "c2", "c3"} {
		w.addCluster(name, nil)
	}
	b := bundle("app", "v1", everywhere())
	b.Spec.ServiceAccount = "deployer"
	w.create(b)
	w.readyOn("app", "3/3")
	runs := w.deployment("app", "c1").Spec
	reads.Store(0)
	update(w, in("app"), func(b *fleet.Bundle) {
		b.Spec.Paused, b.Spec.ServiceAccount, b.Spec.DefaultNamespace = true, "", "shop"
	})
	sees(w, "held back", "False OutOfSync: OutOfSync(3) [Cluster fleet-default/c1: paused]", bundleReady(w, "app"))
	now := w.deployment("app", "c1").Spec
	if now.StagedOptions.ServiceAccount != "" || now.StagedOptions.DefaultNamespace != "shop" {
		t.Errorf("staged %+v", now.StagedOptions)
	}
	if diff := cmp.Diff(runs.Options, now.Options); diff != "" || now.DeploymentID != runs.DeploymentID {
		t.Errorf("what runs has changed, from %s to %s\n%s", runs.DeploymentID, now.DeploymentID, diff)
	}
	if n := reads.Load(); n > 0 {
		t.Errorf("%d reads of single deployments", n)
	}
	update(w, in("app"), func(b *fleet.Bundle) { b.Spec.Paused = false })
	sees(w, "goes on", "True", bundleReady(w, "app"))
}
