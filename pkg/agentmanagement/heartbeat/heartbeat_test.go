package heartbeat

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// reported are the Clusters that were to be written, and the loop that said so.
type reported struct {
	mu   sync.Mutex
	loop *Loop
	keys []string
}

func (r *reported) report(key kube.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.keys, key.Name) {
		r.keys = append(r.keys, key.Name)
	}
}

// Every Cluster whose agent does not have the interval is reported, and no other one. A
// setting is what all get; without one it depends on how many there are, and the loop
// keeps what the agents have where that is good enough.
func TestInterval(t *testing.T) {
	for name, c := range map[string]struct {
		setting  time.Duration
		clusters int
		have     time.Duration // of the first Cluster
		want     time.Duration
	}{
		"Setting":        {setting: 3 * time.Minute, clusters: 2, want: 3 * time.Minute},
		"SettingIsThere": {setting: 3 * time.Minute, clusters: 2, have: 3 * time.Minute, want: 3 * time.Minute},
		"Few":            {clusters: 2, want: heartbeat.Choose(2, 0)},
		"OneStepLonger":  {clusters: 2, have: 75 * time.Second, want: 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := &reported{}
			looptest.Undisturbed(t, looptest.Loop{
				Start: managertest.Start(func(p managertest.Ports) []kube.Runner {
					got.loop, got.keys = New(c.setting, p.Caches, p.Log, got.report), nil
					return got.loop.Runnables()
				}),
				Given: func(w *looptest.World) {
					w.Server.MakeNamespace("ws")
					for i := range c.clusters {
						o := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: fmt.Sprintf("site-%d", i)}}
						if i == 0 {
							o = heartbeat.Report(o, c.have)
						}
						looptest.Make(w, o)
					}
				},
				Then: func(w *looptest.World) {
					if mark := got.loop.Mark(&fleet.Cluster{}); mark.Annotations[fleet.AnnotationCheckInInterval] != heartbeat.FormatInterval(c.want) {
						w.Errorf("want an interval of %s, got %v", c.want, mark.Annotations)
					}
					want := c.clusters
					if c.have == c.want {
						want--
					}
					if len(got.keys) != want {
						w.Errorf("want %d Clusters reported, got %d", want, len(got.keys))
					}
				},
			})
		})
	}
}
