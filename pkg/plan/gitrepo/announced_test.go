package gitrepo

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// announced is the status of a GitRepo at commit c1 for which a webhook announced another
// commit some time before noon.
func announced(commit string, ago time.Duration) fleet.GitRepoStatus {
	polled := fleet.Condition{Type: fleet.ConditionGitPolling, Status: "True"}
	return fleet.GitRepoStatus{
		StatusBase: fleet.StatusBase{Conditions: []fleet.Condition{polled}},
		Commit:     "c1", PollingCommit: "c1", ObservedGeneration: 1, LastPollingTime: metav1.Time{Time: noon.Add(-time.Hour)},
		WebhookCommit: commit, LastWebhookTime: metav1.Time{Time: noon.Add(-ago)},
	}
}

func TestAwaitedCommit(t *testing.T) {
	cases := map[string]struct {
		why    string
		status fleet.GitRepoStatus
		commit string
		left   time.Duration
	}{
		"None":   {status: fleet.GitRepoStatus{Commit: "c1"}},
		"New":    {status: announced("c2", 10*time.Second), commit: "c2", left: 20 * time.Second},
		"Over":   {status: announced("c2", 30*time.Second)},
		"Read":   {status: announced("c1", time.Second)},
		"Future": {why: "the clock of another replica is ahead", status: announced("c2", -time.Hour), commit: "c2", left: 30 * time.Second},
		"AskedFor": {
			why:    "the head is known, even if it cannot be read",
			status: func() fleet.GitRepoStatus { s := announced("c2", time.Second); s.PollingCommit = "c2"; return s }(),
		},
	}
	for name, c := range cases {
		if commit, left := AwaitedCommit(c.status, noon); commit != c.commit || left != c.left {
			t.Errorf("%s: %s: want %q for %s, got %q for %s", name, c.why, c.commit, c.left, commit, left)
		}
	}
}

func TestGiveUp(t *testing.T) {
	const over = time.Minute
	cases := map[string]struct {
		why  string
		ago  time.Duration
		head Head // with the announcement, unless stale
		// stale is set for a head that was asked for before the webhook.
		stale bool
		want  string // webhookCommit
		event bool
	}{
		"InTime":  {ago: 29 * time.Second, head: Head{Commit: "c1"}, want: "c2"},
		"Over":    {ago: over, head: Head{Commit: "c1"}, want: "c1", event: true},
		"Stale":   {why: "the manager was away when the webhook came", ago: over, head: Head{Commit: "c1"}, stale: true, want: "c2"},
		"Away":    {why: "only an answer shows that the commit is not there", ago: over, head: Head{Err: errors.New("away")}, want: "c2"},
		"There":   {ago: over, head: Head{Commit: "c2"}, want: "c2"},
		"Further": {why: "the branch has left the announced commit behind", ago: over, head: Head{Commit: "c3"}, want: "c2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: announced("c2", c.ago)}
			if !c.stale {
				c.head.Announcement = Announcement(repo.Status)
			}
			got := Status(Facts{Repo: repo, Head: &c.head}, noon)
			if got.WebhookCommit != c.want || !got.LastWebhookTime.Equal(&repo.Status.LastWebhookTime) {
				t.Errorf("%s: want %s, got %s at %s", c.why, c.want, got.WebhookCommit, got.LastWebhookTime)
			}
			var want []Notice
			if c.event {
				want = []Notice{{Warning: true, Reason: "WebhookCommitNotVisible", Message: "the repository does not show commit c2 30s after a webhook announced it"}}
			}
			events := Changes(repo.Status, got, true)
			if c.head.Err == nil {
				if diff := cmp.Diff(want, events); diff != "" {
					t.Errorf("%s\n-want +got\n%s", c.why, diff)
				}
			}
			repo.Status = got
			if again := Status(Facts{Repo: repo, Head: &c.head}, noon); !cmp.Equal(again, got) || len(Changes(got, again, true)) > 0 && c.head.Err == nil {
				t.Errorf("want no second change, got %v", cmp.Diff(got, again))
			}
		})
	}
}

// A new webhook of the same commit is not the same announcement.
func TestAnnouncement(t *testing.T) {
	a, b := announced("c2", time.Second), announced("c2", 3*time.Second)
	if Announcement(a) == Announcement(b) || Announcement(a) == "" || Announcement(announced("", time.Second)) != "" {
		t.Errorf("got %q and %q", Announcement(a), Announcement(b))
	}
}
