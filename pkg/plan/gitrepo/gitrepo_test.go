package gitrepo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestSpecError(t *testing.T) {
	for name, bad := range map[string]bool{"": false, "web": false, "Bad_NS": true, "a.b": true, strings.Repeat("a", 64): true} {
		err := SpecError(fleet.GitRepoSpec{TargetNamespace: name})
		if (err != nil) != bad || bad && (!reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != ReasonTargetNamespace) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestInterval(t *testing.T) {
	d := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	announced := func(commit string) fleet.GitRepoStatus { return fleet.GitRepoStatus{WebhookCommit: commit} }
	cases := map[string]struct {
		spec     fleet.GitRepoSpec
		status   fleet.GitRepoStatus
		unsigned bool
		want     time.Duration
	}{
		"Unset":             {want: 15 * time.Second},
		"Zero":              {spec: fleet.GitRepoSpec{PollingInterval: d(0)}, want: 15 * time.Second},
		"Given":             {spec: fleet.GitRepoSpec{PollingInterval: d(time.Minute)}, status: announced("c1"), want: time.Minute},
		"TooShort":          {spec: fleet.GitRepoSpec{PollingInterval: d(time.Millisecond)}, want: time.Second},
		"Disabled":          {spec: fleet.GitRepoSpec{PollingInterval: d(time.Minute), DisablePolling: true}, status: announced("c1")},
		"Announced":         {status: announced("c1"), want: time.Hour},
		"FoundByPolling":    {status: announced("c0"), want: 15 * time.Second},
		"AnnouncedByAnyone": {status: announced("c1"), unsigned: true, want: 15 * time.Second},
	}
	for name, c := range cases {
		if got := Interval(&fleet.GitRepo{Spec: c.spec, Status: c.status}, "c1", !c.unsigned); got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

func TestDelay(t *testing.T) {
	cases := map[string]struct {
		why      string
		interval time.Duration
		failures int
		random   float64
		want     time.Duration
	}{
		"NoFailure":     {interval: 15 * time.Second, want: 15 * time.Second},
		"Jitter":        {why: "at most a tenth", interval: 10 * time.Second, random: 1, want: 11 * time.Second},
		"First":         {interval: 15 * time.Second, failures: 1, want: 30 * time.Second},
		"Many":          {why: "never more rarely than once a minute", interval: 15 * time.Second, failures: 50, want: time.Minute},
		"Short":         {why: "a user with a short interval gets the error soon", interval: time.Second, failures: 50, want: 15 * time.Second},
		"Long":          {why: "the interval is the least", interval: time.Hour, failures: 3, want: time.Hour},
		"NotPolled":     {interval: 0, want: 0},
		"NotPolledFail": {why: "a failure is tried again all the same", interval: 0, failures: 1, want: 2 * time.Second},
	}
	for name, c := range cases {
		if got := Delay(c.interval, c.failures, c.random); got != c.want {
			t.Errorf("%s: %s: want %s, got %s", name, c.why, c.want, got)
		}
	}
}

func TestOptions(t *testing.T) {
	repo := &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns", Labels: map[string]string{"team": "a", fleet.LabelRepoName: "other"}},
		Spec:       fleet.GitRepoSpec{TargetNamespace: "t", ServiceAccount: "sa", Paused: true, ForceSyncGeneration: 3},
	}
	o := Options(repo, "abc")
	want := map[string]string{
		"team": "a", fleet.LabelRepoName: "r", fleet.LabelCommit: "abc", fleet.LabelOwnerBucket: naming.OwnerBucket("ns", "r"),
	}
	if diff := cmp.Diff(want, o.Labels); diff != "" {
		t.Errorf("labels\n-want +got\n%s", diff)
	}
	if o.TargetNamespace != "t" || o.ServiceAccount != "sa" || !o.Paused || o.SyncGeneration != 3 {
		t.Errorf("not passed on: %+v", o)
	}
	if len(o.Targets) != 1 || o.Targets[0].ClusterGroup != "default" || len(o.Restrictions) != 1 {
		t.Errorf("want the default target and its restriction, got %+v", o)
	}
	repo.Spec.Targets = []fleet.GitTarget{{ClusterName: "a"}, {ClusterName: "b"}}
	if o := Options(repo, "abc"); len(o.Targets) != 2 || len(o.Restrictions) != 2 {
		t.Errorf("want a restriction for each target, got %+v", o)
	}
}

// a GitRepo that was read at commit c1, generation 2.
func readRepo(change func(*fleet.GitRepo)) *fleet.GitRepo {
	r := &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "ns", Generation: 2},
		Status:     fleet.GitRepoStatus{Commit: "c1", ObservedGeneration: 2, PollingCommit: "c1", GitJobStatus: JobCurrent},
	}
	if change != nil {
		change(r)
	}
	return r
}

// warned is a GitRepo whose last reading has found a warning.
func warned(r *fleet.GitRepo) {
	r.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionStalled, Status: "False", Reason: "Odd", Message: "a/cm.yaml:3: odd"}}
}

