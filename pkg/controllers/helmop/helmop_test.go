package helmop

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

const (
	team   = "team"   // the workspace of all tests
	system = "system" // the namespace of the manager
	// loopName is that of the loop, whose requests fail in most tests.
	loopName = "helmop"
)

// memorySource is a repository in memory, which all requests lead to.
type memorySource struct {
	mu       sync.Mutex
	versions []string
	err      error
	asked    int
	access   chart.Access // of the last question
	busy     bool         // another caller asks
	waiting  []func()
}

func newSource(versions ...string) *memorySource { return &memorySource{versions: versions} }

func (s *memorySource) Resolve(_ context.Context, r chart.Request, a chart.Access, maxAge time.Duration, ready func()) (string, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		s.waiting = append(s.waiting, ready)
		return "", 0, reconcile.RequeueError(bundlesource.ReasonBusy, 0, errors.New("busy"))
	}
	s.asked++
	s.access = a
	if s.err != nil {
		return "", 15 * time.Second, s.err
	}
	v, err := chart.ChooseTag(s.versions, r.Version)
	return v, maxAge, err
}

// set changes what the source answers.
func (s *memorySource) set(err error, versions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.versions = err, versions
}

// finish ends the question of another caller.
func (s *memorySource) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	for _, ready := range s.waiting {
		ready()
	}
}

func (s *memorySource) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// lastAccess returns the credentials of the last question.
func (s *memorySource) lastAccess() chart.Access {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.access
}

// start returns what a process runs.
func (s *memorySource) start(sc scope.Scope) func(*kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		log := logrus.New()
		log.SetOutput(io.Discard)
		return New(Config{Namespace: system, Scope: sc, Versions: s, Workers: 4}, c, logrus.NewEntry(log)).Runnables()
	}
}

// play tests the loop without faults, by default on empty namespaces.
func (s *memorySource) play(t *testing.T, l looptest.Loop) {
	t.Helper()
	l.Start = s.start(scope.Scope{})
	if l.Given == nil {
		l.Given = given()
	}
	looptest.Undisturbed(t, l)
}

// given makes namespaces, and then what else there is.
func given(make ...func(*looptest.World)) func(*looptest.World) {
	return func(w *looptest.World) {
		w.Server.MakeNamespace(team)
		w.Server.MakeNamespace(system)
		for _, f := range make {
			f(w)
		}
	}
}

// made makes a HelmOp for version ^1 that is not polled.
func made(w *looptest.World) { makeOp(w, func(*fleet.HelmOp) {}) }

// polled makes a HelmOp for version ^1 that is polled every five minutes.
func polled(w *looptest.World) {
	makeOp(w, func(op *fleet.HelmOp) { op.Spec.PollingInterval = &metav1.Duration{Duration: 5 * time.Minute} })
}

func makeOp(w *looptest.World, change func(*fleet.HelmOp)) {
	op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "op"}}
	op.Spec.Helm = &fleet.HelmOptions{Repo: "https://charts.example.com", Chart: "web", Version: "^1"}
	op.Spec.Labels = map[string]string{"tier": "1"}
	change(op)
	looptest.Make(w, op)
}

func changeOp(w *looptest.World, change func(*fleet.HelmOp)) { looptest.Change(w, team, "op", change) }

func opOf(w *looptest.World) *fleet.HelmOp { return looptest.Read[*fleet.HelmOp](w, team, "op") }

func bundleOf(w *looptest.World) *fleet.Bundle { return looptest.Read[*fleet.Bundle](w, team, "op") }

// wantVersion checks the version in the Bundle and in the status.
func wantVersion(w *looptest.World, version string) {
	w.Helper()
	b := bundleOf(w)
	if b == nil || b.Spec.Helm.Version != version || opOf(w).Status.Version != version {
		w.Errorf("want version %s, got %+v in status %+v", version, b, opOf(w).Status)
	}
}

// wantCondition checks a condition of the HelmOp.
func wantCondition(w *looptest.World, kind, status, text string) {
	w.Helper()
	c := condition.Find(opOf(w).Status.Conditions, kind)
	if c == nil && status == "" {
		return
	}
	if c == nil || string(c.Status) != status || !strings.Contains(c.Message, text) {
		w.Errorf("want %s=%s with %q, got %+v", kind, status, text, c)
	}
}

