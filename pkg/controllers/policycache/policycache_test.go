package policycache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// A run is a cache of limits that works in memory.
type run struct {
	t       *testing.T
	server  *kubetest.Server
	admin   *kube.Client
	cache   *policycache.Cache
	changed []string // namespaces, as reported
	synced  bool
}

// play runs f with a server, and starts the cache when f calls start.
func play(t *testing.T, f func(r *run, start func())) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, server: kubetest.New(t)}
		r.server.InstallKinds()
		for _, ns := range []string{"a", "b"} {
			r.server.MakeNamespace(ns)
		}
		connect := func(agent string) *kube.Client {
			c, err := kube.Connect(kube.Config{REST: r.server.REST(), UserAgent: agent, FieldManager: agent})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		r.admin = connect("admin")
		r.cache = policycache.New(connect("manager"))
		r.cache.OnChange(func(namespace string) { r.changed = append(r.changed, namespace) })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		started := false
		f(r, func() {
			started = true
			ready := kube.RunnerFunc(func(ctx context.Context) error { r.synced = true; <-ctx.Done(); return nil })
			go func() {
				defer close(done)
				_ = kube.Run(ctx, nil, append(r.cache.Runnables(), ready)...)
			}()
			time.Sleep(time.Second)
			synctest.Wait()
		})
		stop()
		if started {
			<-done
		}
	})
}

// wait lets a second pass, within which a change must count.
func (r *run) wait() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *run) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) wantRefused(namespace string, want bool) {
	r.t.Helper()
	if got := r.cache.Of(namespace).GitRepoError(&fleet.GitRepoSpec{Repo: "x"}) != nil; got != want {
		r.t.Errorf("%s: refused %v, want %v", namespace, got, want)
	}
}

// A change of an object counts within a second, for its namespace alone. Limits stay the same
// while nothing that they say has changed.
func TestChanges(t *testing.T) {
	play(t, func(r *run, start func()) {
		policies, restrictions := kube.StoreOf[*fleet.Policy](r.admin), kube.StoreOf[*fleet.GitRepoRestriction](r.admin)
		p, err := policies.Create(t.Context(), &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, RequireServiceAccount: true})
		r.must(err)
		start()
		r.wantRefused("a", true)
		r.wantRefused("b", false)
		first := r.cache.Of("a")
		labelled := p.DeepCopy()
		labelled.Labels = map[string]string{"x": "1"}
		p, err = policies.Patch(t.Context(), p, labelled)
		r.must(err)
		r.wait()
		if r.cache.Of("a") != first {
			t.Error("a label changes the limits")
		}
		changed := p.DeepCopy()
		changed.RequireServiceAccount = false
		_, err = policies.Patch(t.Context(), p, changed)
		r.must(err)
		r.wait()
		r.wantRefused("a", false)
		_, err = restrictions.Create(t.Context(), &fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "r"}, AllowedTargetNamespaces: []string{"n"}})
		r.must(err)
		r.wait()
		r.wantRefused("b", true)
		r.must(restrictions.Delete(t.Context(), kube.Key{Namespace: "b", Name: "r"}, kube.Precondition{}))
		r.wait()
		r.wantRefused("b", false)
		if diff := cmp.Diff([]string{"a", "a", "b", "b"}, r.changed); diff != "" {
			t.Errorf("reported namespaces\n%s", diff)
		}
	})
}

// While the kind Policy is not served, there are no Policies; restrictions count. When its CRD
// comes, Policies count.
func TestPolicyIsNotServed(t *testing.T) {
	play(t, func(r *run, start func()) {
		_, err := kube.StoreOf[*fleet.GitRepoRestriction](r.admin).Create(t.Context(),
			&fleet.GitRepoRestriction{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, AllowedTargetNamespaces: []string{"n"}})
		r.must(err)
		_, err = kube.StoreOf[*fleet.Policy](r.admin).Create(t.Context(), &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "p"}, RequireServiceAccount: true})
		r.must(err)
		missing := kubetest.Missing(r.server, -1, kubetest.Match{Resource: "policies", Agent: "manager"})
		start()
		if !r.synced || missing.Met() == 0 {
			t.Errorf("synced %v after %d requests", r.synced, missing.Met())
		}
		r.wantRefused("a", true)
		r.wantRefused("b", false)
		missing.Lift()
		time.Sleep(time.Minute) // the reflector's delay
		synctest.Wait()
		r.wantRefused("b", true)
	})
}
