package gitrepo

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// says is a status in a few lines.
func says(s fleet.GitRepoStatus) []string {
	list := []string{fmt.Sprintf("%s at %s, polled %s, generation %d, force %d", s.GitJobStatus, s.Commit, s.PollingCommit, s.ObservedGeneration, s.UpdateGeneration)}
	for _, c := range s.Conditions {
		text := fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			text += ": " + c.Message
		}
		list = append(list, text)
	}
	return list
}

// readyAt is a GitRepo whose Bundles are all Ready at a commit.
func readyAt(commit string) *fleet.GitRepo {
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	r.Status.Commit, r.Status.ObservedGeneration = commit, 1
	r.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: "True"}}
	return r
}

func TestStatus(t *testing.T) {
	missing := reconcile.TerminalError("BranchNotFound", errors.New(`branch "master" does not exist; the default branch is "main"`))
	away := reconcile.RequeueError("Unreachable", time.Second, errors.New("git host \"h\" cannot be reached: connection refused"))
	fresh := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	fine := []string{"Accepted=True ", "GitPolling=True ", "Stalled=False ", "Reconciling=False "}
	cases := map[string]struct {
		why   string
		facts Facts
		want  []string
	}{
		"FirstReading": {
			facts: Facts{Repo: fresh, Head: &Head{Commit: "c1aaaaaaaa"}, Reading: true},
			want: []string{"InProgress at , polled c1aaaaaaaa, generation 0, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=False Progressing", "Reconciling=True Progressing: commit c1aaaaa is being read"},
		},
		"Read": {
			facts: Facts{Repo: fresh, Head: &Head{Commit: "c1"}, Read: Read{Known: true, Commit: "c1", Generation: 1, Force: 4}},
			want:  append([]string{"Current at c1, polled c1, generation 1, force 4"}, fine...),
		},
		"Changed": {
			why:   "what Ready said was about the commit before: it may not stand beside the new one",
			facts: Facts{Repo: readyAt("c1"), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 1, Changed: true}},
			want: []string{"Current at c2, polled c2, generation 1, force 0", "Ready=False Progressing: commit c2 is being rolled out",
				"Accepted=True ", "GitPolling=True ", "Stalled=False ", "Reconciling=False "},
		},
		"NothingChanged": {
			why:   "a commit that touches no bundle leaves Ready alone",
			facts: Facts{Repo: readyAt("c1"), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 1, Follows: true}},
			want:  append([]string{"Current at c2, polled c2, generation 1, force 0", "Ready=True "}, fine...),
		},
		"NothingLeftToChange": {
			why:   "a manager that was killed before it wrote the status has changed the bundles",
			facts: Facts{Repo: readyAt("c1"), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 1}},
			want: []string{"Current at c2, polled c2, generation 1, force 0", "Ready=False Progressing: commit c2 is being rolled out",
				"Accepted=True ", "GitPolling=True ", "Stalled=False ", "Reconciling=False "},
		},
		"ReportedOnce": {
			why:   "the same reading, reported again, does not lower what the controller has raised since",
			facts: Facts{Repo: readyAt("c2"), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 1, Changed: true}},
			want:  append([]string{"Current at c2, polled c2, generation 1, force 0", "Ready=True "}, fine...),
		},
		"FullDisk": {
			why:   "the git host is not at fault, and a person has to make room",
			facts: Facts{Repo: fresh, Head: &Head{Commit: "c1"}, Read: Read{Known: true, Commit: "c1", Generation: 1, Err: reconcile.LocalError("full", "make room")}},
			want: []string{"Failed at , polled c1, generation 0, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=True LocalFault: keep what is downloaded: full; make room", "Reconciling=False LocalFault"},
		},
		"Broken": {
			why:   "the commit was read to its end, though not all of it is fine",
			facts: Facts{Repo: fresh, Head: &Head{Commit: "c1"}, Read: Read{Known: true, Commit: "c1", Generation: 1, Verdict: Verdict{Reason: "InvalidYAML", Message: "web/cm.yaml:7: YAML: x"}}},
			want: []string{"Failed at c1, polled c1, generation 1, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=True InvalidYAML: web/cm.yaml:7: YAML: x", "Reconciling=False InvalidYAML"},
		},
		"NoBranch": {
			facts: Facts{Repo: fresh, Head: &Head{Err: missing}},
			want: []string{"Failed at , polled , generation 0, force 0", "Accepted=True ",
				`GitPolling=False BranchNotFound: branch "master" does not exist; the default branch is "main"`,
				`Stalled=True BranchNotFound: branch "master" does not exist; the default branch is "main"`, "Reconciling=False BranchNotFound"},
		},
		"AwayFromTheStart": {
			facts: Facts{Repo: fresh, Head: &Head{Err: away}},
			want: []string{"InProgress at , polled , generation 0, force 0", "Accepted=True ",
				`GitPolling=False Unreachable: git host "h" cannot be reached: connection refused`,
				"Stalled=False Progressing", `Reconciling=True Unreachable: git host "h" cannot be reached: connection refused`},
		},
		"AwayLater": {
			why:   "what was read stays, and is current as far as anybody knows",
			facts: Facts{Repo: readRepo(nil), Head: &Head{Err: away}},
			want: []string{"Current at c1, polled c1, generation 2, force 0", "Accepted=True ",
				`GitPolling=False Unreachable: git host "h" cannot be reached: connection refused`,
				"Stalled=False Progressing", `Reconciling=True Unreachable: git host "h" cannot be reached: connection refused`},
		},
		"AwayWhileBroken": {
			why: "what needs a change goes before what passes",
			facts: Facts{Repo: readRepo(func(r *fleet.GitRepo) { r.Status.GitJobStatus = JobFailed }), Head: &Head{Err: away},
				Read: Read{Known: true, Commit: "c1", Generation: 2, Verdict: Verdict{Reason: "InvalidYAML", Message: "x"}}},
			want: []string{"Failed at c1, polled c1, generation 2, force 0", "Accepted=True ",
				`GitPolling=False Unreachable: git host "h" cannot be reached: connection refused`, "Stalled=True InvalidYAML: x", "Reconciling=False InvalidYAML"},
		},
		"FetchFailed": {
			facts: Facts{Repo: readRepo(nil), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 2, Err: errors.New("no space left")}},
			want: []string{"InProgress at c1, polled c2, generation 2, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=False Progressing", "Reconciling=True Error: no space left"},
		},
		"NothingToDeploy": {
			facts: Facts{Repo: readRepo(nil), Head: &Head{Commit: "c2"}, Read: Read{Known: true, Commit: "c2", Generation: 2, Err: reconcile.TerminalError("NothingToDeploy", errors.New("nothing"))}},
			want: []string{"Failed at c1, polled c2, generation 2, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=True NothingToDeploy: nothing", "Reconciling=False NothingToDeploy"},
		},
		"Refused": {
			facts: Facts{Repo: fresh, Refused: reconcile.TerminalError("FailedValidatingSecret", errors.New(`secret "x" does not exist (clientSecretName)`))},
			want: []string{"Failed at , polled , generation 0, force 0", `Accepted=False FailedValidatingSecret: secret "x" does not exist (clientSecretName)`,
				`Stalled=True FailedValidatingSecret: secret "x" does not exist (clientSecretName)`, "Reconciling=False FailedValidatingSecret"},
		},
		"Missing": {
			why:   "an unsupported field is reported, and stops nothing",
			facts: Facts{Repo: fresh, Head: &Head{Commit: "c1"}, Missing: "imageScanCommit is ...", Read: Read{Known: true, Commit: "c1", Generation: 1}},
			want: []string{"Current at c1, polled c1, generation 1, force 0", "Accepted=False NotImplemented: imageScanCommit is ...", "GitPolling=True ",
				"Stalled=False ", "Reconciling=False "},
		},
		"Suspended": {
			facts: Facts{Repo: readRepo(nil), Head: &Head{Commit: "c2"}, Suspended: "suspended by ana"},
			want: []string{"Current at c1, polled c2, generation 2, force 0", "Accepted=True ", "GitPolling=True ",
				"Stalled=False Progressing", "Reconciling=True Suspended: suspended by ana"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Status(c.facts, noon)
			if diff := cmp.Diff(c.want, says(got)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			c.facts.Repo = c.facts.Repo.DeepCopy()
			c.facts.Repo.Status = got
			if diff := cmp.Diff(got, Status(c.facts, noon.Add(time.Hour))); diff != "" {
				t.Errorf("the same facts later must say the same\n%s", diff)
			}
		})
	}
}