// A new HelmOp becomes a Bundle without resources, with one version for all clusters.
func TestHelmOp(t *testing.T) {
	s := newSource("1.0.0", "1.2.0", "2.0.0")
	looptest.Run(t, looptest.Loop{
		Start: s.start(scope.Scope{}), Of: loopName, Given: given(), When: made,
		Then: func(w *looptest.World) {
			wantVersion(w, "1.2.0")
			wantCondition(w, fleet.ConditionAccepted, "True", "")
			wantCondition(w, fleet.ConditionPolled, "", "")
			if b := bundleOf(w); b.Spec.HelmOpOptions == nil || b.Labels[fleet.LabelHelmOpName] != "op" || b.Labels["tier"] != "1" || len(b.Spec.Targets) != 1 {
				w.Errorf("got %+v", b)
			}
			if !slices.Contains(opOf(w).Finalizers, fleet.FinalizerHelmOp) {
				w.Error("the HelmOp has no finalizer")
			}
		},
	})
}

// An exact version is not asked for.
func TestExactVersion(t *testing.T) {
	s := newSource()
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) { makeOp(w, func(op *fleet.HelmOp) { op.Spec.Helm.Version = "v1.0.1" }) },
		Then: func(w *looptest.World) {
			wantVersion(w, "v1.0.1")
			if n := s.questions(); n > 0 {
				w.Errorf("the source was asked %d times", n)
			}
		},
	})
}

// A new version is found by polling, once per interval; the same answer writes nothing.
func TestPolled(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			polled(w)
			w.Pass(22 * time.Minute)
			wantVersion(w, "1.0.0")
			if n := s.questions(); n < 4 || n > 6 {
				w.Errorf("want one question per 5 minutes, got %d in 22", n)
			}
			s.set(nil, "1.0.0", "1.1.0")
			w.Pass(6 * time.Minute)
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.1.0")
			wantCondition(w, fleet.ConditionPolled, "True", "")
			if n := looptest.Events(w, team, eventGotVersion); n != 2 {
				w.Errorf("want an event per version, got %d", n)
			}
		},
	})
}

// What is deployed stays while the source fails; the status says what is wrong until it
// answers again.
func TestSourceFails(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			polled(w)
			w.Pass(time.Minute)
			s.set(reconcile.RequeueError("Unreachable", 0, errors.New("the repository does not answer")))
			w.Pass(10 * time.Minute)
			wantVersion(w, "1.0.0")
			wantCondition(w, fleet.ConditionPolled, "False", "does not answer")
			wantCondition(w, fleet.ConditionReconciling, "True", "does not answer")
			if n := looptest.Events(w, team, eventFailedGetVersion); n != 1 {
				w.Errorf("want one event for one failure, got %d", n)
			}
			s.set(nil, "1.3.0")
			w.Pass(6 * time.Minute)
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.3.0")
			wantCondition(w, fleet.ConditionPolled, "True", "")
			wantCondition(w, fleet.ConditionReconciling, "False", "")
		},
	})
}

// A HelmOp whose constraint nothing satisfies has no Bundle, and gets one as soon as there
// is a version.
func TestNoVersion(t *testing.T) {
	s := newSource("2.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			made(w)
			w.Pass(3 * time.Minute)
			if bundleOf(w) != nil {
				w.Error("a Bundle was written without a version")
			}
			wantCondition(w, fleet.ConditionStalled, "True", "no tag")
			s.set(nil, "1.9.0")
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.9.0")
			wantCondition(w, fleet.ConditionStalled, "False", "")
		},
	})
}

// A HelmOp whose source another caller asks waits for the end of that question, and its
// status does not show the wait.
func TestSourceBusy(t *testing.T) {
	s := newSource("1.0.0")
	s.busy = true
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			// The watch of its own finalizer enqueues it once more.
			if n := len(s.waiting); bundleOf(w) != nil || n < 1 || n > 2 || len(opOf(w).Status.Conditions) > 0 {
				w.Errorf("want it to wait and nothing written, got %d waits, %+v, %+v", n, bundleOf(w), opOf(w).Status)
			}
			s.finish()
		},
		Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
	})
}

