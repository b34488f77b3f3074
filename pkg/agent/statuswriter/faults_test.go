package statuswriter

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
)

// reports reports a deployment that is ready whenever it has changed, or the writer asks
// for it, until ctx ends.
func reports(ctx context.Context, c *kube.Client, cache *kube.Cache[*fleet.BundleDeployment], changed <-chan struct{}) error {
	w := New(time.Now)
	var unreported []fleet.Condition
	for {
		delay := time.Hour
		if bd, there := cache.Get(kube.Key{Namespace: "default", Name: "web"}); there {
			session := Session{ID: "one", Statuses: kube.StoreOf[*fleet.BundleDeployment](c), Cache: cache}
			after, err := w.Write(ctx, session, Report{Name: bd.Name, Object: bd, Unreported: &unreported, Found: ready()})
			if err != nil {
				after = time.Second
			}
			if after > 0 {
				delay = after
			}
		}
		t := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}

// Whatever goes wrong, the manager knows in the end how a deployment is, also after it has
// asked for another version.
func TestReportFaults(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner {
			changed := make(chan struct{}, 1)
			cache := kube.NewCache[*fleet.BundleDeployment](c, kube.Watch{Namespace: "default"}, nil)
			cache.OnChange(func(_, _ *fleet.BundleDeployment) {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			return []kube.Runner{cache, kube.RunnerFunc(func(ctx context.Context) error { return reports(ctx, c, cache, changed) })}
		},
		Given: func(w *looptest.World) {
			looptest.Make(w, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		},
		When: func(w *looptest.World) {
			looptest.Change(w, "default", "web", func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = ready().ID })
		},
		Then: func(w *looptest.World) {
			bd := looptest.Read[*fleet.BundleDeployment](w, "default", "web")
			if !bd.Status.Ready || bd.Status.AppliedDeploymentID != ready().ID {
				w.Errorf("the manager has %+v", bd.Status)
			}
		},
	})
}
