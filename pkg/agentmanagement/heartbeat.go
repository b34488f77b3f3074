package agentmanagement

import (
	"context"
	"sync/atomic"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// heartbeatSettle is for how long clusters may come and go until it is looked again how
// often their agents check in.
const heartbeatSettle = 5 * time.Second

// heartbeatKey is the only key of the loop.
var heartbeatKey = kube.Key{Name: "check-in"}

// heartbeatLoop decides how often agents check in. The decision is an annotation of
// each Cluster, which the loop for Clusters writes together with the manager's mark;
// agents read it in the answer to a check-in, and need no restart.
type heartbeatLoop struct {
	*Manager
	loop     *kube.Controller
	interval atomic.Int64 // a time.Duration; 0: not decided yet
	report   func(kube.Key)
}

// newHeartbeatLoop makes the loop; report is called with each Cluster that has to be
// written.
func newHeartbeatLoop(h *Manager, report func(kube.Key)) *heartbeatLoop {
	l := &heartbeatLoop{Manager: h, report: report}
	l.loop = kube.NewController("rhythm", 1, l.Reconcile)
	h.view.Clusters.OnChange(func(old, c *fleet.Cluster) {
		if old == nil || c == nil || heartbeat.Polls(old) != heartbeat.Polls(c) {
			l.loop.AddAfter(heartbeatKey, heartbeatSettle)
		}
	})
	l.loop.Add(heartbeatKey)
	return l
}

// mark returns a Cluster with what its agent will get, as far as that is decided.
func (l *heartbeatLoop) mark(c *fleet.Cluster) *fleet.Cluster {
	return heartbeat.Report(c, time.Duration(l.interval.Load()))
}

// Reconcile decides again, and makes sure that every agent gets the result.
func (l *heartbeatLoop) Reconcile(context.Context, kube.Key) (kube.Result, error) {
	clusters := l.view.Clusters.List("")
	was := time.Duration(l.interval.Load())
	if was == 0 {
		was = heartbeat.Reported(clusters)
	}
	interval := l.cfg.Settings.AgentCheckinInterval
	if interval == 0 {
		interval = heartbeat.Choose(heartbeat.Connected(clusters), was)
	}
	if l.interval.Swap(int64(interval)) != int64(interval) && interval != was {
		l.log.WithField("reason", "clusters that check in, or the setting agentCheckinInterval").
			Info("agents check in every " + heartbeat.FormatInterval(interval))
	}
	for _, c := range clusters {
		if heartbeat.Report(c, interval) != c {
			l.report(kube.KeyOf(c))
		}
	}
	return kube.Done, nil
}
