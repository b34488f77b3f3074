package monitor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// writesReadings reports whether a manager of this project reads a GitRepo. Its Bundles keep the
// commit that last changed them, and its polling time is that of the last new answer.
func writesReadings(r *fleet.GitRepo) bool {
	if r.Status.Reading != nil {
		return true
	}
	c := condition.Find(r.Status.Conditions, fleet.ConditionGitPolling)
	return c != nil && c.ObservedGeneration > 0
}

// gitRepo looks for the faults of a GitRepo. While the fleet is suspended, no commit is read.
func (j *judge) gitRepo(r *fleet.GitRepo) {
	j.finalizers("GitRepo", r)
	if r.DeletionTimestamp != nil || j.in.Suspended {
		return
	}
	add := func(to *[]GitRepo, issue string) {
		if issue != "" {
			entry := newGitRepo(r)
			entry.Issue = issue
			*to = append(*to, entry)
		}
	}
	add(&j.found.GitReposWithNoBundles, j.lacksBundles(r))
	add(&j.found.GitReposWithCommitMismatch, j.unreadCommit(r))
	add(&j.found.GitReposUnpolled, j.unpolled(r))
	if r.Generation != r.Status.ObservedGeneration && j.in.isSettled(r) {
		add(&j.found.GitReposWithGenerationMismatch, generationText(r.Generation, r.Status.ObservedGeneration))
	}
	j.inconsistent(r)
}

func generationText(want, have int64) string {
	return fmt.Sprintf("generation is %d, the manager has processed %d", want, have)
}

func (j *judge) lacksBundles(r *fleet.GitRepo) string {
	if r.Status.Commit == "" || len(j.ofRepo[keyOf(r)]) > 0 || !j.in.covers(Bundles, r.Namespace) || !j.in.isSettled(r) || !j.readingIsOver(r) {
		return ""
	}
	return fmt.Sprintf("commit %.7s has no bundle", r.Status.Commit)
}

// readingIsOver reports whether the manager is not about to write Bundles of a GitRepo.
func (j *judge) readingIsOver(r *fleet.GitRepo) bool {
	return r.Status.GitJobStatus != gitrepo.JobInProgress && j.in.Now.Sub(r.Status.LastPollingTime.Time) >= Grace || !writesReadings(r)
}

// unreadCommit returns why the newest commit of a GitRepo is not read; empty if it is, or may be
// about to be.
func (j *judge) unreadCommit(r *fleet.GitRepo) string {
	s := &r.Status
	polled, announced := s.LastPollingTime.Time, s.LastWebhookTime.Time
	newest, source, since := s.PollingCommit, "polling has found", polled
	if announced.After(polled) || newest == "" || r.Spec.DisablePolling {
		if newest = s.WebhookCommit; !announced.IsZero() && newest != "" {
			source, since = "a webhook has announced", announced
		}
	}
	switch {
	case newest == "" || s.Commit == newest || source == "polling has found" && (r.Spec.DisablePolling || newest != s.PollingCommit):
		return ""
	case writesReadings(r) && j.in.Now.Sub(since) < Grace:
		return ""
	case !writesReadings(r) && s.GitJobStatus == gitrepo.JobInProgress:
		return ""
	}
	return fmt.Sprintf("%s %.7s, and %s is read", source, newest, commitText(s.Commit))
}

func commitText(commit string) string {
	if commit == "" {
		return "no commit"
	}
	return fmt.Sprintf("%.7s", commit)
}

// unpolled returns why a GitRepo counts as not polled. A manager of this project writes the polling
// time only if the answer has changed; if the repository does not answer, its condition says so.
func (j *judge) unpolled(r *fleet.GitRepo) string {
	if r.Spec.DisablePolling || !j.in.isSettled(r) {
		return ""
	}
	at := r.Status.LastPollingTime.Time
	if at.IsZero() {
		return "it was never polled"
	}
	age, limit := j.in.Now.Sub(at), max(2*gitrepo.Interval(r, r.Status.PollingCommit, false), Grace)
	if !writesReadings(r) {
		if age > limit {
			return fmt.Sprintf("it was polled %s ago", age.Round(time.Second))
		}
		return ""
	}
	c := condition.Find(r.Status.Conditions, fleet.ConditionGitPolling)
	if c == nil || c.Status != corev1.ConditionFalse || age <= limit {
		return ""
	}
	return fmt.Sprintf("no answer for %s: %s", age.Round(time.Second), shown(c.Message))
}

// inconsistent reports the Bundles of a GitRepo that differ from it: in the forced sync, or because
// they are not those that the last reading has left. A manager of rancher/fleet writes the commit of
// the GitRepo on all its Bundles, and no reading.
func (j *judge) inconsistent(r *fleet.GitRepo) {
	own := j.ofRepo[keyOf(r)]
	if !j.in.covers(Bundles, r.Namespace) || !j.in.isSettled(r) || !j.readingIsOver(r) {
		return
	}
	for _, b := range own {
		if !j.in.isSettled(b) {
			return // a commit is being written
		}
	}
	ours := writesReadings(r)
	shows, known := reading.Shows(r, own)
	for _, b := range own {
		issue := ""
		switch {
		case isLeaving(b):
		case b.Spec.ForceSyncGeneration != r.Spec.ForceSyncGeneration:
			issue = fmt.Sprintf("forceSyncGeneration is %d, that of the GitRepo %d", b.Spec.ForceSyncGeneration, r.Spec.ForceSyncGeneration)
		case ours && known && !shows:
			issue = fmt.Sprintf("the Bundles of the GitRepo are not those that commit %.7s has left", r.Status.Commit)
		case !ours && b.Labels[fleet.LabelCommit] != r.Status.Commit:
			issue = fmt.Sprintf("commit is %s, that of the GitRepo %s", commitText(b.Labels[fleet.LabelCommit]), commitText(r.Status.Commit))
		default:
			continue
		}
		if issue != "" {
			entry := newBundle(j.bundles[types.NamespacedName{Namespace: b.Namespace, Name: b.Name}])
			entry.Issue = issue
			j.found.GitRepoBundleInconsistencies = append(j.found.GitRepoBundleInconsistencies, entry)
		}
	}
}
