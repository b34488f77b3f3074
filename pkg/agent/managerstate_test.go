package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

var keepContact = kubetest.Match{Verb: "patch", Resource: "configmaps", Name: contactName}

// contactTest is what an agent knows about its manager, in a bubble of fake time.
type contactTest struct {
	*testing.T
	*managerState
	server *kubetest.Server
	client *kube.Client
}

func testContact(t *testing.T, f func(t *contactTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		s.MakeNamespace(home)
		c := s.Connect("agent")
		f(&contactTest{T: t, managerState: newManagerState(c, home), server: s, client: c})
	})
}

// restart begins as a process does that knows nothing.
func (t *contactTest) restart() {
	t.Helper()
	t.managerState = newManagerState(t.client, home)
	if err := t.load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// kept is what another process would read.
func (t *contactTest) kept() map[string]string {
	t.Helper()
	cm, err := t.maps.Get(t.Context(), kube.Key{Namespace: home, Name: contactName})
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

func (t *contactTest) wantsReached(back bool) {
	t.Helper()
	if got, err := t.setReached(managerURL, mark); got != back || err != nil {
		t.Errorf("want back %t, got %t, %v", back, got, err)
	}
}

func (t *contactTest) wantsLost(changes bool, reason string) {
	t.Helper()
	if got, err := t.setLost(managerURL, trouble{reason: reason, hint: "look"}, errors.New("no answer")); got != changes || err != nil {
		t.Errorf("want a change %t, got %t, %v", changes, got, err)
	}
}

// What is known about the manager is written when its meaning changes, and is there for the
// next process.
func TestContactIsWrittenWhenItChanges(t *testing.T) {
	testContact(t, func(t *contactTest) {
		if t.state() != registration.ContactUnknown || t.isReached() || t.isAway() {
			t.Error("an agent that has just started knows nothing")
		}
		began := time.Now().UTC().Format(time.RFC3339)
		t.wantsReached(true)
		want := map[string]string{keyReached: "true", keyManager: mark.String(), keyURL: managerURL, keySince: began}
		if diff := cmp.Diff(want, t.kept()); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		time.Sleep(time.Hour)
		writes := len(t.server.Writes())
		t.wantsReached(false)
		if len(t.server.Writes()) > writes || t.state() != registration.ContactReached || !t.isReached() {
			t.Errorf("the same is written again: %v", t.server.Writes()[writes:])
		}
		since := time.Now().UTC().Format(time.RFC3339)
		t.wantsLost(true, reasonSilent)
		t.wantsLost(false, reasonSilent)
		time.Sleep(time.Hour)
		t.wantsLost(true, reasonAway)
		want = map[string]string{
			keyReached: "false", keyRefused: "false", keyManager: mark.String(), keyURL: managerURL, keySince: since,
			keyReason: reasonAway, keyError: "no answer", keyHint: "look",
		}
		if diff := cmp.Diff(want, t.kept()); diff != "" || len(t.server.Writes()) != writes+2 {
			t.Errorf("after %d writes, -want +got\n%s", len(t.server.Writes())-writes, diff)
		}
		t.restart()
		if m, known := t.lastManager(); !known || m != mark || !t.isAway() || t.state() != registration.ContactUnknown {
			t.Errorf("after a restart: %v, %t, %v", m, known, t.state())
		}
		t.wantsLost(true, reasonAway)
		t.wantsLost(true, reasonCredential)
		if !t.isRefused() || t.kept()[keyRefused] != "true" {
			t.Error("a refusal is not noted")
		}
		t.wantsReached(true)
		if got := t.kept(); got[keyReason] != "" || got[keyRefused] != "" || got[keyError] != "" {
			t.Errorf("why it was away is still there: %v", got)
		}
		t.setUntried()
		if t.state() != registration.ContactUnknown {
			t.Error("another credential was not tried yet")
		}
	})
}

// What could not be written is written with the next change or answer; the check-ins go on,
// and wait for it for a few seconds at most.
func TestContactIsNotWritten(t *testing.T) {
	for name, fail := range map[string]func(*kubetest.Server) *kubetest.Fault{
		"Conflict":  func(s *kubetest.Server) *kubetest.Fault { return s.Conflict(kubetest.Always, keepContact) },
		"Broken":    func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, keepContact) },
		"Forbidden": func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, keepContact) },
		"Busy":      func(s *kubetest.Server) *kubetest.Fault { return s.Busy(kubetest.Always, keepContact, time.Minute) },
		"Cut":       func(s *kubetest.Server) *kubetest.Fault { return s.CutAfter(kubetest.Always, keepContact) },
	} {
		t.Run(name, func(t *testing.T) {
			testContact(t, func(t *contactTest) {
				fault, began := fail(t.server), time.Now()
				if back, err := t.setReached(managerURL, mark); !back || err == nil {
					t.Errorf("got %t, %v", back, err)
				}
				if took := time.Since(began); took > contactTime {
					t.Errorf("the check-in waits for %s", took)
				}
				if t.state() == registration.ContactUnknown {
					t.Error("the answer counts, whether it is kept or not")
				}
				fault.Lift()
				if _, err := t.setReached(managerURL, mark); err != nil || t.kept()[keyReached] != "true" {
					t.Errorf("%v; kept: %v", err, t.kept())
				}
			})
		})
	}
	testContact(t, func(t *contactTest) {
		t.server.Broken(1, kubetest.Match{Verb: "get", Resource: "configmaps"})
		if err := t.load(t.Context()); err == nil {
			t.Error("an agent that cannot read what it knew must not start as if there were nothing")
		}
	})
}

