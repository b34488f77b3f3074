package gitrepo

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// series returns the values of counters and gauges, and the counts of histograms, each of
// one GitRepo.
func series(w *looptest.World, m *Metrics) map[string]float64 {
	w.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	w.Must(err)
	got := map[string]float64{}
	for _, f := range families {
		if n := len(f.GetMetric()); n != 1 {
			w.Errorf("%s has %d series, want 1", f.GetName(), n)
		}
		s := f.GetMetric()[0]
		if labels := fmt.Sprint(s.GetLabel()); labels != `[name:"name" value:"repo" name:"namespace" value:"team"]` &&
			labels != `[name:"name"  value:"repo" name:"namespace"  value:"team"]` {
			w.Errorf("%s has labels %s", f.GetName(), labels)
		}
		got[f.GetName()] = s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
	}
	return got
}

// Polls and readings are counted, and the series of a GitRepo end with it.
func TestMetrics(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: func(w *looptest.World) {
			g.metrics = NewMetrics()
			g.given("a", made)(w)
		},
		When: func(w *looptest.World) {
			w.Pass(20 * time.Second)
			got := series(w, g.metrics)
			if got["fleet_gitjobs_created_success_total"] != 1 || got["fleet_gitjob_duration_seconds"] != 1 ||
				got["fleet_gitrepo_fetch_latest_commit_success_total"] < 2 ||
				got["fleet_gitrepo_fetch_latest_commit_duration_seconds"] != got["fleet_gitrepo_fetch_latest_commit_success_total"] {
				w.Errorf("a commit was read: %v", got)
			}
			if _, ok := got["fleet_gitjob_duration_seconds_gauge"]; !ok {
				w.Errorf("the duration of the last reading is not shown: %v", got)
			}
			g.set(func() { g.broken = reconcile.TerminalError(git.ReasonTooLarge, errors.New("too large")) })
			g.push("main", "b")
			w.Pass(3 * time.Minute)
			g.set(func() { g.asked = reconcile.RequeueError(git.ReasonRemoteFailing, 0, errors.New("busy")) })
			w.Pass(3 * time.Minute)
			got = series(w, g.metrics)
			if got["fleet_gitjobs_created_failure_total"] != 1 || got["fleet_gitrepo_fetch_latest_commit_failure_total"] < 1 {
				w.Errorf("reading and polling failed: %v", got)
			}
			if _, ok := got["fleet_gitjob_duration_seconds_gauge"]; ok {
				w.Errorf("the duration of an old reading is shown: %v", got)
			}
			looptest.Remove[*fleet.GitRepo](w, ws, "repo")
			removeBundle(w, "repo-a")
			w.Pass(time.Minute)
		},
		Then: func(w *looptest.World) {
			if diff := cmp.Diff(map[string]float64{}, series(w, g.metrics)); diff != "" {
				w.Errorf("series of a deleted GitRepo\n-want +got\n%s", diff)
			}
		},
	})
}