// A change of the spec is looked at: the version is asked for again, the Bundle follows.
func TestSpecChanged(t *testing.T) {
	s := newSource("1.0.0", "2.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			changeOp(w, func(op *fleet.HelmOp) {
				op.Spec.Helm.Version, op.Spec.Labels, op.Spec.DefaultNamespace = "", map[string]string{"ring": "2"}, "web"
			})
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "2.0.0")
			b := bundleOf(w)
			if b.Labels["ring"] != "2" || b.Labels["tier"] != "" || b.Spec.DefaultNamespace != "web" {
				w.Errorf("got %+v", b)
			}
		},
	})
}

// A Bundle that a user edits or deletes is put right.
func TestBundleRestored(t *testing.T) {
	for name, edit := range map[string]func(*looptest.World){
		"Edited": func(w *looptest.World) {
			looptest.Change(w, team, "op", func(b *fleet.Bundle) { b.Spec.Helm.Version, b.Spec.HelmOpOptions = "9", nil })
		},
		"Deleted": func(w *looptest.World) { looptest.Remove[*fleet.Bundle](w, team, "op") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource("1.0.0")
			s.play(t, looptest.Loop{
				When: func(w *looptest.World) {
					made(w)
					w.Pass(time.Minute)
					edit(w)
				},
				Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
			})
		})
	}
}

// The manager does not look at a HelmOp again when only the status of its Bundle changes.
func TestBundleStatusIgnored(t *testing.T) {
	s := newSource()
	s.play(t, looptest.Loop{
		Given: given(func(w *looptest.World) {
			looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "auth"}})
		}),
		When: func(w *looptest.World) {
			makeOp(w, func(op *fleet.HelmOp) { op.Spec.Helm.Version, op.Spec.HelmSecretName = "1.0.0", "auth" })
			w.Pass(time.Minute)
			before := len(w.Server.Requests())
			looptest.Change(w, team, "op", func(b *fleet.Bundle) { b.Status.Summary.Ready = 7 })
			w.Pass(time.Minute)
			for _, r := range w.Server.Requests()[before:] {
				if r.Verb == "get" && r.Resource == "secrets" {
					w.Errorf("want nothing read again, got %v", r)
				}
			}
		},
		Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
	})
}

// A deleted HelmOp goes with its Bundle, and after it.
func TestHelmOpDeleted(t *testing.T) {
	s := newSource("1.0.0")
	looptest.Run(t, looptest.Loop{
		Start: s.start(scope.Scope{}), Of: loopName, Given: given(),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			looptest.Remove[*fleet.HelmOp](w, team, "op")
		},
		Then: func(w *looptest.World) {
			if bundleOf(w) != nil || opOf(w) != nil {
				w.Errorf("left: %v, %v", bundleOf(w), opOf(w))
			}
		},
	})
}

// A HelmOp is there until its Bundle is gone, which waits for agents.
func TestHelmOpWaitsForBundle(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			looptest.Change(w, team, "op", func(b *fleet.Bundle) { b.Finalizers = append(b.Finalizers, "test/held") })
			looptest.Remove[*fleet.HelmOp](w, team, "op")
			w.Pass(time.Minute)
			if opOf(w) == nil {
				w.Error("the HelmOp went before its Bundle")
			}
			looptest.Change(w, team, "op", func(b *fleet.Bundle) { b.Finalizers = nil })
		},
		Then: func(w *looptest.World) {
			if bundleOf(w) != nil || opOf(w) != nil {
				w.Errorf("left: %v, %v", bundleOf(w), opOf(w))
			}
		},
	})
}

// A Bundle of the same name that is not of a HelmOp is left alone, and the HelmOp says so.
func TestNameTaken(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		Given: given(func(w *looptest.World) {
			looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "op"}})
		}),
		When: made,
		Then: func(w *looptest.World) {
			wantCondition(w, fleet.ConditionAccepted, "False", "a non-helmops bundle already exists with name op; aborting")
			if b := bundleOf(w); b.Spec.Helm != nil || b.Labels[fleet.LabelHelmOpName] != "" {
				w.Errorf("the Bundle was changed: %+v", b)
			}
		},
	})
}

