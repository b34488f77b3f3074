package controllers

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Metrics are the metrics of this process for Prometheus. A nil Metrics shows
// nothing.
type Metrics struct {
	registry *prometheus.Registry
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec
	queues   *queueCollector
	// AllObjects serves the families of each Cluster and BundleDeployment, however many
	// there are.
	AllObjects bool
}

// NewMetrics makes the families that are counted where they happen.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_reconcile_seconds", Help: "Duration of one turn of a loop, by its result.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}, []string{"loop", "result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_api_requests_total", Help: "Requests to the API server; code error: no answer.",
		}, []string{"method", "code"}),
		queues: &queueCollector{loops: map[string]*kube.Controller{}},
	}
	m.registry.MustRegister(m.seconds, m.requests, m.queues)
	return m
}

// Gatherer returns what a metrics endpoint serves.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Loops measures loops, which must not run yet.
func (m *Metrics) Loops(loops ...*kube.Controller) {
	if m == nil {
		return
	}
	m.queues.add(loops)
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
	return m.Serve(&stateCollector{bundles: c, all: m.AllObjects})
}

// Serve shows the families of a collector until the function that it returns is called.
func (m *Metrics) Serve(c prometheus.Collector) (stop func()) {
	if m == nil {
		return func() {}
	}
	m.registry.MustRegister(c)
	return func() { m.registry.Unregister(c) }
}

// CountRequests returns a copy of a connection whose requests are counted.
func (m *Metrics) CountRequests(cfg *rest.Config) *rest.Config {
	return kube.CountRequests(cfg, func(method, code string) { m.requests.WithLabelValues(method, code).Inc() })
}

var queueDesc = prometheus.NewDesc("fleet_queue_length", "Keys that wait for a worker of a loop.", []string{"loop"}, nil)

// A queueCollector shows how many keys wait in the queues of loops.
type queueCollector struct {
	mu    sync.Mutex
	loops map[string]*kube.Controller
}

func (q *queueCollector) add(loops []*kube.Controller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range loops {
		q.loops[l.Name()] = l
	}
}

// Describe sends the family.
func (q *queueCollector) Describe(ch chan<- *prometheus.Desc) { ch <- queueDesc }

// Collect sends the length of each queue.
func (q *queueCollector) Collect(ch chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, l := range q.loops {
		ch <- prometheus.MustNewConstMetric(queueDesc, prometheus.GaugeValue, float64(l.Len()), name)
	}
}
