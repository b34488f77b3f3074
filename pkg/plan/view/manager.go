package view

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
}

// missedRenewals is how many times its duration a lease may be old before its
// holder counts as gone.
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
	m.LastSign = moment(lease.Spec.RenewTime.Time)
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
		m.Since = moment(lease.Spec.AcquireTime.Time)
	}
	return m
}

// Gone tells whether the manager has led before and does not now.
func (m Manager) Gone() bool { return m.LastSign != nil && m.Leader == "" }

// Text says in one line who the manager is.
func (m Manager) Text(now time.Time) string {
	text := "manager"
	if m.Version != "" {
		text += " " + m.Version
	}
	switch {
	case m.Gone():
		return text + " does not run, last sign of life " + Ago(*m.LastSign, now) + " ago"
	case m.Since != nil:
		return text + ", leader for " + Ago(*m.Since, now)
	case text == "manager":
		return ""
	}
	return text
}

// attention is the row for a manager that is gone, or nil.
func (m Manager) attention() *Attention {
	if !m.Gone() {
		return nil
	}
	return &Attention{
		State: fleet.Offline, Kind: "Manager", Name: fleet.ConfigMapController, Reason: fleet.ReasonOffline,
		Since: m.LastSign, Message: "no sign of life; what is deployed goes on running, nothing new is rolled out",
	}
}
