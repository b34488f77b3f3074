package imageupdate

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scan is an ImageScan that has found an image.
func scan(name, tagName, image string) *fleet.ImageScan {
	s := &fleet.ImageScan{Spec: fleet.ImageScanSpec{TagName: tagName, Image: "x"}, Status: fleet.ImageScanStatus{LatestImage: image, LatestTag: "1"}}
	s.Name = name
	return s
}

// failed is a scan whose registry does not answer.
func failed(name string) *fleet.ImageScan {
	s := scan(name, name, "x:1")
	s.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionImageScanned, Status: corev1.ConditionFalse, Message: "no tag found"}}
	return s
}

func TestDecide(t *testing.T) {
	good := func(change func(*Facts)) Facts {
		f := Facts{
			Repo:  &fleet.GitRepo{Spec: fleet.GitRepoSpec{ImageScanCommit: &fleet.CommitSpec{}}},
			Scans: []*fleet.ImageScan{scan("a", "web", "nginx:1")}, Writable: true,
		}
		if change != nil {
			change(&f)
		}
		return f
	}
	first := Decide(good(nil), clock)
	cases := map[string]struct {
		why     string
		change  func(*Facts)
		action  Action
		reason  string
		message string
		after   time.Duration
	}{
		"First":        {action: Commit},
		"NoScan":       {change: func(f *Facts) { f.Scans = nil }, action: Idle},
		"Deleted":      {change: func(f *Facts) { f.Repo.DeletionTimestamp = &metav1.Time{Time: clock} }, action: Idle},
		"Nothing":      {change: func(f *Facts) { f.Scans[0].Status = fleet.ImageScanStatus{} }, action: Wait, message: "no image scan has found an image yet"},
		"Suspends":     {why: "a suspended scan neither counts nor blocks", change: func(f *Facts) { s := failed("b"); s.Spec.Suspend = true; f.Scans = append(f.Scans, s) }, action: Commit},
		"AllSuspended": {change: func(f *Facts) { f.Scans[0].Spec.Suspend = true }, action: Idle},
		"NotDue":       {change: func(f *Facts) { f.Repo.Status.LastSyncedImageScanTime.Time = clock.Add(-10 * time.Minute) }, action: Wait, after: 5 * time.Minute},
		"Due":          {change: func(f *Facts) { f.Repo.Status.LastSyncedImageScanTime.Time = clock.Add(-15 * time.Minute) }, action: Commit},
		"OwnInterval": {change: func(f *Facts) {
			f.Repo.Spec.ImageScanInterval = &metav1.Duration{Duration: time.Hour}
			f.Repo.Status.LastSyncedImageScanTime.Time = clock.Add(-15 * time.Minute)
		}, action: Wait, after: 45 * time.Minute},
		"FailedBefore":            {change: func(f *Facts) { f.Last = Attempt{first.Inputs, clock.Add(time.Minute)} }, action: Wait, after: time.Minute},
		"FailedBeforeAChange":     {change: func(f *Facts) { f.Last = Attempt{first.Inputs, clock.Add(time.Minute)}; f.Repo.Generation++ }, action: Commit},
		"FailedWithAnotherSecret": {change: func(f *Facts) { f.Last = Attempt{first.Inputs, clock.Add(time.Minute)}; f.Source = "new" }, action: Commit},
		"NoSettings":              {change: func(f *Facts) { f.Repo.Spec.ImageScanCommit = nil }, action: Block, reason: ReasonSettingsMissing, message: "spec.imageScanCommit is missing for 1 image scan, and nothing is committed"},
		"Pinned":                  {change: func(f *Facts) { f.Repo.Spec.Revision = "v1" }, action: Block, reason: ReasonPinned, message: `spec.revision "v1" pins the repository: commits go to a branch only`},
		"Suspended":               {change: func(f *Facts) { f.Suspended = "fleet is suspended" }, action: Block, reason: fleet.ReasonSuspended, message: "fleet is suspended"},
		"Restricted": {change: func(f *Facts) {
			f.Refused = reconcile.TerminalError(fleet.EventPolicyViolation, errors.New("a Policy"))
		}, action: Block, reason: fleet.EventPolicyViolation, message: "a Policy"},
		"Refused":    {change: func(f *Facts) { f.Refused = reconcile.TerminalError("Bad", errors.New("no secret")) }, action: Block, reason: "Bad", message: "no secret"},
		"NoSecret":   {change: func(f *Facts) { f.Writable = false }, action: Block, reason: ReasonNoCredentials, message: "requires git secret for write access: set spec.clientSecretName"},
		"ScanFailed": {change: func(f *Facts) { f.Scans = append(f.Scans, failed("c"), failed("b")) }, action: Block, reason: ReasonScanFailed, message: `image scan "b" of x has failed: no tag found (and 1 more)`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(good(c.change), clock)
			if got.Action != c.action || got.Reason != c.reason || got.Message != c.message || got.After != c.after {
				t.Errorf("%s: got %+v", c.why, got)
			}
		})
	}
}