// A failure that was reported before a start stays as it was said until the
// repository was read again.
func TestStatusAfterStart(t *testing.T) {
	head := &Head{Commit: "c1"}
	broken := Read{Known: true, Commit: "c1", Generation: 2, Verdict: Verdict{Reason: "InvalidYAML", Message: "x"}}
	before := readRepo(nil)
	before.Status = Status(Facts{Repo: before, Head: head, Read: broken}, noon)
	for name, f := range map[string]Facts{
		"NotReadYet": {Repo: before, Head: head},
		"Held":       {Repo: before, Head: head, Suspended: "suspended"},
	} {
		if diff := cmp.Diff(before.Status, Status(f, noon.Add(time.Hour))); diff != "" {
			t.Errorf("%s\n%s", name, diff)
		}
	}
}

func TestPollingTime(t *testing.T) {
	away := reconcile.RequeueError("Unreachable", 0, errors.New("away"))
	repo := readRepo(nil)
	at := noon
	turn := func(h *Head) time.Time {
		at = at.Add(time.Minute)
		repo.Status = Status(Facts{Repo: repo, Head: h}, at)
		return repo.Status.LastPollingTime.Time
	}
	first := turn(&Head{Commit: "c1"})
	if got := turn(&Head{Commit: "c1"}); !got.Equal(first) {
		t.Error("a poll that finds nothing new must not move its time")
	}
	second := turn(&Head{Err: away})
	if second.Equal(first) {
		t.Error("a failure is news")
	}
	if got := turn(&Head{Err: away}); !got.Equal(second) {
		t.Error("the same failure is not")
	}
	if got := turn(&Head{Commit: "c1"}); got.Equal(second) {
		t.Error("the end of a failure is news")
	}
}

