package agentmanagement

import (
	"context"
	"sync/atomic"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/rhythm"
)

// rhythmSettle is for how long clusters may come and go until it is looked anew
// how often their agents check in.
const rhythmSettle = 5 * time.Second

// rhythmKey is the only key of the loop.
var rhythmKey = kube.Key{Name: "check-in"}

// rhythmLoop decides how often agents check in. What it decides stands in an
// annotation of each Cluster, written by the loop for Clusters together with the
// manager's mark; agents read it in the answer to a check-in, and need no restart.
type rhythmLoop struct {
	*House
	loop     *kube.Loop
	interval atomic.Int64 // a time.Duration; 0: not decided yet
	tell     func(kube.Key)
}

// newRhythmLoop makes the loop; tell is told of each Cluster that has to be written.
func newRhythmLoop(h *House, tell func(kube.Key)) *rhythmLoop {
	l := &rhythmLoop{House: h, tell: tell}
	l.loop = kube.NewLoop("rhythm", 1, l.Reconcile)
	h.view.clusters.OnChange(func(old, c *fleet.Cluster) {
		if old == nil || c == nil || rhythm.Polls(old) != rhythm.Polls(c) {
			l.loop.AddAfter(rhythmKey, rhythmSettle)
		}
	})
	l.loop.Add(rhythmKey)
	return l
}

// mark is a Cluster with what its agent is to be told, as far as that is decided.
func (l *rhythmLoop) mark(c *fleet.Cluster) *fleet.Cluster {
	return rhythm.Tell(c, time.Duration(l.interval.Load()))
}

// Reconcile decides anew, and sees to it that all are told.
func (l *rhythmLoop) Reconcile(context.Context, kube.Key) (kube.Next, error) {
	clusters := l.view.clusters.List("")
	was := time.Duration(l.interval.Load())
	if was == 0 {
		was = rhythm.Told(clusters)
	}
	interval := l.cfg.Settings.AgentCheckinInterval
	if interval == 0 {
		interval = rhythm.Choose(rhythm.Connected(clusters), was)
	}
	if l.interval.Swap(int64(interval)) != int64(interval) && interval != was {
		l.log.WithField("reason", "clusters that check in, or the setting agentCheckinInterval").
			Info("agents check in every " + rhythm.FormatInterval(interval))
	}
	for _, c := range clusters {
		if rhythm.Tell(c, interval) != c {
			l.tell(kube.KeyOf(c))
		}
	}
	return kube.Done, nil
}
