package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// checkin is how often an agent says that it lives.
const checkin = time.Minute

// floorPrefix begins the names of what agents do not touch.
const floorPrefix = "floor-"

// agents play one agent for each cluster: a watch on the deployments of its
// namespace, and for each that is new the requests of a real one: the Content,
// once per content, the Secret with values where there is one, and one write
// of the status.
type agents struct {
	hub      *hub
	clusters int
	objects  int
	stopAll  context.CancelFunc
	done     sync.WaitGroup

	open    atomic.Int64 // watches, and agents that have checked in
	failing atomic.Bool  // every twentieth agent cannot deploy

	mu    sync.Mutex
	pairs map[pair]state
	seen  chan struct{} // closed with the next change
	err   error
}

type pair struct {
	cluster int
	bundle  string
}

// A state is what an agent has answered for a deployment.
type state struct {
	id     string // deployed, or failed to
	failed bool
	at     time.Time
}

// startAgents returns when all watches are open and all agents have said that
// they live.
func startAgents(ctx context.Context, h *hub, s scenario) (*agents, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &agents{hub: h, clusters: s.clusters, objects: s.objects, stopAll: stop, pairs: map[pair]state{}, seen: make(chan struct{})}
	for n := range s.clusters {
		a.done.Go(func() { a.fail((&agent{agents: a, n: n, contents: map[string]bool{}}).run(ctx)) })
	}
	err := wait(ctx, 5*time.Minute, func() (string, error) {
		if open := int(a.open.Load()); open < 2*s.clusters {
			return fmt.Sprintf("%d of %d watches and check-ins have begun", open, 2*s.clusters), a.failure()
		}
		return "", nil
	})
	return a, err
}

func (a *agents) stop() error {
	a.stopAll()
	a.done.Wait()
	return a.failure()
}

func (a *agents) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
}

func (a *agents) failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// fails reports whether the n-th agent is one of the 5 % that may fail.
func fails(n int) bool { return n%20 == 0 }

// note takes in what an agent has answered; a zero state: it is gone.
func (a *agents) note(p pair, s state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.id == "" {
		delete(a.pairs, p)
	} else {
		a.pairs[p] = s
	}
	close(a.seen)
	a.seen = make(chan struct{})
}

// get is what the n-th agent has answered for a Bundle.
func (a *agents) get(p pair) (state, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.pairs[p]
	return s, ok
}

// ids are the answers of all pairs; a later comparison shows which are new.
func (a *agents) ids() map[pair]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[pair]string, len(a.pairs))
	for p, s := range a.pairs {
		out[p] = s.id
	}
	return out
}

// renewed counts the pairs whose answer differs from before.
func (a *agents) renewed(before map[pair]string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for p, s := range a.pairs {
		if before[p] != s.id {
			n++
		}
	}
	return n
}

// left counts the pairs that are there.
func (a *agents) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pairs)
}

// An agent is one of them.
type agent struct {
	*agents
	n        int
	contents map[string]bool
}

// An event is what an agent reads of a watch.
type event struct {
	Type   string                  `json:"type"`
	Object *fleet.BundleDeployment `json:"object"`
}

// stagger is how far apart agents start: agents of a real fleet do not come at
// once.
const stagger = 5 * time.Millisecond

func (a *agent) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(time.Duration(a.n) * stagger):
	}
	a.done.Go(func() { a.live(ctx) })
	version := ""
	for ctx.Err() == nil {
		last, err := a.watch(ctx, version)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("agent %d: %w", a.n, err)
		}
		version = last
	}
	return nil
}