// A HelmOp waits for its Secret, uses it for its own repository only, and asks again when
// the Secret changes.
func TestSecret(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		When: func(w *looptest.World) {
			makeOp(w, func(op *fleet.HelmOp) {
				op.Spec.HelmSecretName, op.Spec.PollingInterval = "auth", &metav1.Duration{Duration: time.Hour}
			})
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", `there is no Secret "auth"`)
			looptest.Make(w, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "auth"},
				Data:       map[string][]byte{"username": []byte("u"), "password": []byte("p")},
			})
			w.Pass(time.Minute)
			wantVersion(w, "1.0.0")
			s.set(nil, "1.1.0")
			looptest.Change(w, team, "auth", func(secret *corev1.Secret) { secret.Data["password"] = []byte("q") })
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.1.0")
			c, err := s.access.Send(s.access.Default, "https://charts.example.com/index.yaml")
			if err != nil || c.Password != "q" {
				w.Errorf("want the new password sent, got %+v, %v", c, err)
			}
			if c, _ := s.access.Send(s.access.Default, "https://other.example.com/index.yaml"); c.Password != "" {
				w.Error("the password goes to another host")
			}
			if bundleOf(w).Spec.HelmOpOptions.SecretName != "auth" {
				w.Errorf("got %+v", bundleOf(w).Spec.HelmOpOptions)
			}
		},
	})
}

// Defaults of a Policy go to the Bundle and not into the HelmOp, and the Secret that they
// name is used and followed.
func TestDefaults(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		Given: given(func(w *looptest.World) {
			looptest.Make(w, &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "defaults"}, RequireServiceAccount: true,
				HelmOp: &fleet.HelmOpPolicySpec{DefaultServiceAccount: "deployer", DefaultHelmSecretName: "auth"}})
		}),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", `there is no Secret "auth"`)
			looptest.Make(w, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "auth"},
				Data:       map[string][]byte{"username": []byte("u"), "password": []byte("p")},
			})
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.0.0")
			wantCondition(w, fleet.ConditionAccepted, "True", "")
			if b := bundleOf(w); b.Spec.ServiceAccount != "deployer" || b.Spec.HelmOpOptions.SecretName != "auth" {
				w.Errorf("the Bundle lacks the defaults: %+v", b.Spec)
			}
			if spec := opOf(w).Spec; spec.ServiceAccount+spec.HelmSecretName != "" {
				w.Errorf("the HelmOp was changed: %+v", spec)
			}
		},
	})
}

// What forbids a HelmOp keeps its Bundle as it is, and is shown.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*looptest.World)
		text   string
	}{
		"Spec": {func(w *looptest.World) { changeOp(w, func(op *fleet.HelmOp) { op.Spec.Helm.Chart = "" }) }, "non-OCI repository with an empty chart field"},
		"Policy": {func(w *looptest.World) {
			looptest.Make(w, &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "limits"}, RequireServiceAccount: true})
			w.Pass(time.Second)
			changeOp(w, func(op *fleet.HelmOp) { op.Spec.Helm.Version = "1.0.0" })
		}, "serviceAccount is required by Policy but is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource("1.0.0", "1.1.0")
			s.play(t, looptest.Loop{
				When: func(w *looptest.World) {
					made(w)
					w.Pass(time.Minute)
					c.change(w)
				},
				Then: func(w *looptest.World) {
					wantVersion(w, "1.1.0")
					wantCondition(w, fleet.ConditionAccepted, "False", c.text)
					wantCondition(w, fleet.ConditionStalled, "True", c.text)
				},
			})
		})
	}
}

// While the fleet is suspended nothing is written but the status.
func TestSuspended(t *testing.T) {
	s := newSource("1.0.0")
	s.play(t, looptest.Loop{
		Given: given(func(w *looptest.World) {
			looptest.Make(w, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: fleet.ConfigMapBrake}, Data: view.GlobalPause{On: true}.Data(),
			})
		}),
		When: func(w *looptest.World) {
			made(w)
			w.Pass(time.Minute)
			if bundleOf(w) != nil || s.questions() > 0 {
				w.Errorf("want nothing done, got %+v and %d questions", bundleOf(w), s.questions())
			}
			wantCondition(w, fleet.ConditionReconciling, "True", "")
			looptest.Remove[*corev1.ConfigMap](w, system, fleet.ConfigMapBrake)
		},
		Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
	})
}

