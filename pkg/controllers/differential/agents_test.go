package differential_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// A mood is how an agent answers.
type mood string

const (
	good     mood = "good"     // deploys, and all is ready
	notReady mood = "notReady" // deploys, and one object is not ready
	modified mood = "modified" // deploys, and one object was changed since
	failing  mood = "failing"  // cannot deploy
	silent   mood = "silent"   // says nothing
	stubborn mood = "stubborn" // deploys, and does not uninstall
)

// moods are all moods; the first one is the most frequent.
var moods = []mood{good, good, good, notReady, modified, failing, silent, stubborn}

// A place is where an agent answers: the namespace of its deployments, and one
// of these, or all where that is empty.
type place struct{ namespace, bundle string }

// agents play the agents of all clusters: they look at deployments and write
// status, as real ones do, and deploy nothing.
type agents struct {
	cache    *kube.Cache[*fleet.BundleDeployment]
	loop     *kube.Controller
	store    *kube.Store[*fleet.BundleDeployment]
	clusters *kube.Store[*fleet.Cluster]

	mu    sync.Mutex
	moods map[place]mood
}

// startAgents returns when the agents see deployments.
func startAgents(w *world) *agents {
	w.t.Helper()
	client := w.client("fleet-agent/test", fleet.FieldManagerAgent, nil)
	a := &agents{
		cache: kube.NewCache[*fleet.BundleDeployment](client, kube.Watch{}, nil),
		store: kube.StoreOf[*fleet.BundleDeployment](client), clusters: kube.StoreOf[*fleet.Cluster](client),
		moods: map[place]mood{},
	}
	a.loop = kube.NewController("agents", 4, a.reconcile)
	a.cache.OnChange(func(old, changed *fleet.BundleDeployment) {
		w.budget.see(old, changed)
		if changed == nil {
			w.pace.note(old.Name)
			w.pace.leave(kube.KeyOf(old))
			return
		}
		if old != nil && changed.Annotations[fleet.AnnotationWithdrawn] != old.Annotations[fleet.AnnotationWithdrawn] {
			w.pace.note(old.Name)
		}
		a.loop.Add(kube.KeyOf(changed))
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = kube.Run(ctx, nil, a.cache, a.loop)
	}()
	w.t.Cleanup(func() { stop(); <-done })
	w.until("the agents see deployments", a.cache.HasSynced)
	return a
}

// set changes how agents answer.
func (a *agents) set(p place, m mood) {
	a.mu.Lock()
	if p.bundle == "" {
		for other := range a.moods {
			if other.namespace == p.namespace {
				delete(a.moods, other)
			}
		}
	}
	a.moods[p] = m
	a.mu.Unlock()
	for _, bd := range a.cache.List(p.namespace) {
		a.loop.Add(kube.KeyOf(bd))
	}
}

// of is how the agent answers for a deployment.
func (a *agents) of(key kube.Key) mood {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m, ok := a.moods[place{key.Namespace, key.Name}]; ok {
		return m
	}
	if m, ok := a.moods[place{namespace: key.Namespace}]; ok {
		return m
	}
	return silent // no agent has joined
}

func (a *agents) reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	bd, ok := a.cache.Get(key)
	if !ok || bd.DeletionTimestamp != nil {
		return kube.Done, nil
	}
	status, ok := answer(bd, a.of(key), time.Now())
	if !ok {
		return kube.Done, nil
	}
	changed := bd.DeepCopy()
	changed.Status = status
	_, err := a.store.PatchStatus(ctx, bd, changed)
	if kube.IsGone(err) || kube.IsConflict(err) {
		return kube.Done, nil // the watch brings what is true now
	}
	return kube.Done, err
}

// answer returns the status that an agent in a mood writes for a deployment;
// false if it has nothing to add.
func answer(bd *fleet.BundleDeployment, m mood, now time.Time) (fleet.BundleDeploymentStatus, bool) {
	order := bd.Annotations[fleet.AnnotationWithdrawn]
	switch {
	case m == silent, order != "" && (m == stubborn || report.Answered(bd, order)):
		return fleet.BundleDeploymentStatus{}, false
	case order != "":
		return report.Withdrawn(bd, order, "", now), true
	case bd.Spec.Paused || bd.Spec.DeploymentID == "":
		return fleet.BundleDeploymentStatus{}, false
	}
	status := report.Status(bd, found(bd, m), now)
	return status, !report.Equivalent(status, bd.Status)
}

func found(bd *fleet.BundleDeployment, m mood) report.Found {
	f := report.Found{ID: bd.Spec.DeploymentID, Release: "default/" + bd.Name + ":1"}
	if m == failing {
		f.Failure = &report.Failure{Reason: "InstallFailed", Message: "the node is full", Permanent: true}
		if f.ID = bd.Status.AppliedDeploymentID; f.ID == "" {
			return report.Found{Failure: f.Failure}
		}
	}
	for i := range 2 {
		f.Objects = append(f.Objects, report.Object{
			Kind: "ConfigMap", APIVersion: "v1", Namespace: "default", Name: fmt.Sprintf("%s-%d", bd.Name, i), CreatedAt: created,
		})
	}
	first := &f.Objects[0]
	switch m {
	case notReady:
		first.NonReady = &fleet.NonReadyStatus{Kind: first.Kind, APIVersion: first.APIVersion, Namespace: first.Namespace, Name: first.Name}
		first.NonReady.Summary.State, first.NonReady.Summary.Transitioning = "updating", true
		first.NonReady.Summary.Message = []string{"1 of 2 replicas"}
	case modified:
		first.Modified = &fleet.ModifiedStatus{Kind: first.Kind, APIVersion: first.APIVersion, Namespace: first.Namespace, Name: first.Name, Patch: `{"data":{}}`}
	}
	return f
}

// created is when all objects were made.
var created = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// join lets the agent of a cluster report for the first time, or once more.
func (a *agents) join(ctx context.Context, cluster kube.Key, namespace string) error {
	body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q,"namespace":"cattle-fleet-system"}}}`, time.Now().UTC().Format(time.RFC3339))
	if _, err := a.clusters.PatchRaw(ctx, cluster, types.MergePatchType, []byte(body), "status"); err != nil {
		return err
	}
	a.mu.Lock()
	_, known := a.moods[place{namespace: namespace}]
	a.mu.Unlock()
	if !known {
		a.set(place{namespace: namespace}, good)
	}
	return nil
}

// leave ends the agent of a cluster.
func (a *agents) leave(namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.moods {
		if p.namespace == namespace {
			delete(a.moods, p)
		}
	}
}
