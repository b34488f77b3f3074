package gitrepo

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Words of status.gitJobStatus.
const (
	JobInProgress = "InProgress"
	JobCurrent    = "Current"
	JobFailed     = "Failed"
)

// trouble says why a GitRepo cannot be read, or not wholly.
type trouble struct {
	reason, message string
	passing         bool // it may pass by itself
	reading         bool // it is about reading, not about what comes before
}

// Status returns what the status of a GitRepo says: commits, generations, what the last
// reading has written, webhookCommit if it was given up, gitJobStatus, and the conditions
// Accepted, GitPolling, Stalled and Reconciling. All else in it is as it was, but that Ready
// is lowered together with a commit that changed something, and that ImageSynced goes where
// image scanning is switched off. Times move only with what they belong to, so that the same
// facts give the same status.
func Status(f Facts, now time.Time) fleet.GitRepoStatus {
	s := *f.Repo.Status.DeepCopy()
	if f.ScansOff { // what the last commit came to says nothing any more
		s.Conditions = condition.Remove(s.Conditions, fleet.ConditionImageSynced)
	}
	w := writer{list: &s.Conditions, generation: f.Repo.Generation, now: now}
	w.set(fleet.ConditionAccepted, acceptedCondition(f))
	if f.Head != nil {
		before := condition.IsTrue(s.Conditions, fleet.ConditionGitPolling)
		if f.Head.Err == nil && (s.PollingCommit != f.Head.Commit || !before) || f.Head.Err != nil && before {
			s.LastPollingTime = metav1.Time{Time: now}
		}
		if f.Head.Err == nil {
			s.PollingCommit = f.Head.Commit
		}
		w.set(fleet.ConditionGitPolling, conditionOfError(f.Head.Err))
	}
	if r := f.Read; r.Known && r.Err == nil {
		// A manager that was killed between the Bundles and the status has written what
		// this reading finds unchanged.
		changed := r.Changed || !r.Follows && condition.IsTrue(s.Conditions, fleet.ConditionReady)
		if !r.IsOf(s) && changed {
			// The manager writes Ready. Its last value is about what was read before and
			// must not be taken for this commit.
			w.set(fleet.ConditionReady, falseCondition(fleet.ReasonProgressing, fmt.Sprintf("commit %.7s is being rolled out", r.Commit)))
		}
		s.Commit, s.ObservedGeneration, s.UpdateGeneration = r.Commit, r.Generation, r.Force
		s.Reading = reading.Next(s.Reading, fleet.Reading{
			Commit: r.Commit, Generation: r.Generation, Complete: r.Message == "" && !r.Retry, Paths: r.Paths,
		}, r.Commits, r.Gone)
	}
	s.WebhookCommit = giveUp(s, f, now)
	t := findTrouble(f)
	if !f.Read.Known && s.GitJobStatus == JobFailed && (t == nil || t.passing) {
		return s // how the last reading ended still holds; it is about to be tried again
	}
	s.GitJobStatus = job(s, f, t)
	w.setProgress(t, withBudget(f.Repo, warningOf(f.Read, s)))
	return s
}

// warningOf returns what is odd about the commit. Without a reading, it is what another
// process has found and the status shows.
func warningOf(r Read, s fleet.GitRepoStatus) Notice {
	if shown := shownWarning(s); !r.Known && shown.Reason != withdrawal.ReasonInvalidBudget {
		return shown
	}
	return r.Warning
}

