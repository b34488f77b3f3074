// Package heartbeat has the loop that decides how often agents check in.
package heartbeat

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// settle is for how long clusters may come and go until it is looked again how
// often their agents check in.
const settle = 5 * time.Second

// theKey is the only key of the loop.
var theKey = kube.Key{Name: "check-in"}

// A Loop decides how often agents check in. The decision is an annotation of
// each Cluster, which the loop for Clusters writes together with the manager's mark;
// agents read it in the answer to a check-in, and need no restart.
type Loop struct {
	log      *logrus.Entry
	caches   *cache.Shared
	setting  time.Duration // 0: the loop chooses
	loop     *kube.Controller
	interval atomic.Int64 // a time.Duration; 0: not decided yet
	report   func(kube.Key)
}

// New makes the loop. setting is the check-in interval of agents; 0: the loop chooses
// it. It calls report with each Cluster that must be written.
func New(setting time.Duration, caches *cache.Shared, log *logrus.Entry, report func(kube.Key)) *Loop {
	l := &Loop{log: log, caches: caches, setting: setting, report: report}
	l.loop = kube.NewController("rhythm", 1, l.Reconcile)
	caches.Clusters.OnChange(func(old, c *fleet.Cluster) {
		if old == nil || c == nil || heartbeat.Polls(old) != heartbeat.Polls(c) {
			l.loop.AddAfter(theKey, settle)
		}
	})
	l.loop.Add(theKey)
	return l
}

// Runnables returns what is to run, for kube.Run.
func (l *Loop) Runnables() []kube.Runner { return []kube.Runner{l.loop} }

// Mark returns a Cluster with the interval for its agent, if that is decided.
func (l *Loop) Mark(c *fleet.Cluster) *fleet.Cluster {
	return heartbeat.Report(c, time.Duration(l.interval.Load()))
}

// Reconcile decides the interval, and reports the Clusters whose agents need it.
func (l *Loop) Reconcile(context.Context, kube.Key) (kube.Result, error) {
	clusters := l.caches.Clusters.List("")
	was := time.Duration(l.interval.Load())
	if was == 0 {
		was = heartbeat.Reported(clusters)
	}
	interval := l.setting
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
