package imagescan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	// defaultInterval is how often a registry is asked if the ImageScan does not say it.
	defaultInterval = 15 * time.Minute
	// minInterval is how often a registry is asked at most.
	minInterval = 10 * time.Second
	// firstDelay is when a registry that cannot be reached is asked again for the first
	// time; after each further failure it is twice as long, up to maxDelay.
	firstDelay, maxDelay = 15 * time.Second, 15 * time.Minute
)

// Interval returns how often the registry is asked: at least every ten seconds, 15 minutes
// where the spec has none.
func Interval(spec *fleet.ImageScanSpec) time.Duration {
	if spec.Interval.Duration <= 0 {
		return defaultInterval
	}
	return max(spec.Interval.Duration, minInterval)
}

// Due returns when the registry is asked next: at once if it was not asked for this spec.
func Due(s *fleet.ImageScan) time.Time {
	c := condition.Find(s.Status.Conditions, fleet.ConditionImageScanned)
	if s.Status.LastScanTime.IsZero() || s.Status.ObservedGeneration != s.Generation || c == nil || c.Status != corev1.ConditionTrue {
		return time.Time{}
	}
	return s.Status.LastScanTime.Add(Interval(&s.Spec))
}

// RetryDelay returns when a registry is asked again after a number of failures in a row.
// A registry that has answered is asked after the interval: the answer changes with its
// content, or with a Secret, which is watched.
func RetryDelay(err error, spec *fleet.ImageScanSpec, failures int) time.Duration {
	if reconcile.IsTerminal(err) {
		return Interval(spec)
	}
	return reconcile.Backoff(firstDelay, maxDelay, failures)
}

// Found is what a scan has found.
type Found struct {
	Image  Image
	Listed bool   // the registry has listed the tags
	Tag    string // the newest; empty if there is none
	Digest string // of the index or manifest that the tag names
	Err    error  // why there is no tag
}

// Status returns the status of an ImageScan after a scan. What an earlier scan has found
// stays after a failure, for another spec not.
func Status(s *fleet.ImageScan, f Found, now time.Time) fleet.ImageScanStatus {
	out := *s.Status.DeepCopy()
	if f.Image != (Image{}) && out.CanonicalImageName != f.Image.Name() {
		out.LatestImage, out.LatestTag, out.LatestDigest = "", "", ""
		out.CanonicalImageName = f.Image.Name()
	}
	if f.Listed {
		out.LastScanTime = metav1.NewTime(now)
	}
	scanned := fleet.Condition{Status: corev1.ConditionTrue}
	if f.Err != nil {
		scanned = fleet.Condition{Status: corev1.ConditionFalse, Reason: reconcile.ReasonOf(f.Err), Message: f.Err.Error()}
	} else {
		out.LatestTag, out.LatestDigest = f.Tag, f.Digest
		out.LatestImage = f.Image.Name() + ":" + f.Tag
	}
	set := func(kind string, c fleet.Condition) {
		c.Type, c.ObservedGeneration, c.Message = kind, s.Generation, condition.Message(c.Message)
		out.Conditions = condition.Set(out.Conditions, c, now)
	}
	stalled, reconciling := progress(f.Err)
	set(fleet.ConditionImageScanned, scanned)
	set(fleet.ConditionStalled, stalled)
	set(fleet.ConditionReconciling, reconciling)
	out.Conditions = condition.Remove(out.Conditions, fleet.ConditionAccepted) // of a manager that does not scan
	out.ObservedGeneration = s.Generation
	return out
}

// progress returns Stalled, which is True for an error that needs a user, and
// Reconciling, which is True for one that may pass.
func progress(err error) (stalled, reconciling fleet.Condition) {
	stalled, reconciling = fleet.Condition{Status: corev1.ConditionFalse}, fleet.Condition{Status: corev1.ConditionFalse}
	switch {
	case err == nil:
	case reconcile.IsTerminal(err):
		stalled = fleet.Condition{Status: corev1.ConditionTrue, Reason: reconcile.ReasonOf(err), Message: err.Error()}
	default:
		reconciling = fleet.Condition{Status: corev1.ConditionTrue, Reason: reconcile.ReasonOf(err), Message: err.Error()}
	}
	return stalled, reconciling
}