func TestValuesOf(t *testing.T) {
	values, notes := ValuesOf([]*fleet.ImageScan{scan("b", "web", "two:2"), scan("a", "web", "one:1"), scan("c", "bad", "x:1\nevil: true"), scan("d", "", "x:1")})
	if len(values) != 1 || values["web"].Image != "two:2" {
		t.Errorf("values %v", values)
	}
	if text := strings.Join(notes, "|"); text != `image scans "a" and "b" have the tagName "web": that of "b" counts|image scan "c" is left out: "x:1\nevil: true" is no image` {
		t.Errorf("notes %s", text)
	}
}

func TestStatus(t *testing.T) {
	repo := &fleet.GitRepo{}
	repo.Generation = 3
	repo.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: corev1.ConditionTrue}}
	repo.Status.Commit = "c"
	check := func(s fleet.GitRepoStatus, status corev1.ConditionStatus, reason, message string) {
		t.Helper()
		c := condition.Find(s.Conditions, fleet.ConditionImageSynced)
		if c == nil || c.Status != status || c.Reason != reason || c.Message != message || c.ObservedGeneration != 3 {
			t.Errorf("condition %+v, want %s %s %q", c, status, reason, message)
		}
		if s.Commit != "c" || !condition.IsTrue(s.Conditions, fleet.ConditionReady) {
			t.Error("what others write must stay")
		}
	}
	pushed := Outcome{
		Branch: "main", Commit: "0123456789", Notes: []string{"a note"},
		Rewrite: Rewrite{Files: map[string][]byte{"a": nil}, Changes: make([]Change, 2), Left: []string{"b: x", "c: x", "d: x", "e: x"}},
	}
	s := Status(repo, pushed, clock)
	check(s, corev1.ConditionTrue, "", `commit 0123456 of branch "main": 2 values in 1 file; 4 files left unchanged: b: x, c: x, d: x (and 1 more); a note`)
	if !s.LastSyncedImageScanTime.Time.Equal(clock) {
		t.Error("a success has a time")
	}
	check(Status(repo, Outcome{Branch: "main"}, clock), corev1.ConditionTrue, "", `branch "main" holds the newest images`)
	s = Status(repo, Outcome{Err: reconcile.TerminalError("PushRefused", errors.New("no"))}, clock)
	check(s, corev1.ConditionFalse, "PushRefused", "no")
	if !s.LastSyncedImageScanTime.IsZero() {
		t.Error("a failure has no time")
	}
	blocked := DecidedStatus(repo, Decision{Action: Block, Reason: ReasonPinned, Message: "pinned"}, clock)
	check(blocked, corev1.ConditionFalse, ReasonPinned, "pinned")
	repo.Status = blocked
	check(DecidedStatus(repo, Decision{Action: Wait}, clock), corev1.ConditionUnknown, fleet.ReasonProgressing, waits)
	if s := DecidedStatus(repo, Decision{Action: Idle}, clock); condition.Find(s.Conditions, fleet.ConditionImageSynced) != nil {
		t.Error("without scans there is no condition")
	}
}

func TestRetryAfter(t *testing.T) {
	spec := fleet.GitRepoSpec{}
	if d := RetryAfter(spec, reconcile.TerminalError("X", errors.New("x")), 5); d != DefaultInterval {
		t.Errorf("a failure that stays: %s", d)
	}
	if d := RetryAfter(spec, errors.New("x"), 1); d != 10*time.Second {
		t.Errorf("a first failure: %s", d)
	}
	if d := RetryAfter(spec, errors.New("x"), 50); d != 40*time.Second {
		t.Errorf("many failures: %s", d)
	}
}
