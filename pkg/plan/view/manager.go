package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/crash"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// A Manager is what can be seen of the manager from outside.
type Manager struct {
	// Version is the version that its configuration belongs to.
	Version string `json:"version,omitempty"`
	// Implementation tells implementations of the same API apart: "fleet", or
	// empty where it does not say.
	Implementation string `json:"implementation,omitempty"`
	// Leader is who does the work at present; empty: nobody does.
	Leader string `json:"leader,omitempty"`
	// Since is since when the leader leads.
	Since *time.Time `json:"since,omitempty"`
	// LastSign is the last sign of life.
	LastSign *time.Time `json:"lastSign,omitempty"`
	// Hidden reports that the user may not see whether the manager runs.
	Hidden bool `json:"hidden,omitempty"`
	// Crashes are those of its processes that die again and again.
	Crashes []crash.Loop `json:"crashes,omitempty"`
	// Shard is the id of the shard that it works on; empty for the default manager.
	Shard string `json:"-"`
}

// missedRenewals is how many times its duration a lease may be old before its holder is
// regarded as gone.
const missedRenewals = 2

// ReadManager puts together what configuration, installation and lease of a
// manager say. Each may be nil: it is not there, or may not be read.
func ReadManager(config, installation *corev1.ConfigMap, lease *coordinationv1.Lease, now time.Time) Manager {
	var m Manager
	if config != nil {
		m.Version = config.Annotations[fleet.AnnotationVersion]
	}
	if installation != nil {
		m.Implementation = version.Implementation // only ours has one
	}
	if lease == nil || lease.Spec.RenewTime == nil {
		return m
	}
	m.LastSign = utcPointer(lease.Spec.RenewTime.Time)
	m = m.WithCrashes(fleet.ConfigMapController, lease, now)
	duration := 30 * time.Second
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		duration = time.Duration(*s) * time.Second
	}
	holder := lease.Spec.HolderIdentity
	if holder == nil || *holder == "" || now.Sub(*m.LastSign) > missedRenewals*duration {
		return m
	}
	m.Leader = *holder
	if lease.Spec.AcquireTime != nil {
		m.Since = utcPointer(lease.Spec.AcquireTime.Time)
	}
	return m
}

// WithCrashes returns the manager with what the lease of one of its processes says about
// crashes of that. The lease may be nil.
func (m Manager) WithCrashes(process string, lease *coordinationv1.Lease, now time.Time) Manager {
	if lease != nil {
		if loop, ok := crash.LoopOf(process, lease.Annotations[fleet.AnnotationCrashes], now); ok {
			m.Crashes = append(slices.Clone(m.Crashes), loop)
		}
	}
	return m
}

// AsOf says how old all status is that the manager writes, if it may be out of date; else
// it is empty.
func (m Manager) AsOf(now time.Time) string {
	switch {
	case m.IsGone() && m.LastSign != nil:
		return "as of " + Ago(*m.LastSign, now) + " ago"
	case len(m.Crashes) > 0:
		return "may be out of date"
	}
	return ""
}

// Warning returns one line that goes before everything that is said about the fleet: the
// manager does not renew its lease, or crashes again and again, or the user may not see
// whether it runs. Else it is empty.
func (m Manager) Warning(now time.Time) string {
	parts := m.CrashTexts(now)
	if m.IsGone() && m.LastSign != nil {
		parts = append(parts, "the manager has not been heard since "+m.LastSign.UTC().Format(time.RFC3339)+" ("+Ago(*m.LastSign, now)+" ago)")
	}
	if len(parts) == 0 && m.Hidden {
		return "whether the manager runs is not known: what follows may be old"
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "; what follows " + map[bool]string{true: "is as of then", false: "may be out of date"}[m.IsGone()]
}

// CrashTexts says of each process that dies again and again how often and when.
func (m Manager) CrashTexts(now time.Time) []string {
	var texts []string
	for _, c := range m.Crashes {
		texts = append(texts, fmt.Sprintf("%s has died %d times in %s, the last time %s ago", c.Process, c.Count, Ago(c.Since, now), Ago(c.Last, now)))
	}
	return texts
}

// IsGone reports whether the manager has led before and does not now. That of a shard is
// gone also where it has never led.
func (m Manager) IsGone() bool {
	return m.Leader == "" && (m.LastSign != nil || m.Shard != "" && !m.Hidden)
}

// Text says in one line who the manager is.
func (m Manager) Text(now time.Time) string {
	text := "manager"
	if m.Version != "" {
		text += " " + m.Version
	}
	switch {
	case m.IsGone() && m.LastSign != nil:
		return text + " does not run, last sign of life " + Ago(*m.LastSign, now) + " ago"
	case m.Since != nil:
		return text + ", leader for " + Ago(*m.Since, now)
	case text == "manager":
		return ""
	}
	return text
}

// ReasonCrashes is the reason of a process that dies again and again.
const ReasonCrashes = "Crashes"

// attention is the rows for a manager that is gone, or dies again and again.
func (m Manager) attention() []Attention {
	var rows []Attention
	if m.IsGone() {
		rows = append(rows, Attention{
			State: fleet.Offline, Kind: "Manager", Name: fleet.ConfigMapController, Reason: fleet.ReasonOffline,
			Since: m.LastSign, Message: "no sign of life; what is deployed goes on running, nothing new is rolled out",
		})
	}
	for _, c := range m.Crashes {
		rows = append(rows, Attention{
			State: fleet.NotReady, Kind: "Manager", Name: c.Process, Reason: ReasonCrashes, Since: utcPointer(c.Since),
			Message: fmt.Sprintf("has died %d times; kubectl logs --previous says why", c.Count),
		})
	}
	return rows
}
