package deploy

import (
	"errors"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// newFailures makes failures that read no release and no record.
func newFailures(now func() time.Time) *failures {
	return &failures{attempts: newAttempts(now), sharing: newSharing(now, nil), log: newFailureLog(logrus.NewEntry(logrus.New()))}
}

// What somebody has to mend on the cluster is looked at again within a minute, since
// nobody tells the agent of it.
func TestRetryOfWaits(t *testing.T) {
	cases := map[string]struct {
		reason  string
		waiting bool
	}{
		"Missing":   {release.ReasonNoValues, true},
		"Namespace": {release.ReasonNoNamespace, false}, // as in the reference
		"NoMap":     {release.ReasonBadValues, false},   // is a failure to the person who looks
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFailures(time.Now)
			s := &snapshot{name: "web"}
			f.attempts.attemptOf("web").failed = 20
			s.spec.DeploymentID = "x:y"
			if err := f.handleFailure(t.Context(), s, reconcile.RequeueError(c.reason, 1, errors.New("x"))); err != nil {
				t.Fatal(err)
			}
			if s.failure.Permanent || s.failure.Waiting != c.waiting || s.rec.Failed != nil {
				t.Errorf("want waiting %t, got %+v", c.waiting, *s.failure)
			}
			if s.after != bringDelay {
				t.Errorf("want another attempt after %s, got %s", bringDelay, s.after)
			}
		})
	}
}

// A wait for an object of another bundle of the repository is a failure when sharedGrace
// is over. The deployment is looked at again then, however many attempts there were.
func TestSharedWaitEndsInTime(t *testing.T) {
	since := time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		waited  time.Duration
		waiting bool
		again   time.Duration
	}{
		"Begins":    {0, true, sharedGrace},
		"AlmostEnd": {59 * time.Second, true, time.Second},
		"Over":      {sharedGrace, false, sharedDelay},
		"LongOver":  {time.Hour, false, sharedDelay},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := func() time.Time { return since.Add(c.waited) }
			f := newFailures(now)
			s := &snapshot{name: "web"}
			f.attempts.attemptOf("web").failed = 20
			f.sharing.awaitedObjects("web").since = since
			s.spec.DeploymentID = "x:y"
			if err := f.handleFailure(t.Context(), s, reconcile.RequeueError(release.ReasonSharedObject, 1, errors.New("x"))); err != nil {
				t.Fatal(err)
			}
			if s.failure.Waiting != c.waiting || s.after != c.again {
				t.Errorf("want waiting %t and another attempt after %s, got %t and %s", c.waiting, c.again, s.failure.Waiting, s.after)
			}
		})
	}
}

// A permanent failure is kept in the record, and the attempt is not repeated.
func TestPermanentFailureIsNotRetried(t *testing.T) {
	f := newFailures(time.Now)
	f.releases = &releases{helm: helmOf(t, kubetest.New(t))}
	s := &snapshot{name: "web"}
	s.spec.DeploymentID, s.rec.Chunks = "x:y", 1
	s.wanted.ID = release.ID{Namespace: "shop", Name: "web"}
	if err := f.handleFailure(t.Context(), s, reconcile.TerminalError(release.ReasonInvalidObject, errors.New("x"))); err != nil {
		t.Fatal(err)
	}
	if s.rec.Failed == nil || s.rec.Failed.ID != "x:y" || s.rec.Failed.Reason != release.ReasonInvalidObject || s.rec.Chunks != 0 {
		t.Errorf("want the failure in the record and no payload, got %+v", s.rec)
	}
	if s.after != 0 || !s.failure.Permanent {
		t.Errorf("want no other attempt, got one after %s for %+v", s.after, *s.failure)
	}
}

// helmOf returns a Helm client of an API server.
func helmOf(t *testing.T, s *kubetest.Server) *helm.Client {
	t.Helper()
	h, err := helm.Connect(helm.Config{REST: s.REST(), AgentNamespace: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A log line about a deployment names the user who made its GitRepo, once.
func TestFailureNamesUser(t *testing.T) {
	logger, hook := test.NewNullLogger()
	l := newFailureLog(logrus.NewEntry(logger))
	s := &snapshot{name: "web", labels: ownLabels(map[string]string{"fleet.cattle.io/created-by-user-id": "u-4711"})}
	l.log(s, "NotOwned", "x")
	l.log(s, "NotOwned", "x")
	if got := hook.AllEntries(); len(got) != 1 || got[0].Data["userID"] != "u-4711" || got[0].Data["deployment"] != "web" {
		t.Errorf("want one line with the user, got %v", got)
	}
}
