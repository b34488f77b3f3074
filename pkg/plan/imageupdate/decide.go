package imageupdate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// DefaultInterval is the time between two commits where imageScanInterval is not set.
const DefaultInterval = 15 * time.Minute

// Reasons of condition ImageSynced.
const (
	ReasonSettingsMissing = "CommitSettingsMissing"
	ReasonPinned          = "PinnedRevision"
	ReasonNoCredentials   = "NoWriteCredentials"
	ReasonScanFailed      = "ImageScanFailed"
)

// NoCredentials is the message for a GitRepo without a Secret for its repository.
const NoCredentials = "requires git secret for write access"

// Facts are all that the decision about the commits of a GitRepo depends on.
type Facts struct {
	Repo *fleet.GitRepo
	// Scans are those whose gitrepoName is the GitRepo.
	Scans []*fleet.ImageScan
	// Source is the id of the remote with its credentials, and Writable reports that there
	// are credentials.
	Source   string
	Writable bool
	// Refused and Suspended are those of gitrepo.Facts.
	Refused   error
	Suspended string
	// Last is the last attempt that failed, by this process.
	Last Attempt
}

// An Attempt is a commit that failed. It is not repeated with the same inputs before a time.
type Attempt struct {
	Inputs string
	Until  time.Time
}

// An Action is what to do about the commits of a GitRepo now.
type Action string

// The actions.
const (
	// Idle: there is nothing to commit, and no condition.
	Idle Action = "idle"
	// Wait: nothing yet; after Decision.After it may be due.
	Wait Action = "wait"
	// Block: something prevents a commit; Reason and Message say what.
	Block Action = "block"
	// Commit: read the head of the branch, and commit what differs.
	Commit Action = "commit"
)

// A Decision is an Action with its reason.
type Decision struct {
	Action          Action
	Reason, Message string
	After           time.Duration // when to decide again; 0: after a change
	Values          Values
	Notes           []string
	// Inputs identifies the facts that the commit is made from, for Attempt.
	Inputs string
}

// Decide returns what to do. A commit is due when imageScanInterval has passed since the
// last one, and when a scan has found something. Suspended scans neither count nor block.
func Decide(f Facts, now time.Time) Decision {
	active := slices.DeleteFunc(slices.Clone(f.Scans), func(s *fleet.ImageScan) bool { return !isActive(s) })
	if f.Repo.DeletionTimestamp != nil || len(active) == 0 {
		return Decision{Action: Idle}
	}
	if reason, message := blocked(f, active); reason != "" {
		return Decision{Action: Block, Reason: reason, Message: message}
	}
	values, notes := ValuesOf(active)
	d := Decision{Action: Commit, Values: values, Notes: notes, Inputs: inputs(f, values)}
	due := f.Repo.Status.LastSyncedImageScanTime.Add(Interval(f.Repo.Spec)).Sub(now)
	if d.Inputs == f.Last.Inputs {
		due = max(due, f.Last.Until.Sub(now))
	}
	switch {
	case len(values) == 0:
		d.Action, d.Message = Wait, "no image scan has found an image yet"
	case due > 0:
		d.Action, d.After = Wait, due
	}
	return d
}

// blocked returns what prevents commits until something changes; nothing if nothing does.
func blocked(f Facts, active []*fleet.ImageScan) (reason, message string) {
	spec := f.Repo.Spec
	switch {
	case spec.ImageScanCommit == nil:
		return ReasonSettingsMissing, fmt.Sprintf("spec.imageScanCommit is missing for %s, and nothing is committed", count(len(active), "image scan"))
	case spec.Revision != "":
		return ReasonPinned, fmt.Sprintf("spec.revision %q pins the repository: commits go to a branch only", condition.Cut(spec.Revision, 100))
	case f.Suspended != "":
		return fleet.ReasonSuspended, f.Suspended
	case f.Refused != nil:
		return reconcile.ReasonOf(f.Refused), f.Refused.Error()
	case !f.Writable:
		return ReasonNoCredentials, NoCredentials + ": set spec.clientSecretName"
	}
	slices.SortFunc(active, func(a, b *fleet.ImageScan) int { return strings.Compare(a.Name, b.Name) })
	var failed []*fleet.ImageScan
	for _, s := range active {
		if condition.IsFalse(s.Status.Conditions, fleet.ConditionImageScanned) {
			failed = append(failed, s)
		}
	}
	if len(failed) == 0 {
		return "", ""
	}
	message = fmt.Sprintf("image scan %q of %s has failed: %s", failed[0].Name, condition.Cut(failed[0].Spec.Image, 200),
		condition.Cut(condition.Find(failed[0].Status.Conditions, fleet.ConditionImageScanned).Message, 500))
	if more := len(failed) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return ReasonScanFailed, message
}