// live says that the agent lives, now and then.
func (a *agent) live(ctx context.Context) {
	// A fleet's check-ins come evenly: the first ones of two agents are as far
	// apart as their starts, all others by their part of the period.
	lag := time.Duration(a.n) * (checkin/time.Duration(a.clusters) - stagger)
	next := time.NewTimer(max(0, lag) + checkin)
	defer next.Stop()
	lives := false
	path := pathOf(workspace, "clusters") + "/" + clusterName(a.n) + "/status?fieldManager=" + fleet.FieldManagerAgent
	for {
		body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q,"namespace":%q}}}`, time.Now().UTC().Format(time.RFC3339), fleet.NamespaceSystem)
		err := a.hub.call(ctx, http.MethodPatch, path, mergePatch, []byte(body), nil)
		switch {
		case err == nil && !lives:
			a.open.Add(1)
			lives = true
		case err != nil && ctx.Err() == nil && !refused(err, http.StatusGatewayTimeout): // the next one may be luckier
			a.fail(fmt.Errorf("agent %d: %w", a.n, err))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(checkin)
		}
	}
}

// watch works until the API server ends the watch, and returns the version to
// go on from.
func (a *agent) watch(ctx context.Context, version string) (string, error) {
	path := pathOf(namespaceOf(a.n), "bundledeployments") + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + version
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.hub.URL()+path, nil)
	if err != nil {
		return version, fmt.Errorf("watch: %w", err)
	}
	resp, err := a.hub.http.Do(req)
	if err != nil {
		return version, fmt.Errorf("watch: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return version, fmt.Errorf("watch: %w", &answer{resp.StatusCode, string(text)})
	}
	a.open.Add(1)
	defer a.open.Add(-1)
	for in := json.NewDecoder(resp.Body); ; {
		var e event
		if err := in.Decode(&e); err != nil {
			return version, nil // the API server ends watches now and then
		}
		if e.Object == nil {
			continue
		}
		version = e.Object.ResourceVersion
		if err := a.take(ctx, e); err != nil {
			return version, err
		}
	}
}

func (a *agent) take(ctx context.Context, e event) error {
	bd := e.Object
	if e.Type == "BOOKMARK" || strings.HasPrefix(bd.Name, floorPrefix) {
		return nil
	}
	p := pair{a.n, bd.Name}
	if e.Type == "DELETED" {
		a.note(p, state{})
		return nil
	}
	if order := bd.Annotations[fleet.AnnotationWithdrawn]; order != "" {
		if report.Answered(bd, order) {
			return nil
		}
		_, err := a.patch(ctx, bd, report.Withdrawn(bd, order, "", time.Now()))
		return err
	}
	id := bd.Spec.DeploymentID
	if have, _ := a.get(p); id == "" || bd.Spec.Paused || have.id == id && have.failed == a.mustFail() {
		return nil
	}
	if err := a.read(ctx, bd); err != nil {
		return err
	}
	s := state{id: id, failed: a.mustFail(), at: time.Now()}
	written, err := a.patch(ctx, bd, report.Status(bd, a.found(bd, s.failed), time.Now()))
	if written {
		a.note(p, s)
	}
	return err
}

func (a *agent) mustFail() bool { return a.failing.Load() && fails(a.n) }

// read fetches what a real agent fetches before it deploys.
func (a *agent) read(ctx context.Context, bd *fleet.BundleDeployment) error {
	content, _, _ := strings.Cut(bd.Spec.DeploymentID, ":")
	if !a.contents[content] {
		if err := a.hub.call(ctx, http.MethodGet, "/apis/"+fleet.GroupVersion.String()+"/contents/"+content, "", nil, nil); err != nil {
			return err
		}
		a.contents[content] = true
	}
	if bd.Spec.ValuesHash == "" {
		return nil
	}
	return a.hub.call(ctx, http.MethodGet, "/api/v1/namespaces/"+bd.Namespace+"/secrets/"+bd.Name, "", nil, &corev1.Secret{})
}

// found is what an agent finds that has deployed, or has failed to.
func (a *agent) found(bd *fleet.BundleDeployment, failed bool) report.Found {
	f := report.Found{ID: bd.Spec.DeploymentID, Release: "default/" + bd.Name + ":1"}
	if failed {
		f.ID = bd.Status.AppliedDeploymentID
		f.Failure = &report.Failure{Reason: "InstallFailed", Message: "the node is full", Permanent: true}
	}
	if f.ID == "" {
		return f
	}
	for i := range a.objects {
		f.Objects = append(f.Objects, report.Object{
			Kind: "ConfigMap", APIVersion: "v1", Namespace: "default", Name: fmt.Sprintf("%s-%d", bd.Name, i), CreatedAt: created,
		})
	}
	return f
}

// created is when all objects were made.
var created = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// patch writes a status. That the object has changed meanwhile is no fault: the
// watch brings it.
func (a *agent) patch(ctx context.Context, bd *fleet.BundleDeployment, status fleet.BundleDeploymentStatus) (written bool, err error) {
	body, err := statusPatch(bd.ResourceVersion, status)
	if err != nil {
		return false, err
	}
	path := pathOf(bd.Namespace, "bundledeployments") + "/" + bd.Name + "/status?fieldManager=" + fleet.FieldManagerAgent
	err = a.hub.call(ctx, http.MethodPatch, path, mergePatch, body, nil)
	if refused(err, http.StatusConflict) || refused(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// statusPatch is a status as a merge patch on one version of an object. What an
// empty status leaves out is removed.
func statusPatch(version string, status fleet.BundleDeploymentStatus) ([]byte, error) {
	body := map[string]any{"status": status}
	if version != "" {
		body["metadata"] = map[string]any{"resourceVersion": version}
	}
	if status.AppliedDeploymentID == "" {
		raw, err := json.Marshal(status)
		if err != nil {
			return nil, fmt.Errorf("write status: %w", err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, fmt.Errorf("write status: %w", err)
		}
		for _, gone := range []string{"appliedDeploymentID", "release", "resources"} {
			fields[gone] = nil
		}
		body["status"] = fields
	}
	out, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	return out, nil
}
