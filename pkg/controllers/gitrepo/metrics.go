package gitrepo

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// lastReadingShown is for how long the duration of the last reading of a GitRepo is shown
// as a gauge, as rancher/fleet shows that of its Jobs.
const lastReadingShown = 2 * time.Minute

// Metrics counts the polls and readings of each GitRepo, with the names that rancher/fleet
// gives them. A reading counts as one of its Jobs. The series of a GitRepo end when the
// GitRepo is deleted. A nil Metrics counts nothing. It is safe for concurrent use.
type Metrics struct {
	read, readFailed, polled, pollFailed *prometheus.CounterVec
	readSeconds, pollSeconds             *prometheus.HistogramVec
	lastSeconds                          *prometheus.Desc
	now                                  func() time.Time

	mu   sync.Mutex
	last map[kube.Key]lastReading
}

// lastReading is when the last reading of a GitRepo ended, and how long it took.
type lastReading struct {
	ended time.Time
	took  time.Duration
}

// NewMetrics makes the families. A registry has to be given the result.
func NewMetrics() *Metrics {
	labels := []string{"name", "namespace"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, buckets ...float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &Metrics{
		read:        counter("fleet_gitjobs_created_success_total", "Readings of a commit that ended without an error."),
		readFailed:  counter("fleet_gitjobs_created_failure_total", "Readings of a commit that failed."),
		polled:      counter("fleet_gitrepo_fetch_latest_commit_success_total", "Requests for the newest commit that the remote answered."),
		pollFailed:  counter("fleet_gitrepo_fetch_latest_commit_failure_total", "Requests for the newest commit that failed."),
		readSeconds: seconds("fleet_gitjob_duration_seconds", "Duration of readings of a commit.", .1, .5, 1, 2, 5, 10, 30, 60, 300),
		pollSeconds: seconds("fleet_gitrepo_fetch_latest_commit_duration_seconds", "Duration of requests for the newest commit.", .05, .1, .5, 1, 2, 5, 10, 30),
		lastSeconds: prometheus.NewDesc("fleet_gitjob_duration_seconds_gauge", "Duration of the last reading, for two minutes after its end.", labels, nil),
		now:         time.Now, last: map[kube.Key]lastReading{},
	}
}

// recordReading counts the reading of a commit.
func (m *Metrics) recordReading(repo kube.Key, err error, took time.Duration) {
	if m == nil {
		return
	}
	count(m.read, m.readFailed, repo, err)
	m.readSeconds.WithLabelValues(repo.Name, repo.Namespace).Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[repo] = lastReading{ended: m.now(), took: took}
}

// recordPoll counts a request to the remote of a GitRepo.
func (m *Metrics) recordPoll(repo kube.Key, err error, took time.Duration) {
	if m == nil {
		return
	}
	count(m.polled, m.pollFailed, repo, err)
	m.pollSeconds.WithLabelValues(repo.Name, repo.Namespace).Observe(took.Seconds())
}

func count(succeeded, failed *prometheus.CounterVec, repo kube.Key, err error) {
	if err != nil {
		failed.WithLabelValues(repo.Name, repo.Namespace).Inc()
		return
	}
	succeeded.WithLabelValues(repo.Name, repo.Namespace).Inc()
}

// forget ends the series of a GitRepo.
func (m *Metrics) forget(repo kube.Key) {
	if m == nil {
		return
	}
	for _, v := range m.vectors() {
		v.DeleteLabelValues(repo.Name, repo.Namespace)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, repo)
}

// A vector is a family with one series, or one set of them, for each GitRepo.
type vector interface {
	prometheus.Collector
	DeleteLabelValues(...string) bool
}

func (m *Metrics) vectors() []vector {
	return []vector{m.read, m.readFailed, m.polled, m.pollFailed, m.readSeconds, m.pollSeconds}
}

// Describe sends the families.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
	ch <- m.lastSeconds
}

// Collect sends the series.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for repo, l := range m.last {
		if m.now().Sub(l.ended) >= lastReadingShown {
			delete(m.last, repo)
			continue
		}
		ch <- prometheus.MustNewConstMetric(m.lastSeconds, prometheus.GaugeValue, l.took.Seconds(), repo.Name, repo.Namespace)
	}
}
