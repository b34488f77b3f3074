package controllers

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// oneOfEach shows an object of each kind.
type oneOfEach struct{}

func (oneOfEach) Describe(chan<- *prometheus.Desc) {}

func (oneOfEach) Collect(ch chan<- prometheus.Metric) {
	s := &samples{ch: ch, now: time.Now()}
	held := []fleet.Condition{
		{Type: fleet.ConditionDeletionHeld, Status: corev1.ConditionTrue},
		{Type: fleet.ConditionWaiting, Status: corev1.ConditionTrue, LastTransitionTime: "2026-01-01T00:00:00Z"},
	}
	s.bundle(&fleet.Bundle{Status: fleet.BundleStatus{Conditions: held}})
	s.clusters([]*fleet.Cluster{{}})
	s.deployment(&fleet.BundleDeployment{})
	s.cluster(&fleet.Cluster{})
	s.group(&fleet.ClusterGroup{})
	s.repo(&fleet.GitRepo{})
	s.helmOp(&fleet.HelmOp{})
}

var (
	quoted = regexp.MustCompile("`([a-z_]+)`")
	family = regexp.MustCompile(`\bfleet_[a-z_]+\b`)
)

// A GitRepo that cannot be read has its metric at 1.
func TestUnreadableMetric(t *testing.T) {
	r := &fleet.GitRepo{}
	for want, status := range map[float64]corev1.ConditionStatus{0: corev1.ConditionTrue, 1: corev1.ConditionFalse} {
		r.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionGitPolling, Status: status}}
		registry := prometheus.NewRegistry()
		registry.MustRegister(oneRepo{r})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if got := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "fleet_gitrepo_unreadable" && got != want {
				t.Errorf("GitPolling %s: %v, want %v", status, got, want)
			}
		}
	}
}

// oneRepo shows one GitRepo.
type oneRepo struct{ repo *fleet.GitRepo }

func (oneRepo) Describe(chan<- *prometheus.Desc) {}

func (o oneRepo) Collect(ch chan<- prometheus.Metric) { (&samples{ch: ch}).repo(o.repo) }

// countedByGitJob returns the types of the families that count polls and readings.
func countedByGitJob() map[string]string {
	kinds := map[string]string{"total": "counter", "gauge": "gauge", "seconds": "histogram"}
	descs := make(chan *prometheus.Desc, 20)
	gitrepo.NewMetrics().Describe(descs)
	close(descs)
	out := map[string]string{}
	for d := range descs {
		name := family.FindString(d.String())
		out[name] = kinds[name[strings.LastIndex(name, "_")+1:]]
	}
	return out
}

// Of many Clusters only those that are not Ready have series of their own, unless all are
// asked for.
func TestSeriesAreBounded(t *testing.T) {
	clusters := func(ready, offline int) []*fleet.Cluster {
		var list []*fleet.Cluster
		for i := range ready + offline {
			c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: strconv.Itoa(i)}}
			if i >= ready {
				c.Status.Display.State = fleet.Offline
			}
			list = append(list, c)
		}
		return list
	}
	for name, c := range map[string]struct {
		all      bool
		clusters []*fleet.Cluster
		want     int
	}{
		"Few":         {clusters: clusters(maxObjects, 0), want: maxObjects},
		"Many":        {clusters: clusters(4900, 100), want: 100},
		"ManyOffline": {clusters: clusters(0, 5000), want: maxObjects},
		"All":         {all: true, clusters: clusters(4900, 100), want: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&stateCollector{all: c.all}).shown(c.clusters)
			if len(got) != c.want {
				t.Errorf("%d of %d clusters have series, want %d", len(got), len(c.clusters), c.want)
			}
		})
	}
}

// docs/metrics.md lists each family that the manager serves, with its type and
// its labels.
func TestMetricsInDocs(t *testing.T) {
	m := NewMetrics()
	m.Loops(kube.NewController("bundle", 1, nil))
	m.seconds.WithLabelValues("bundle", "ok").Observe(1)
	m.requests.WithLabelValues("GET", "200").Inc()
	m.registry.MustRegister(oneOfEach{})
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		served[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + strings.Join(labels, ",")
	}
	for name, kind := range countedByGitJob() {
		served[name] = kind + " name,namespace"
	}
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`fleet_") {
			continue
		}
		labels := map[string]bool{}
		for _, found := range quoted.FindAllStringSubmatch(cells[3], -1) {
			labels[found[1]] = true
		}
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			listed[found[1]] = strings.TrimSpace(cells[2]) + " " + strings.Join(slices.Sorted(maps.Keys(labels)), ",")
		}
	}
	if diff := cmp.Diff(served, listed); diff != "" {
		t.Errorf("families\n-served +docs/metrics.md\n%s", diff)
	}
	for _, name := range family.FindAllString(string(page), -1) {
		if base := strings.TrimSuffix(name, "_count"); served[name] == "" && served[base] == "" && name != "fleet_gitrepo" {
			t.Errorf("docs/metrics.md asks for %s, which is not served", name)
		}
	}
	for _, state := range fleet.States {
		if !strings.Contains(string(page), "`"+string(state)+"`") {
			t.Errorf("docs/metrics.md does not name the state %s", state)
		}
	}
}
