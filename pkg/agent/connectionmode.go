package agent

import (
	"sync"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// connectionMode is how the agent stays connected with its manager: how often it checks
// in, or at which times it connects. It may change while the agent runs.
type connectionMode struct {
	fixed time.Duration       // between two check-ins, by the configuration; 0: as the manager says
	given *heartbeat.Schedule // by the configuration; nil: always connected

	mu       sync.Mutex
	ordered  time.Duration       // by the manager; 0: nothing
	schedule *heartbeat.Schedule // the one in effect
	changed  chan struct{}       // closed with the next change of schedule
}

func newConnectionMode(cfg Config) *connectionMode {
	return &connectionMode{fixed: cfg.CheckinInterval, given: cfg.Poll, schedule: cfg.Poll, changed: make(chan struct{})}
}

// current returns the schedule of connections, nil for an agent that is always
// connected, and a channel that is closed when the schedule changes.
func (m *connectionMode) current() (*heartbeat.Schedule, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.schedule, m.changed
}

// polls reports whether the agent connects only by a schedule.
func (m *connectionMode) polls() bool {
	s, _ := m.current()
	return s != nil
}

// next returns the time of the next check-in after now. It depends on the agent's
// identity, so that agents do not check in at the same moment.
func (m *connectionMode) next(identity string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.schedule != nil {
		return m.schedule.TimesOf(identity)(now)
	}
	interval := heartbeat.Usual
	switch {
	case m.fixed > 0:
		interval = m.fixed
	case m.ordered > 0:
		interval = m.ordered
	}
	return heartbeat.Every(interval, identity)(now)
}

// checkInTimes returns the function next for one identity.
func (m *connectionMode) checkInTimes(identity string) func(now time.Time) time.Time {
	return func(now time.Time) time.Time { return m.next(identity, now) }
}

// setInterval sets the check-in interval that the manager asks for; 0: it asks for
// none. It reports whether the interval in effect has changed.
func (m *connectionMode) setInterval(interval time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := interval != m.ordered && m.fixed == 0
	m.ordered = interval
	return changes
}

// setSchedule sets the schedule of connections; nil: the schedule of the configuration.
// It reports whether the schedule in effect has changed.
func (m *connectionMode) setSchedule(c *fleet.ClusterCheckIn, now time.Time) (bool, error) {
	want := m.given
	if c != nil {
		var err error
		if want, err = heartbeat.Read(c, time.LoadLocation, now); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if want.Equal(m.schedule) {
		return false, nil
	}
	m.schedule = want
	close(m.changed)
	m.changed = make(chan struct{})
	return true, nil
}

// String describes the mode in effect.
func (m *connectionMode) String() string {
	if s, _ := m.current(); s != nil {
		return "connects by the schedule " + s.String()
	}
	return "is always connected"
}
