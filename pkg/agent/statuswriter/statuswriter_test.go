package statuswriter

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// bench is a manager with one BundleDeployment, and a writer of its status.
type bench struct {
	*kubetest.Server
	t          *testing.T
	ctx        context.Context
	statuses   *kube.Store[*fleet.BundleDeployment]
	cache      *kube.Cache[*fleet.BundleDeployment]
	session    Session
	writer     *Writer
	unreported []fleet.Condition // of the record
}

// run runs f in a bubble of fake time. The cache of the session is watched, or listed
// once.
func run(t *testing.T, listed bool, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		s := kubetest.New(t)
		client := s.Connect("fleet-agent")
		b := &bench{Server: s, t: t, ctx: ctx, statuses: kube.StoreOf[*fleet.BundleDeployment](client), writer: New(time.Now)}
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		bd.Spec.DeploymentID = "s-1:x"
		if _, err := b.statuses.Create(ctx, bd); err != nil {
			t.Fatal(err)
		}
		if b.cache = kube.NewCache[*fleet.BundleDeployment](client, kube.Watch{}, nil); listed {
			b.cache = kube.NewListed[*fleet.BundleDeployment](client, kube.Watch{}, nil)
		}
		go func() { _ = kube.Run(ctx, nil, b.cache) }()
		synctest.Wait()
		b.session = Session{ID: "one", Statuses: b.statuses, Cache: b.cache}
		f(b)
	})
}

// write reports what was found, and returns when to report again.
func (b *bench) write(found report.Found) (time.Duration, error) {
	b.t.Helper()
	synctest.Wait()
	return b.writer.Write(b.ctx, b.session, b.report(found))
}

func (b *bench) report(found report.Found) Report {
	return Report{Name: "web", Object: b.cached(), Unreported: &b.unreported, Found: found}
}

func (b *bench) cached() *fleet.BundleDeployment {
	b.t.Helper()
	bd, ok := b.cache.Get(kube.Key{Namespace: "default", Name: "web"})
	if !ok {
		b.t.Fatal("the deployment is not in the cache")
	}
	return bd
}

// written returns how often a status was written, and reached the manager.
func (b *bench) written() int {
	n := 0
	for _, r := range b.Writes() {
		if r.Subresource == "status" && r.Code < 300 {
			n++
		}
	}
	return n
}

var statusWrite = kubetest.Match{Verb: "patch", Resource: "bundledeployments", Subresource: "status"}

func ready() report.Found { return report.Found{ID: "s-1:x", Release: "default/web:1"} }

func failed() report.Found {
	return report.Found{Failure: &report.Failure{Reason: "InvalidChart", Message: "no", Permanent: true}}
}

// starting is a state that is expected to end soon.
func starting() report.Found {
	out := ready()
	n := fleet.NonReadyStatus{Kind: "Deployment", Name: "web", Summary: fleet.Summary{State: "updating", Transitioning: true}}
	out.Objects = []report.Object{{Kind: "Deployment", Name: "web", NonReady: &n}}
	return out
}

// A status is written when its meaning changes, and never at rest.
func TestWritesNothingAtRest(t *testing.T) {
	run(t, false, func(b *bench) {
		for _, found := range []report.Found{ready(), ready(), ready()} {
			if after, err := b.write(found); err != nil || after != 0 {
				t.Fatalf("after %s: %v", after, err)
			}
			time.Sleep(time.Hour)
		}
		if b.written() != 1 || !b.cached().Status.Ready {
			t.Errorf("written %d times, want once: %+v", b.written(), b.cached().Status)
		}
		if !b.writer.AtRest("one", "web") || b.writer.AtRest("two", "web") || b.writer.AtRest("one", "other") {
			t.Error("the manager of this session alone knows how this deployment is")
		}
		restarted := New(time.Now)
		if after, err := restarted.Write(b.ctx, b.session, b.report(ready())); err != nil || after != 0 || b.written() != 1 {
			t.Errorf("a restart of the agent writes the same again: %d times, after %s, %v", b.written(), after, err)
		}
		b.writer.Forget("web")
		if b.writer.AtRest("one", "web") || len(b.writer.deployments) != 0 {
			t.Error("a forgotten deployment is still known")
		}
	})
}

// A status that is about to change is held back for a moment, and one that stays like
// that is written once.
func TestPassingStatusIsHeldBack(t *testing.T) {
	run(t, false, func(b *bench) {
		after, err := b.write(starting())
		if err != nil || after != window || b.written() != 0 {
			t.Fatalf("written %d times, after %s: %v", b.written(), after, err)
		}
		time.Sleep(after)
		if after, err = b.write(starting()); err != nil || after != 0 || b.written() != 1 {
			t.Errorf("written %d times, after %s: %v", b.written(), after, err)
		}
		if b.writer.AtRest("one", "web") {
			t.Error("a deployment that is about to change is not at rest")
		}
		if after, err = b.write(ready()); err != nil || after != 0 || b.written() != 2 {
			t.Errorf("a final status is not held back: written %d times, after %s: %v", b.written(), after, err)
		}
	})
}

