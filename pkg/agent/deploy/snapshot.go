package deploy

import (
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/restoreguard"
	"github.com/fleetworkspace/fleet/pkg/agent/statuswriter"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// snapshot is all that one run of the loop knows about a deployment.
type snapshot struct {
	name      string
	session   *Session                // nil while the agent never reached its manager
	bd        *fleet.BundleDeployment // nil if the manager is away or lacks it; shared, read-only
	answers   uint64                  // of the manager to check-ins, before mark was read
	mark      registration.Mark       // of the manager
	judged    bool                    // the guard had judged the manager's list before the other fields were read
	rec       store.Record
	hasRecord bool // rec is in the store

	spec     fleet.BundleDeploymentSpec // of bd, else of rec
	labels   map[string]string
	windows  changeWindows
	override string // why the deployment is open outside of the windows; empty: it is not
	prefetch bool   // its version waits for a window, and nothing is to be corrected before
	wanted   release.Wanted
	observed release.Observed

	failure    *report.Failure
	frozen     bool          // the deployment may not use its namespace: nothing of it may be changed
	correction string        // why drift could not be corrected
	contested  string        // which client reverts corrections
	after      time.Duration // when to run again; 0: after an event
	conflicts  *conflicts    // of this run
}

// request returns the input of the restore guard: what the manager asks for.
func (s *snapshot) request() restoreguard.Request {
	q := restoreguard.Request{
		Name: s.name, Object: s.bd, Order: s.wanted.Order, Record: &s.rec, Known: s.hasRecord, Mark: s.mark,
		Answers: s.answers, Agent: isAgentBundle(s), Judged: s.judged, Missing: s.isMissing(),
	}
	if s.session != nil {
		q.CheckIn = s.session.CheckIn
	}
	return q
}

// managerList returns the manager's list of deployments; nil until the agent has
// reached its manager.
func (s *Session) managerList() restoreguard.List {
	if s == nil {
		return nil
	}
	return s.Deployments
}

// statuses returns the session for the status writer.
func (s *Session) statuses() statuswriter.Session {
	return statuswriter.Session{ID: s, Statuses: s.Statuses, Cache: s.Deployments, Away: s.Away}
}

// list returns the manager's deployments.
func (s *Session) list() []*fleet.BundleDeployment { return s.Deployments.List("") }

// dropForeign drops what was observed of a release of another owner: the agent neither
// reports nor corrects it.
func (s *snapshot) dropForeign() {
	if !s.wanted.Owns(s.observed) {
		s.observed = release.Observed{ID: s.observed.ID, State: release.Absent}
	}
}

// live returns the release for package drift.
func (s *snapshot) live() drift.Release {
	rel := drift.Release{Name: s.name, Spec: s.spec, Observed: &s.observed, Failed: s.failure != nil}
	if s.bd != nil {
		rel.Reported = s.bd.Status.ModifiedStatus
	}
	return rel
}

// report returns the findings of a run for the status writer.
func (s *snapshot) report(f report.Found) statuswriter.Report {
	return statuswriter.Report{
		Name: s.name, Object: s.bd, Generation: s.rec.Generation, Spec: s.spec, Unreported: &s.rec.Unreported, Found: f,
	}
}

// fail sets the failure that the status reports.
func (s *snapshot) fail(f report.Failure) { s.failure = &f }

// requeueAfter asks for another run after a delay. The shortest delay applies.
func (s *snapshot) requeueAfter(after time.Duration) {
	if after > 0 && (s.after == 0 || after < s.after) {
		s.after = after
	}
}

// updateRecord copies what the manager asks for into the record.
func (s *snapshot) updateRecord() {
	if s.bd == nil {
		return
	}
	s.rec.Key = store.Key{Manager: s.mark.ID, Name: s.name}
	past := s.bd.UID == s.rec.UID && s.bd.Generation < s.rec.Generation && s.rec.Spec.DeploymentID == s.bd.Spec.DeploymentID
	if s.rec.UID != s.bd.UID || s.rec.Generation != s.bd.Generation {
		s.rec.Version = s.bd.ResourceVersion
	}
	if !past { // else the newest generation is stored, to recognize old orders later
		s.rec.Generation = s.bd.Generation
	}
	s.rec.Epoch, s.rec.UID = s.mark.Epoch, s.bd.UID
	s.rec.HeldSince, s.rec.HeldFor, s.rec.Held, s.rec.Ordered = nil, 0, "", ""
	s.rec.Labels = ownLabels(s.bd.Labels)
	s.rec.Last = withdrawal.LastStateOf(s.bd, s.session.list, s.rec.Last)
	account := s.rights().ServiceAccount
	s.rec.Spec = *s.bd.Spec.DeepCopy()
	s.rec.Windows, s.rec.OpenUntil = s.windows.windows, s.windows.openUntil
	s.rec.Spec.StagedOptions, s.rec.Spec.StagedDeploymentID = fleet.BundleDeploymentOptions{}, ""
	if s.rec.Release != s.wanted.ID && s.rec.Release != (release.ID{}) {
		s.rec.Former = append(s.rec.Former, s.rec.Release)
		if account != "" {
			s.rec.Accounts = withAccount(s.rec.Accounts, s.rec.Release, account)
		}
	}
	if from := s.wanted.Predecessor.Namespace; from != "" && s.wanted.Agent && !s.hasRecord {
		// The agent before made itself there; its own status may say nothing of it.
		if before := (release.ID{Namespace: from, Name: s.wanted.ID.Name}); !slices.Contains(s.rec.Former, before) {
			s.rec.Former = append(s.rec.Former, before)
		}
	}
	s.rec.Release = s.wanted.ID
}

// logFields returns what each log entry about a deployment has.
func (s *snapshot) logFields() logrus.Fields {
	out := logrus.Fields{"deployment": s.name}
	if user := s.labels[fleet.LabelCreatedByUserID]; user != "" {
		out["userID"] = user
	}
	return out
}

// ownLabels returns the labels that decisions and logs need.
func ownLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, k := range []string{
		fleet.LabelRepoName, fleet.LabelHelmOpName, fleet.LabelBundleName, fleet.LabelBundleNamespace, fleet.LabelCommit,
		fleet.LabelAdminNamespace, fleet.LabelCreatedByUserID,
	} {
		if v, ok := labels[k]; ok {
			out[k] = v
		}
	}
	return out
}