// When the agent connects next is noted, and no longer for one that is always connected.
func TestContactAnnouncesNextVisit(t *testing.T) {
	testContact(t, func(t *contactTest) {
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		t.wantsReached(true)
		if !t.nextConnection().IsZero() || t.setNextConnection(at) != nil || !t.nextConnection().Equal(at) {
			t.Errorf("announced: %s", t.nextConnection())
		}
		t.restart()
		t.wantsLost(true, reasonAway)
		if !t.nextConnection().Equal(at) {
			t.Error("a manager that is away does not change when the agent connects next")
		}
		if err := t.setNextConnection(time.Time{}); err != nil || !t.nextConnection().IsZero() || t.kept()[keyNext] != "" {
			t.Errorf("announced: %s, %v", t.nextConnection(), err)
		}
	})
}

// The version of the manager's objects is written every 10 s at most, and outlives changes
// of the rest, as does when the manager was restored.
func TestContactKeepsVersion(t *testing.T) {
	testContact(t, func(t *contactTest) {
		for i, version := range []string{"m/1/7", "m/1/8"} {
			if err := t.keepVersion(version); err != nil || t.managerVersion() != "m/1/7" {
				t.Errorf("%d: %q, %v", i, t.managerVersion(), err)
			}
		}
		time.Sleep(versionPace)
		if err := t.keepVersion("m/1/9"); err != nil {
			t.Fatal(err)
		}
		if err := t.setRestored(); err != nil {
			t.Fatal(err)
		}
		restored := t.kept()[keyRestored]
		t.wantsReached(true)
		t.wantsLost(true, reasonAway)
		t.restart()
		if t.managerVersion() != "m/1/9" || restored == "" || t.kept()[keyRestored] != restored {
			t.Errorf("version %q; kept: %v", t.managerVersion(), t.kept())
		}
	})
}

// A person confirms on the ConfigMap that orphans may go. It is read each time, and says
// nothing where it cannot be read.
func TestContactReadsConfirmation(t *testing.T) {
	testContact(t, func(t *contactTest) {
		reads := func(want string) {
			t.Helper()
			if got, _, err := t.orphanApproval(t.Context()); got != want || err != nil {
				t.Errorf("want %q, got %q, %v", want, got, err)
			}
		}
		reads("")
		t.wantsReached(true)
		reads("")
		cm, err := t.maps.Get(t.Context(), kube.Key{Namespace: home, Name: contactName})
		if err != nil {
			t.Fatal(err)
		}
		confirmed := cm.DeepCopy()
		confirmed.Annotations = map[string]string{annotationCollect: confirmation(mark, "")}
		if _, err := t.maps.Patch(t.Context(), cm, confirmed); err != nil {
			t.Fatal(err)
		}
		reads("manager/1")
		t.wantsLost(true, reasonAway)
		reads("manager/1")
		t.server.Broken(1, kubetest.Match{Verb: "get", Resource: "configmaps"})
		if got, _, err := t.orphanApproval(t.Context()); got != "" || err == nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A Cluster that has lost the mark of its manager is still that manager's, at the same URL.
func TestContactRemembersMark(t *testing.T) {
	testContact(t, func(t *contactTest) {
		if got := t.markOf(managerURL, registration.Mark{}); got != (registration.Mark{}) {
			t.Errorf("a manager that never gave a mark has %v", got)
		}
		t.wantsReached(true)
		other := registration.Mark{ID: "other"}
		for why, c := range map[string]struct {
			url        string
			said, want registration.Mark
		}{
			"lost":          {managerURL, registration.Mark{}, mark},
			"said":          {managerURL, other, other},
			"elsewhere":     {"https://other", registration.Mark{}, registration.Mark{}},
			"said and same": {managerURL, mark, mark},
		} {
			if got := t.markOf(c.url, c.said); got != c.want {
				t.Errorf("%s: want %v, got %v", why, c.want, got)
			}
		}
	})
}

// The session begins again when the Cluster has become older, and not for a version that is
// no number.
func TestRestoredManagerIsListedAgain(t *testing.T) {
	lists := 0
	s := &session{sessions: &sessions{base: &base{}}, relist: func() { lists++ }}
	for i, c := range []struct {
		version string
		older   bool
	}{{"7", false}, {"7", false}, {"9", false}, {"x", false}, {"8", true}, {"8", false}, {"10", false}} {
		if got := s.isManagerRestored(c.version); got != c.older {
			t.Errorf("%d: %s is older: %t", i, c.version, got)
		}
	}
	if lists != 1 {
		t.Errorf("listed again %d times, want once", lists)
	}
}

// The agent takes over from the agent that its ConfigMap names, and never from itself.
func TestPredecessor(t *testing.T) {
	a := &settings{base: &base{cfg: Config{Namespace: home}, log: quiet()}}
	if got := a.predecessor(); got != "" {
		t.Errorf("without a ConfigMap: %q", got)
	}
	for _, c := range []struct{ from, want string }{{"before", "before"}, {home, ""}, {"before", "before"}, {"", ""}} {
		a.setPredecessor(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fleet-agent"}, Data: map[string]string{registration.KeyAdoptFrom: c.from}})
		if got := a.predecessor(); got != c.want {
			t.Errorf("%q: want %q, got %q", c.from, c.want, got)
		}
	}
}
