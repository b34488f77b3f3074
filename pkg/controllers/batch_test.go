package controllers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A meter stands between the manager and its API server. It makes creations of
// deployments slow, counts them, and lets no more than limit of them pass.
type meter struct {
	wait time.Duration

	mu      sync.Mutex
	now     int            // creations without an answer
	most    int            // at once
	created map[string]int // by namespace
	passed  int            // since limit was set
	shut    chan struct{}  // closed when the rest may pass as well
	full    chan struct{}  // closed when limit have passed
	limit   int
}

// let lets so many creations pass, and the rest when open is called. full reports whether
// the next one waits.
func (m *meter) let(n int) (full func() bool, open func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created, m.passed, m.limit, m.shut, m.full = map[string]int{}, 0, n, make(chan struct{}), make(chan struct{})
	shut, reached := m.shut, m.full
	return func() bool {
		select {
		case <-reached:
			return true
		default:
			return false
		}
	}, sync.OnceFunc(func() { close(shut) })
}

// metered is one of the manager's connections.
type metered struct {
	*meter
	next http.RoundTripper
}

func (m metered) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/bundledeployments") {
		return m.next.RoundTrip(r)
	}
	m.mu.Lock()
	m.now++
	m.most = max(m.most, m.now)
	m.created[strings.Split(r.URL.Path, "/")[5]]++
	m.passed++
	waits, shut := m.passed > m.limit, m.shut
	if m.passed == m.limit+1 {
		close(m.full)
	}
	m.mu.Unlock()
	if waits {
		<-shut
	}
	time.Sleep(m.wait) // a slow API server
	resp, err := m.next.RoundTrip(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now--
	return resp, err
}

// TestBatches reports how a large rollout takes many turns, never more creations
// at once than maxNew, none of them twice, and listens meanwhile.
func TestBatches(t *testing.T) { synctest.Test(t, batchesBubble) }

func batchesBubble(t *testing.T) {
	const clusters = 40
	w := &world{t: t, agents: map[string]*agent{}}
	m := &meter{wait: 25 * time.Millisecond}
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return metered{m, next} }
	w.open()
	name := func(n int) string { return fmt.Sprintf("c%02d", n) }
	for n := range clusters {
		ns := naming.ClusterNamespace(workspace, name(n))
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		w.create(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: workspace, Name: name(n), Labels: map[string]string{"env": "shop"},
			Annotations: map[string]string{registration.AnnotationDeploymentNamespace: ns},
		}})
		setStatus(w, in(name(n)), func(c *fleet.Cluster) { c.Status.Namespace = ns })
	}
	all := func(but string) string {
		var out []string
		for n := range clusters {
			if name(n) != but {
				out = append(out, name(n))
			}
		}
		return strings.Join(out, " ")
	}
	two := 2
	b := bundle("app", "v1", where("env", "shop"))
	b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxNew: &two}
	full, open := m.let(10)
	defer open()
	w.create(b)
	w.until("ten are created, in five turns", full)
	update(w, in(name(clusters-1)), func(c *fleet.Cluster) { c.Labels = map[string]string{"env": "office"} })
	w.settle()
	open()
	sees(w, "the cluster that left meanwhile gets nothing", all(name(clusters-1)), w.on("app"))
	m.mu.Lock()
	if m.most != two {
		t.Errorf("maxNew is %d, and %d were created at once", two, m.most)
	}
	for ns, n := range m.created {
		if n != 1 {
			t.Errorf("%s: %d creations", ns, n)
		}
	}
	m.mu.Unlock()

	other := bundle("other", "v1", where("env", "shop"))
	other.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxNew: &two}
	full, open = m.let(10)
	defer open()
	w.create(other)
	w.until("ten are created", full)
	update(w, in("other"), func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{where("env", "office")} })
	w.settle()
	open()
	last := name(clusters - 1)
	w.until("another target: the rest is not created", func() bool { return strings.HasSuffix(w.on("other")(), last) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.created); n > clusters/2 {
		t.Errorf("%d of %d deployments of the old target were created", n-1, clusters-1)
	}
}