// A status that does not reach the manager is kept with its times, also by a restarted
// agent, and written when the manager is back.
func TestManagerAway(t *testing.T) {
	for name, fail := range map[string]func(b *bench) *kubetest.Fault{
		"Broken":    func(b *bench) *kubetest.Fault { return b.Broken(-1, statusWrite) },
		"Refused":   func(b *bench) *kubetest.Fault { return b.Refuse(-1, statusWrite) },
		"Forbidden": func(b *bench) *kubetest.Fault { return b.Forbid(-1, statusWrite) },
		"Busy":      func(b *bench) *kubetest.Fault { return b.Busy(-1, statusWrite, time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, false, func(b *bench) {
				if _, err := b.write(ready()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				fault, failedAt := fail(b), time.Now()
				after, err := b.write(failed())
				if err != nil || after != awayDelay || len(b.unreported) == 0 {
					t.Fatalf("after %s, kept %d conditions: %v", after, len(b.unreported), err)
				}
				b.session.Away = func() bool { return true }
				if after, err := b.write(failed()); err != nil || after != 0 {
					t.Errorf("a manager that is known to be away is not asked by a timer: after %s: %v", after, err)
				}
				time.Sleep(time.Hour)
				fault.Lift()
				b.writer = New(time.Now)
				if after, err := b.write(failed()); err != nil || after != 0 || b.unreported != nil {
					t.Fatalf("after %s, kept %d conditions: %v", after, len(b.unreported), err)
				}
				synctest.Wait()
				c := condition.Find(b.cached().Status.Conditions, fleet.ConditionInstalled)
				at, err := time.Parse(time.RFC3339, c.LastTransitionTime)
				if since := at.Sub(failedAt); err != nil || since > time.Minute {
					t.Errorf("the failure is reported %s after it came about: %v", since, err)
				}
			})
		})
	}
}

// A conflict is an error that is tried again. Where no watch keeps the cache current,
// the writer reads the deployment.
func TestConflict(t *testing.T) {
	for name, listed := range map[string]bool{"Watched": false, "Listed": true} {
		t.Run(name, func(t *testing.T) {
			run(t, listed, func(b *bench) {
				fresh := b.cached().DeepCopy()
				fresh.Labels = map[string]string{"changed": "yes"}
				before := b.report(ready())
				if _, err := b.statuses.Patch(b.ctx, b.cached(), fresh); err != nil {
					t.Fatal(err)
				}
				if _, err := b.writer.Write(b.ctx, b.session, before); !kube.IsConflict(err) {
					t.Fatalf("want a conflict, got %v", err)
				}
				if after, err := b.write(ready()); err != nil || after != 0 || b.written() != 1 {
					t.Errorf("written %d times, after %s: %v", b.written(), after, err)
				}
				synctest.Wait()
				if !b.cached().Status.Ready {
					t.Error("the cache does not have what was written")
				}
			})
		})
	}
}

// A write whose answer is lost is not repeated once the watch has brought it.
func TestAnswerLost(t *testing.T) {
	run(t, false, func(b *bench) {
		b.CutAfter(1, statusWrite)
		if after, err := b.write(ready()); err != nil || after != awayDelay {
			t.Fatalf("after %s: %v", after, err)
		}
		if after, err := b.write(ready()); err != nil || after != 0 || b.unreported != nil {
			t.Errorf("after %s, kept %d conditions: %v", after, len(b.unreported), err)
		}
		if b.written() > 1 {
			t.Errorf("written %d times", b.written())
		}
	})
}

// A status that admission of the manager's cluster denies is an error, in the words of
// the webhook. A deployment that is gone needs no status.
func TestDeniedAndGone(t *testing.T) {
	run(t, false, func(b *bench) {
		b.Deny(1, statusWrite)
		if after, err := b.write(ready()); err == nil || !strings.Contains(err.Error(), kubetest.DeniedText) || after != 0 {
			t.Errorf("after %s: %v", after, err)
		}
		old := b.report(ready())
		if err := b.statuses.Delete(b.ctx, kube.KeyOf(old.Object), kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		if after, err := b.writer.Write(b.ctx, b.session, old); err != nil || after != 0 {
			t.Errorf("after %s: %v", after, err)
		}
		status := report.Withdrawn(old.Object, "o1", "gone", time.Now())
		if after, err := b.writer.Answer(b.ctx, b.session, old.Object, status); err != nil || after != 0 {
			t.Errorf("after %s: %v", after, err)
		}
	})
}

// The answer to an order leaves nothing in memory: the deployment is forgotten before.
func TestAnswer(t *testing.T) {
	run(t, true, func(b *bench) {
		status := report.Withdrawn(b.cached(), "o1", "uninstalled", time.Now())
		b.Broken(1, statusWrite)
		if after, err := b.writer.Answer(b.ctx, b.session, b.cached(), status); err != nil || after != awayDelay {
			t.Fatalf("after %s: %v", after, err)
		}
		if after, err := b.writer.Answer(b.ctx, b.session, b.cached(), status); err != nil || after != 0 {
			t.Fatalf("after %s: %v", after, err)
		}
		if !report.Answered(b.cached(), "o1") || len(b.writer.deployments) != 0 {
			t.Error("the cache has to have the answer, and the writer nothing")
		}
	})
}
