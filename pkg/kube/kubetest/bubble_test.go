package kubetest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
}

// names of the objects of a cache, sorted.
func names[P kube.Object](c *kube.Cache[P]) []string {
	out := []string{}
	for _, o := range c.List("") {
		out = append(out, o.GetName())
	}
	slices.Sort(out)
	return out
}

// bubble runs f in a bubble of fake time, with a server and a connection. What f runs
// in the background ends with the context.
func bubble(t *testing.T, f func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		s := kubetest.New(t)
		f(t, ctx, s, s.Connect("test"))
	})
}

func must[P any](t *testing.T) func(P, error) P {
	t.Helper()
	return func(p P, err error) P {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

// Caches of objects and of metadata fill by a watch with initial events, follow
// changes, and stay current over hours in which watches end and start again.
func TestCachesUnderFakeTime(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		maps := kube.StoreOf[*corev1.ConfigMap](c)
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("early", nil)))
		whole := kube.NewCache[*corev1.ConfigMap](c, kube.Watch{Namespace: "default"}, nil)
		meta := kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("ConfigMap"), kube.Watch{}, nil)
		selected := kube.NewCache[*corev1.ConfigMap](c, kube.Watch{Labels: "color=red"}, nil)
		go func() { _ = kube.Run(ctx, nil, whole, meta, selected) }()
		synctest.Wait()
		if !whole.HasSynced() || !meta.HasSynced() || !selected.HasSynced() {
			t.Fatal("a cache has not synced")
		}
		for _, r := range s.Requests() {
			if r.Verb == "list" {
				t.Errorf("a cache has listed instead of watching: %s", r)
			}
		}
		red := must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("late", map[string]string{"color": "red"})))
		synctest.Wait()
		for i, got := range [][]string{names(whole), names(meta), names(selected)} {
			if want := [][]string{{"early", "late"}, {"early", "late"}, {"late"}}[i]; !slices.Equal(got, want) {
				t.Errorf("cache %d: want %v, got %v", i, want, got)
			}
		}
		blue := red.DeepCopy()
		blue.Labels["color"] = "blue"
		must[*corev1.ConfigMap](t)(maps.Patch(ctx, red, blue))
		synctest.Wait()
		if got := names(selected); len(got) > 0 {
			t.Errorf("what lost its label has to go, got %v", got)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if err := maps.Delete(ctx, kube.KeyOf(red), kube.Precondition{UID: red.UID}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := names(whole); !slices.Equal(got, []string{"early"}) {
			t.Errorf("after three hours: %v", got)
		}
		for _, r := range s.Requests() {
			if r.Code >= 400 || r.Verb == "list" {
				t.Errorf("no request was to fail, and none to list: %s", r)
			}
		}
	})
}

// A process that ends before its caches are filled leaves nothing behind: the bubble would
// report what goes on.
func TestRunEndsBeforeCachesAreFilled(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		s.Forbid(kubetest.Always, kubetest.Match{Resource: "configmaps"})
		ctx, stop := context.WithCancel(ctx)
		cached := kube.NewCache[*corev1.ConfigMap](c, kube.Watch{}, nil)
		cached.OnError(func(error) {})
		done := make(chan error, 1)
		loop := kube.NewController("loop", 1, func(context.Context, kube.Key) (kube.Result, error) { return kube.Result{}, nil })
		go func() { done <- kube.Run(ctx, nil, cached, loop) }()
		time.Sleep(time.Minute)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A delayed watch reports late, a cut one resumes at its last version, and one
// whose version is gone starts from the beginning.
func TestWatchFaults(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		maps := kube.StoreOf[*corev1.ConfigMap](c)
		cached := kube.NewCache[*corev1.ConfigMap](c, kube.Watch{}, nil)
		var reported []string
		cached.OnChange(func(old, changed *corev1.ConfigMap) {
			if changed != nil {
				reported = append(reported, changed.Name)
			} else {
				reported = append(reported, "-"+old.Name)
			}
		})
		go func() { _ = kube.Run(ctx, nil, cached) }()
		synctest.Wait()

		release := s.HoldWatches(configMaps)
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("a", nil)))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(reported) > 0 {
			t.Errorf("%v was delivered while the watch was held", reported)
		}
		release()
		synctest.Wait()
		if !slices.Equal(reported, []string{"a"}) {
			t.Errorf("want a, got %v", reported)
		}

		s.CutWatches(configMaps)
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("b", nil)))
		time.Sleep(time.Minute)
		synctest.Wait()
		release = s.HoldWatches(configMaps)
		s.CutWatches(configMaps)
		if err := maps.Delete(ctx, kube.Key{Namespace: "default", Name: "a"}, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		s.ForgetHistory()
		release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(reported, []string{"a", "b", "-a"}) {
			t.Errorf("want a, b, -a, got %v", reported)
		}
	})
}

// Leases are taken, kept for an hour and given back.
func TestLeaseUnderFakeTime(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		leader := ""
		lead := func(ctx context.Context, id string) {
			lease := kube.Lease{Namespace: "default", Name: "lease", Identity: id, Watched: true}
			go func() {
				_ = kube.Lead(ctx, c, lease, func(ctx context.Context) error {
					leader = id
					<-ctx.Done()
					return nil
				})
			}()
		}
		first, stop := context.WithCancel(ctx)
		lead(first, "one")
		time.Sleep(time.Second)
		synctest.Wait()
		lead(ctx, "two")
		time.Sleep(time.Hour)
		synctest.Wait()
		if leader != "one" {
			t.Fatalf("want one to lead, got %q", leader)
		}
		stop()
		synctest.Wait()
		if leader != "two" {
			t.Errorf("the lease was given back and watched: want two to lead at once, got %q", leader)
		}
	})
}