// A manager leaves alone what is not in its scope.
func TestForeignHelmOp(t *testing.T) {
	s := newSource("1.0.0")
	looptest.Undisturbed(t, looptest.Loop{
		Start: s.start(scope.Scope{Workspaces: []string{"other"}}), Given: given(), When: made,
		Then: func(w *looptest.World) {
			if bundleOf(w) != nil || len(opOf(w).Finalizers) > 0 || s.questions() > 0 {
				w.Errorf("got %+v, %+v", bundleOf(w), opOf(w))
			}
		},
	})
}

// Another process that finds everything done asks only sources that are polled.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*looptest.World)
		more int
	}{"Once": {made, 0}, "Polled": {polled, 1}} {
		t.Run(name, func(t *testing.T) {
			s := newSource("1.0.0")
			s.play(t, looptest.Loop{
				When: func(w *looptest.World) {
					c.make(w)
					w.Pass(time.Minute)
					before := s.questions()
					w.Restart()
					w.Pass(time.Minute)
					if n := s.questions() - before; n != c.more {
						w.Errorf("want %d more questions, got %d", c.more, n)
					}
				},
				Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
			})
		})
	}
}

// rancherSecret is a Secret with authorities of Rancher.
func rancherSecret(name, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: name}, Data: map[string][]byte{key: data}}
}

// The manager and the agents trust the authorities of Rancher, and their changes.
func TestRancherAuthorities(t *testing.T) {
	s := newSource("1.0.0")
	one, _ := webtest.Authority(t)
	two, _ := webtest.Authority(t)
	trusts := func(w *looptest.World, want []byte) {
		w.Helper()
		w.Pass(time.Minute)
		if got := s.lastAccess().Default.CABundle; string(got) != string(want) {
			w.Errorf("the manager trusts\n%s\nwant\n%s", got, want)
		}
		if got := bundleOf(w).Spec.HelmOpOptions.CABundle; string(got) != string(want) {
			w.Errorf("agents trust\n%s\nwant\n%s", got, want)
		}
	}
	s.play(t, looptest.Loop{
		Given: given(func(w *looptest.World) {
			w.Server.MakeNamespace("cattle-system")
			looptest.Make(w, rancherSecret("tls-ca", "cacerts.pem", one))
		}, polled),
		When: func(w *looptest.World) {
			trusts(w, one)
			looptest.Make(w, rancherSecret("tls-ca-additional", "ca-additional.pem", two))
			trusts(w, slices.Concat(one, two))

			looptest.Change(w, "cattle-system", "tls-ca", func(s *corev1.Secret) { s.Data = map[string][]byte{"ca.pem": one} })
			w.Pass(time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", `secret "tls-ca": key "cacerts.pem" in namespace cattle-system holds no PEM certificate`)
			wantVersion(w, "1.0.0")

			looptest.Remove[*corev1.Secret](w, "cattle-system", "tls-ca")
			trusts(w, two)
		},
		Then: func(w *looptest.World) { wantVersion(w, "1.0.0") },
	})
}

// Older versions of Rancher wrote the name of a person into a label; it is removed, and the
// id of the user stays.
func TestDisplayNameRemoved(t *testing.T) {
	newSource("1.0.0").play(t, looptest.Loop{
		When: func(w *looptest.World) {
			makeOp(w, func(op *fleet.HelmOp) {
				op.Labels = map[string]string{"fleet.cattle.io/created-by-display-name": "Ana", "fleet.cattle.io/created-by-user-id": "u-4711"}
			})
		},
		Then: func(w *looptest.World) {
			if got := opOf(w).Labels; len(got) != 1 || got["fleet.cattle.io/created-by-user-id"] != "u-4711" {
				w.Errorf("want the id only, got %v", got)
			}
			wantVersion(w, "1.0.0")
		},
	})
}

// A denial of the Bundle is an event of the HelmOp, and the Bundle is written once it is
// allowed.
func TestBundleDenied(t *testing.T) {
	newSource("1.0.0").play(t, looptest.Loop{
		When: func(w *looptest.World) {
			w.Server.Deny(1, kubetest.Match{Verb: "create", Resource: "bundles"})
			made(w)
		},
		Then: func(w *looptest.World) {
			wantVersion(w, "1.0.0")
			if n := looptest.Events(w, team, eventFailedPatch); n != 1 {
				w.Errorf("want one event, got %d", n)
			}
		},
	})
}