// shownWarning returns the warning that a status shows; it has no message if there is none.
func shownWarning(s fleet.GitRepoStatus) Notice {
	c := condition.Find(s.Conditions, fleet.ConditionStalled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Message == "" {
		return Notice{}
	}
	return Notice{Warning: true, Reason: c.Reason, Message: c.Message}
}

// withBudget puts before a warning that the deletion budget of a GitRepo cannot be read.
func withBudget(repo *fleet.GitRepo, odd Notice) Notice {
	_, err := withdrawal.FirstBudget(withdrawal.BundleBudget, repo.Annotations[fleet.AnnotationDeletionBudget])
	if err == nil {
		return odd
	}
	text := fmt.Sprintf("%v; it is not used: that of the namespace counts, and where it has none, %s", err, withdrawal.DefaultBudgets())
	if odd.Message != "" {
		text += "; " + odd.Message
	}
	return Notice{Warning: true, Reason: withdrawal.ReasonInvalidBudget, Message: text}
}

// acceptedCondition is about the spec alone.
func acceptedCondition(f Facts) fleet.Condition {
	switch {
	case f.Refused != nil:
		return conditionOfError(f.Refused)
	case f.Missing != "":
		return falseCondition(fleet.ReasonNotImplemented, f.Missing)
	}
	return trueCondition()
}

// findTrouble is the first trouble: what a person must change goes before what may
// pass.
func findTrouble(f Facts) *trouble {
	of := func(err error, reading bool) *trouble {
		// A local fault is tried again, and a person has to end it nevertheless.
		return &trouble{reconcile.ReasonOf(err), err.Error(), !reconcile.IsTerminal(err) && reconcile.ReasonOf(err) != reconcile.ReasonLocal, reading}
	}
	head := error(nil)
	if f.Head != nil {
		head = f.Head.Err
	}
	switch {
	case f.Refused != nil:
		return of(f.Refused, false)
	case reconcile.IsTerminal(head):
		return of(head, false)
	case reconcile.IsTerminal(f.Read.Err):
		return of(f.Read.Err, true)
	case f.Read.Known && f.Read.Err == nil && f.Read.Message != "":
		return &trouble{f.Read.Reason, f.Read.Message, f.Read.Passing, true}
	case head != nil:
		return of(head, false)
	case f.Read.Err != nil:
		return of(f.Read.Err, true)
	case f.Reading:
		return &trouble{fleet.ReasonProgressing, fmt.Sprintf("commit %.7s is being read", f.Head.Commit), true, true}
	case f.Suspended != "" && f.Repo.DeletionTimestamp != nil:
		return &trouble{fleet.ReasonSuspended, f.Suspended, true, false}
	case f.Suspended != "" && f.Head != nil && changesIn(f, f.Repo.Status) != "":
		return &trouble{fleet.ReasonSuspended, f.Suspended, true, false}
	}
	return nil
}

// job returns the value of gitJobStatus. Problems before reading change it only as long as
// nothing was ever read.
func job(s fleet.GitRepoStatus, f Facts, t *trouble) string {
	switch {
	case t == nil && (f.Read.Known || s.GitJobStatus == JobCurrent):
		return JobCurrent
	case t == nil:
		return JobInProgress
	case !t.reading && s.Commit != "" && s.GitJobStatus != "":
		return s.GitJobStatus
	case t.passing:
		return JobInProgress
	}
	return JobFailed
}

// writer sets conditions of one generation.
type writer struct {
	list       *[]fleet.Condition
	generation int64
	now        time.Time
}

func (w writer) set(kind string, c fleet.Condition) {
	c.Type, c.ObservedGeneration, c.Message = kind, w.generation, condition.Message(c.Message)
	*w.list = condition.Set(*w.list, c, w.now)
}

// setProgress sets Stalled and Reconciling, of which at most one is True. Where
// there is no trouble, Stalled shows the warnings.
func (w writer) setProgress(t *trouble, odd Notice) {
	stalled, reconciling := falseCondition("", ""), falseCondition("", "")
	switch {
	case t == nil && odd.Message != "":
		stalled = falseCondition(odd.Reason, odd.Message)
	case t == nil:
	case t.passing:
		reconciling = fleet.Condition{Status: corev1.ConditionTrue, Reason: t.reason, Message: t.message}
		stalled.Reason = fleet.ReasonProgressing
	default:
		stalled = fleet.Condition{Status: corev1.ConditionTrue, Reason: t.reason, Message: t.message}
		reconciling.Reason = t.reason
	}
	w.set(fleet.ConditionStalled, stalled)
	w.set(fleet.ConditionReconciling, reconciling)
}

func trueCondition() fleet.Condition {
	return fleet.Condition{Status: corev1.ConditionTrue}
}

func falseCondition(reason, message string) fleet.Condition {
	return fleet.Condition{Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

func conditionOfError(err error) fleet.Condition {
	if err == nil {
		return trueCondition()
	}
	return falseCondition(reconcile.ReasonOf(err), err.Error())
}

// A Notice is something to report about a GitRepo, once.
type Notice struct {
	Warning bool
	Reason  string
	Message string
}

// Changes returns the notices for a change of status: one for each problem that begins or
// changes, in the words of its condition, and one for an announced commit that was given up.
// polled says whether the GitRepo is polled.
func Changes(old, changed fleet.GitRepoStatus, polled bool) []Notice {
	list := notVisible(old, changed)
	for _, kind := range []string{fleet.ConditionAccepted, fleet.ConditionGitPolling, fleet.ConditionStalled} {
		bad := corev1.ConditionFalse
		if kind == fleet.ConditionStalled {
			bad = corev1.ConditionTrue
		}
		if c := condition.Find(changed.Conditions, kind); c != nil && kind == fleet.ConditionStalled && c.Reason == withdrawal.ReasonInvalidBudget {
			bad = c.Status // a warning that no reading reports
		}
		after := condition.Turned(old.Conditions, changed.Conditions, kind, bad)
		if after == nil {
			continue
		}
		n := Notice{Warning: true, Reason: after.Reason, Message: after.Message}
		if kind == fleet.ConditionGitPolling {
			if n.Reason = fleet.EventFailedToCheckCommit; !polled {
				n.Reason = fleet.EventFailed
			}
		}
		same := func(other Notice) bool { return other.Message == n.Message }
		if len(list) == 0 || !same(list[len(list)-1]) {
			list = append(list, n)
		}
	}
	return list
}