func TestChanges(t *testing.T) {
	missing := reconcile.TerminalError("BranchNotFound", errors.New("no branch"))
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	status := Status(Facts{Repo: repo, Head: &Head{Err: missing}}, noon)
	want := []Notice{{Warning: true, Reason: "FailedToCheckCommit", Message: "no branch"}}
	if diff := cmp.Diff(want, Changes(repo.Status, status, true)); diff != "" {
		t.Errorf("one failure is reported once\n%s", diff)
	}
	want[0].Reason = "Failed"
	if diff := cmp.Diff(want, Changes(repo.Status, status, false)); diff != "" {
		t.Errorf("a GitRepo that is not polled has the event of the single check\n%s", diff)
	}
	if got := Changes(status, status, true); got != nil {
		t.Errorf("no change is no news, got %v", got)
	}
}

// TestInvalidBudget checks that a deletion budget that cannot be read is a warning,
// given once.
func TestInvalidBudget(t *testing.T) {
	const text = `deletion budget "50pct": want a share such as 20%, a number, or off; it is not used: that of the namespace counts, and where it has none, the default counts: ` +
		`20% of the bundles of the GitRepo, 10% of the deployments of the workspace, at least 3`
	facts := Facts{Repo: readyAt("c1"), Head: &Head{Commit: "c1"}, Read: Read{Known: true, Commit: "c1", Generation: 1}}
	fine := Status(facts, noon)
	facts.Repo.Annotations = map[string]string{fleet.AnnotationDeletionBudget: "50pct"}
	bad := Status(facts, noon)
	c := condition.Find(bad.Conditions, fleet.ConditionStalled)
	if c.Status != "False" || c.Reason != withdrawal.ReasonInvalidBudget || c.Message != text {
		t.Errorf("got %+v", c)
	}
	want := []Notice{{Warning: true, Reason: withdrawal.ReasonInvalidBudget, Message: text}}
	if diff := cmp.Diff(want, Changes(fine, bad, true)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Changes(bad, bad, true); got != nil {
		t.Errorf("reported twice: %v", got)
	}
	facts.Read.Warning = Notice{Warning: true, Reason: "Odd", Message: "a/cm.yaml:3: odd (and 2 more)"}
	if got := condition.Find(Status(facts, noon).Conditions, fleet.ConditionStalled).Message; got != text+"; a/cm.yaml:3: odd (and 2 more)" {
		t.Errorf("a warning of the reading is left out: %s", got)
	}
	facts.Repo.Annotations[fleet.AnnotationDeletionBudget], facts.Read.Warning = "50%", Notice{}
	if got := condition.Find(Status(facts, noon).Conditions, fleet.ConditionStalled).Message; got != "" {
		t.Errorf("a budget that can be read: %s", got)
	}
}

// A warning of a reading by another process stays until the repository is read again.
func TestWarningOfEarlierReading(t *testing.T) {
	shown := func(facts Facts) string {
		return condition.Find(Status(facts, noon).Conditions, fleet.ConditionStalled).Message
	}
	facts := Facts{Repo: readRepo(warned), Head: &Head{Commit: "c1"}}
	if got := shown(facts); got != "a/cm.yaml:3: odd" {
		t.Errorf("want the warning kept, got %q", got)
	}
	facts.Read = Read{Known: true, Commit: "c1", Generation: 2}
	if got := shown(facts); got != "" {
		t.Errorf("want the warning over, got %q", got)
	}
	budget := Facts{Repo: readRepo(nil), Head: &Head{Commit: "c1"}}
	budget.Repo.Annotations = map[string]string{fleet.AnnotationDeletionBudget: "50pct"}
	budget.Repo.Status = Status(budget, noon)
	if first, second := budget.Repo.Status, Status(budget, noon); !cmp.Equal(first, second) {
		t.Errorf("want the same status, got %s", cmp.Diff(first, second))
	}
	budget.Repo.Annotations = nil
	if got := shown(budget); got != "" {
		t.Errorf("want no warning about the budget, got %q", got)
	}
}

// What a reading has written is said together with its commit, and by nothing else.
func TestStatusSaysWhatWasWritten(t *testing.T) {
	repo := &fleet.GitRepo{}
	repo.Generation = 2
	facts := Facts{Repo: repo, Head: &Head{Commit: "c1"}, Read: Read{
		Known: true, Commit: "c1", Generation: 2, Commits: map[string]string{"r-a": "c1", "r-b": "c0"}, Gone: []string{"r-c"},
	}}
	got := Status(facts, noon).Reading
	want := &fleet.Reading{
		Commit: "c1", Generation: 2, Complete: true, Bundles: 2, Digest: reading.Digest(facts.Read.Commits), Removed: []string{"r-c"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	facts.Read.Retry = true
	if Status(facts, noon).Reading.Complete {
		t.Error("what is tried again is not complete")
	}
	repo.Status.Reading = want
	facts.Read = Read{Known: true, Commit: "c2", Generation: 2, Err: errors.New("conflict")}
	if diff := cmp.Diff(want, Status(facts, noon).Reading); diff != "" {
		t.Errorf("a reading that did not come to its end says nothing: -want +got\n%s", diff)
	}
}

// Where image scanning is switched off, an earlier failure to commit is not shown any more.
func TestImageSyncedGoesWithScanning(t *testing.T) {
	repo := readRepo(nil)
	repo.Status.Conditions = append(repo.Status.Conditions, fleet.Condition{Type: fleet.ConditionImageSynced, Status: "False"})
	for off, want := range map[bool]bool{false: true, true: false} {
		if got := condition.Find(Status(Facts{Repo: repo, ScansOff: off}, noon).Conditions, fleet.ConditionImageSynced) != nil; got != want {
			t.Errorf("switched off %t: shown %t", off, got)
		}
	}
}
