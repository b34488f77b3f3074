package controllers

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Metrics are the metrics of this process for Prometheus. A nil Metrics shows
// nothing.
type Metrics struct {
	registry *prometheus.Registry
	seconds  *prometheus.HistogramVec
}

// NewMetrics makes the families that are counted where they happen.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_reconcile_seconds", Help: "Duration of one turn of a loop, by its result.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}, []string{"loop", "result"}),
	}
	m.registry.MustRegister(m.seconds)
	return m
}

// Gatherer returns what a metrics endpoint serves.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Loops measures loops, which must not run yet.
func (m *Metrics) Loops(loops ...*kube.Controller) {
	if m == nil {
		return
	}
	for _, l := range loops {
		l.OnDone(func(result string, took time.Duration) {
			m.seconds.WithLabelValues(l.Name(), result).Observe(took.Seconds())
		})
	}
}

// Watch shows the states that the controllers of Bundles know, until the function that it
// returns is called.
func (m *Metrics) Watch(c *bundle.Controllers) (stop func()) {
	if m == nil {
		return func() {}
	}
	states := &stateCollector{bundles: c}
	m.registry.MustRegister(states)
	return func() { m.registry.Unregister(states) }
}