// Interval returns the time between two commits.
func Interval(spec fleet.GitRepoSpec) time.Duration {
	if i := spec.ImageScanInterval; i != nil && i.Duration > 0 {
		return max(i.Duration, gitrepo.MinInterval)
	}
	return DefaultInterval
}

// inputs is a digest of what a commit is made from.
func inputs(f Facts, values Values) string {
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err) // a map of texts always has a JSON
	}
	sum := sha256.Sum256(fmt.Appendf(raw, "\x00%s\x00%d", f.Source, f.Repo.Generation))
	return hex.EncodeToString(sum[:])
}

// Bounds of the time until a failed commit is tried again.
const retryBase = 5 * time.Second

// RetryAfter returns when a commit is tried again that has failed so many times in a row
// with the same inputs: after a growing delay if the failure may pass, and otherwise when
// the next one would be due. A change is tried at once.
func RetryAfter(spec fleet.GitRepoSpec, err error, failures int) time.Duration {
	if reconcile.IsTerminal(err) {
		return max(Interval(spec), time.Minute)
	}
	return gitrepo.Delay(retryBase, failures, 0)
}

// An Outcome is what an attempt to commit has ended with.
type Outcome struct {
	Branch  string
	Commit  string // that was pushed; empty if nothing differed
	Rewrite Rewrite
	Notes   []string
	Err     error
}

// Status returns the status of a GitRepo after an attempt: condition ImageSynced, and
// lastSyncedImageScanTime after a success. All else in it is as it was.
func Status(repo *fleet.GitRepo, o Outcome, now time.Time) fleet.GitRepoStatus {
	s := *repo.Status.DeepCopy()
	c := fleet.Condition{Status: corev1.ConditionTrue, Message: o.message()}
	if o.Err != nil {
		c = fleet.Condition{Status: corev1.ConditionFalse, Reason: reconcile.ReasonOf(o.Err), Message: o.Err.Error()}
	} else {
		s.LastSyncedImageScanTime.Time = now
	}
	set(&s, repo, c, now)
	return s
}

// DecidedStatus returns the status of a GitRepo after a decision that commits nothing.
func DecidedStatus(repo *fleet.GitRepo, d Decision, now time.Time) fleet.GitRepoStatus {
	s := *repo.Status.DeepCopy()
	c := condition.Find(s.Conditions, fleet.ConditionImageSynced)
	switch {
	case d.Action == Idle:
		s.Conditions = condition.Remove(s.Conditions, fleet.ConditionImageSynced)
	case d.Action == Block:
		set(&s, repo, fleet.Condition{Status: corev1.ConditionFalse, Reason: d.Reason, Message: d.Message}, now)
	case d.Action == Wait && c != nil && c.Status == corev1.ConditionFalse && wasBlocked(c.Reason):
		set(&s, repo, fleet.Condition{Status: corev1.ConditionUnknown, Reason: fleet.ReasonProgressing, Message: cmp.Or(d.Message, waits)}, now)
	}
	return s
}

// waits is the message of a commit that nothing prevents any more and that is not due yet.
const waits = "the next commit waits for spec.imageScanInterval"

// wasBlocked reports whether a reason is one of Block, which no longer applies.
func wasBlocked(reason string) bool {
	return slices.Contains([]string{ReasonSettingsMissing, ReasonPinned, ReasonNoCredentials, ReasonScanFailed, fleet.ReasonSuspended, fleet.EventPolicyViolation, fleet.EventFailedValidatingSecret}, reason)
}

func set(s *fleet.GitRepoStatus, repo *fleet.GitRepo, c fleet.Condition, now time.Time) {
	c.Type, c.ObservedGeneration, c.Message = fleet.ConditionImageSynced, repo.Generation, condition.Message(c.Message)
	s.Conditions = condition.Set(s.Conditions, c, now)
}

// message says what was committed, what was left, and what is odd.
func (o Outcome) message() string {
	text := fmt.Sprintf("branch %q holds the newest images", o.Branch)
	if o.Commit != "" {
		text = fmt.Sprintf("commit %.7s of branch %q: %s", o.Commit, o.Branch, o.Summary())
	}
	if n := len(o.Rewrite.Left); n > 0 {
		shown := o.Rewrite.Left[:min(n, 3)]
		text += fmt.Sprintf("; %s left unchanged: %s", count(n, "file"), strings.Join(shown, ", "))
		if n > len(shown) {
			text += fmt.Sprintf(" (and %d more)", n-len(shown))
		}
	}
	if n := len(o.Notes); n > 0 {
		text += "; " + strings.Join(o.Notes[:min(n, 3)], "; ")
	}
	return text
}

// Summary says how much a commit changes.
func (o Outcome) Summary() string {
	return fmt.Sprintf("%s in %s", count(len(o.Rewrite.Changes), "value"), count(len(o.Rewrite.Files), "file"))
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
