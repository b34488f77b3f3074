package controllers

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// oneOfEach shows an object of each kind.
type oneOfEach struct{}

func (oneOfEach) Describe(chan<- *prometheus.Desc) {}

func (oneOfEach) Collect(ch chan<- prometheus.Metric) {
	s := &samples{ch: ch}
	s.bundle(&fleet.Bundle{})
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

// docs/metrics.md lists each family that the manager serves, with its type and
// its labels.
func TestMetricsInDocs(t *testing.T) {
	m := NewMetrics()
	m.seconds.WithLabelValues("bundle", "ok").Observe(1)
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