func TestDecide(t *testing.T) {
	gone := reconcile.TerminalError("BranchNotFound", errors.New(`branch "x" does not exist`))
	deleted := func(r *fleet.GitRepo) { r.DeletionTimestamp = &metav1.Time{Time: noon} }
	at := func(commit string) *Head { return &Head{Commit: commit} }
	cases := map[string]struct {
		why   string
		facts Facts
		want  Step
	}{
		"UpToDate":   {facts: Facts{Repo: readRepo(nil), Head: at("c1")}, want: Step{Rest, "nothing is new"}},
		"NewCommit":  {facts: Facts{Repo: readRepo(nil), Head: at("c2")}, want: Step{Fetch, "commit c2 is new"}},
		"NewSpec":    {facts: Facts{Repo: readRepo(func(r *fleet.GitRepo) { r.Generation = 3 }), Head: at("c1")}, want: Step{Fetch, "the spec has changed"}},
		"Forced":     {facts: Facts{Repo: readRepo(func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration = 1 }), Head: at("c1")}, want: Step{Fetch, "it was asked for"}},
		"NotAsked":   {facts: Facts{Repo: readRepo(nil)}, want: Step{Wait, "the repository is being asked"}},
		"CannotAsk":  {facts: Facts{Repo: readRepo(nil), Head: &Head{Err: gone}}, want: Step{Wait, `branch "x" does not exist`}},
		"Lost":       {facts: Facts{Repo: readRepo(nil), Head: at("c1"), Lost: true}, want: Step{Fetch, "a Bundle has gone"}},
		"Appeared":   {why: "a warning about it has to go", facts: Facts{Repo: readRepo(nil), Head: at("c1"), Appeared: true}, want: Step{Fetch, "a cluster that it names is there now"}},
		"StaleCache": {why: "what was just done is not done again", facts: Facts{Repo: readRepo(nil), Head: at("c2"), Read: Read{Known: true, Commit: "c2", Generation: 2}}, want: Step{Rest, "nothing is new"}},
		"BrokenStays": {
			why:   "a broken bundle waits for a commit, not for time",
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Read: Read{Known: true, Commit: "c1", Generation: 2, Verdict: Verdict{Reason: "InvalidYAML", Message: "x"}}},
			want:  Step{Rest, "nothing is new"},
		},
		"FailedIsTriedAgain": {
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Read: Read{Known: true, Commit: "c1", Generation: 2, Err: errors.New("disk full")}},
			want:  Step{Fetch, "the last reading failed"},
		},
		"PermanentFailureWaits": {
			why:   "it would end the same",
			facts: Facts{Repo: readRepo(nil), Source: "s", Head: at("c2"), Read: Read{Known: true, Source: "s", Commit: "c2", Generation: 2, Err: gone}},
			want:  Step{Rest, "nothing is new"},
		},
		"OtherCredentials": {
			facts: Facts{Repo: readRepo(nil), Source: "t", Head: at("c2"), Read: Read{Known: true, Source: "s", Commit: "c2", Generation: 2, Err: gone}},
			want:  Step{Fetch, "commit c2 is new"},
		},
		"FailedBeforeStart": {
			why:   "what was wrong is not stored, so it is looked at again",
			facts: Facts{Repo: readRepo(func(r *fleet.GitRepo) { r.Status.GitJobStatus = JobFailed }), Head: at("c1")},
			want:  Step{Fetch, "the last reading failed"},
		},
		"WarnedBeforeStart": {
			why:   "only a reading says whether a warning is over",
			facts: Facts{Repo: readRepo(warned), Head: at("c1")},
			want:  Step{Fetch, "the warnings of the last reading may be over"},
		},
		"Warned": {
			facts: Facts{Repo: readRepo(warned), Head: at("c1"), Read: Read{Known: true, Commit: "c1", Generation: 2}},
			want:  Step{Rest, "nothing is new"},
		},
		"WarnedSuspended": {
			why:   "the brake holds readings, and this one has time",
			facts: Facts{Repo: readRepo(warned), Head: at("c1"), Suspended: "suspended: x"},
			want:  Step{Rest, "nothing is new"},
		},
		"MayPass": {
			why:   "what cannot be downloaded now may be later",
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Read: Read{Known: true, Commit: "c1", Generation: 2, Verdict: Verdict{Retry: true, Passing: true, Message: "x"}}},
			want:  Step{Fetch, "the last reading failed"},
		},
		"SecretChanged": {
			why:   "charts may be had now, or other ones",
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Credentials: "helm=2", ReadWith: "helm=1"},
			want:  Step{Fetch, "a Secret that it names has changed"},
		},
		"SecretJustRead": {
			why:   "the annotation may be behind what we did",
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Credentials: "helm=2", ReadWith: "helm=1", Read: Read{Known: true, Commit: "c1", Generation: 2, Credentials: "helm=2"}},
			want:  Step{Rest, "nothing is new"},
		},
		"SecretChangedSince": {
			facts: Facts{Repo: readRepo(nil), Head: at("c1"), Credentials: "helm=3", ReadWith: "helm=2", Read: Read{Known: true, Commit: "c1", Generation: 2, Credentials: "helm=2"}},
			want:  Step{Fetch, "a Secret that it names has changed"},
		},
		"Suspended":     {facts: Facts{Repo: readRepo(nil), Head: at("c2"), Suspended: "suspended: x"}, want: Step{Wait, "suspended: x"}},
		"SuspendedRest": {facts: Facts{Repo: readRepo(nil), Head: at("c1"), Suspended: "suspended: x"}, want: Step{Rest, "nothing is new"}},
		"Restricted":    {facts: Facts{Repo: readRepo(nil), Head: at("c2"), Refused: errors.New("Policy p")}, want: Step{Wait, "Policy p"}},
		"Refused":       {facts: Facts{Repo: readRepo(nil), Head: at("c2"), Refused: gone}, want: Step{Wait, gone.Error()}},
		"Deleted":       {facts: Facts{Repo: readRepo(deleted), Refused: gone}, want: Step{Remove, "the GitRepo is deleted"}},
		"DeletedProtected": {
			why: "the controller takes the protection off once a person has approved it",
			facts: Facts{Repo: readRepo(func(r *fleet.GitRepo) {
				deleted(r)
				r.Annotations = map[string]string{fleet.AnnotationProtect: "true"}
			})},
			want: Step{Wait, "the GitRepo is protected: its deletion waits to be approved"},
		},
		"DeletedHeld": {why: "the brake holds removals as well", facts: Facts{Repo: readRepo(deleted), Suspended: "suspended"}, want: Step{Wait, "suspended"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Decide(c.facts)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
