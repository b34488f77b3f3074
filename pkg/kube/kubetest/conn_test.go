package kubetest_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// The server is also reached over a line: a cut connection takes it down, a probe brings
// it up, and caches of patient clients go on.
func TestLineUnderFakeTime(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, other *kube.Client) {
		line, err := kube.NewConn(s.REST(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer line.Close()
		c, err := kube.Connect(kube.Config{REST: s.REST(), UserAgent: "test/v0", FieldManager: "test", Line: line})
		if err != nil {
			t.Fatal(err)
		}
		cached := kube.NewCache[*corev1.ConfigMap](c.Patient(), kube.Watch{Namespace: "default"}, nil)
		go func() { _ = kube.Run(ctx, nil, cached) }()
		synctest.Wait()
		s.CutAfter(1, kubetest.Match{Verb: "create", Name: "cut"})
		maps := kube.StoreOf[*corev1.ConfigMap](c)
		if _, err := maps.Create(ctx, configMap("cut", nil)); !kube.IsAway(err) || line.Down() == nil {
			t.Errorf("want the line down, got %v, %v", err, line.Down())
		}
		synctest.Wait()
		s.CutWatches(configMaps)
		synctest.Wait()
		must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](other).Create(ctx, configMap("meanwhile", nil)))
		time.Sleep(time.Hour)
		if got := names(cached); !slices.Equal(got, []string{"cut"}) {
			t.Errorf("a patient cache sends no request while the line is down, got %v", got)
		}
		must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](c.Probing()).Get(ctx, kube.Key{Namespace: "default", Name: "cut"}))
		time.Sleep(time.Minute)
		if got := names(cached); len(got) != 2 || line.Down() != nil {
			t.Errorf("want both and the line up, got %v, %v", got, line.Down())
		}
	})
}
