package agent

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Servers in the metric of requests.
const (
	serverOwn     = "own"
	serverManager = "manager"
)

// Metrics is what an agent shows to Prometheus. No label has values of a user's
// making: the number of series does not grow with what is deployed. A nil
// Metrics shows nothing.
type Metrics struct {
	registry *prometheus.Registry
	turns    *prometheus.HistogramVec
	actions  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec
	checkins *prometheus.CounterVec
	drift    prometheus.Counter

	states atomic.Pointer[func() map[fleet.BundleState]int]
	heard  atomic.Pointer[time.Time] // when the manager answered last
	now    func() time.Time
}

// NewMetrics makes the families that an agent has.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), now: time.Now,
		turns: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_reconcile_seconds", Help: "Duration of one turn of a loop, by its result.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
		}, []string{"loop", "result"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_agent_actions_total", Help: "Steps with releases: taken, tried, or decided against (result held).",
		}, []string{"verb", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_agent_action_seconds", Help: "Duration of steps that were taken or tried.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300},
		}, []string{"verb"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_agent_requests_total", Help: "Requests to the agent's own API server and to the manager's; code error: no answer.",
		}, []string{"server", "method", "code"}),
		checkins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_agent_checkins_total", Help: "Check-ins at the manager; result refused: it answers, but not to this credential.",
		}, []string{"result"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_agent_drift_found_total", Help: "Objects that were found to differ from what was deployed; actions of verb correct put them back.",
		}),
	}
	m.registry.MustRegister(m.turns, m.actions, m.seconds, m.requests, m.checkins, m.drift, stateCollector{m})
	return m
}

// Gatherer returns what a metrics endpoint serves.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// setStates sets the function that returns the states of deployments when metrics are
// scraped.
func (m *Metrics) setStates(states func() map[fleet.BundleState]int) {
	if m != nil {
		m.states.Store(&states)
	}
}

// recordReconcile records the result and duration of a reconciliation of a deployment.
func (m *Metrics) recordReconcile(result string, took time.Duration) {
	if m != nil {
		m.turns.WithLabelValues("deploy", result).Observe(took.Seconds())
	}
}

func (m *Metrics) recordAct(act deploy.Act) {
	if m == nil {
		return
	}
	m.actions.WithLabelValues(string(act.Verb), string(act.Result)).Inc()
	if act.Result != deploy.Held && act.Result != deploy.Waiting {
		m.seconds.WithLabelValues(string(act.Verb)).Observe(act.Took.Seconds())
	}
}

func (m *Metrics) recordDrift(objects int) {
	if m != nil {
		m.drift.Add(float64(objects))
	}
}

// recordCheckIn records the result of a check-in: "ok", "refused" or "error".
func (m *Metrics) recordCheckIn(result string) {
	if m == nil {
		return
	}
	m.checkins.WithLabelValues(result).Inc()
	if result == "ok" {
		now := m.now()
		m.heard.Store(&now)
	}
}

// countRequests returns a connection whose requests are counted under a name of the
// server.
func (m *Metrics) countRequests(cfg *rest.Config, server string) *rest.Config {
	if m == nil {
		return cfg
	}
	return kube.CountRequests(cfg, func(method, code string) { m.requests.WithLabelValues(server, method, code).Inc() })
}

// A stateCollector is the Prometheus collector of values that are read at each scrape.
type stateCollector struct{ metrics *Metrics }

var (
	releasesDesc = prometheus.NewDesc("fleet_agent_releases", "Deployments by the state that they were in when they were looked at last.", []string{"state"}, nil)
	contactDesc  = prometheus.NewDesc("fleet_agent_manager_contact_seconds", "Time since the manager answered a check-in; not there before the first one.", nil, nil)
)

// Describe sends the metric families that Collect may send.
func (sc stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- releasesDesc
	ch <- contactDesc
}

// Collect collects the states of deployments, and when the manager last answered.
func (sc stateCollector) Collect(ch chan<- prometheus.Metric) {
	if states := sc.metrics.states.Load(); states != nil {
		counts := (*states)()
		for _, s := range fleet.States {
			ch <- prometheus.MustNewConstMetric(releasesDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
		}
	}
	if heard := sc.metrics.heard.Load(); heard != nil {
		ch <- prometheus.MustNewConstMetric(contactDesc, prometheus.GaugeValue, sc.metrics.now().Sub(*heard).Seconds())
	}
}
