package imagescan

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
	"github.com/fleetworkspace/fleet/pkg/controllers/secretcache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

const (
	team = "team" // the workspace of all tests
	// loopName is that of the loop, whose requests fail in most tests.
	loopName = "imagescan"
)

// memoryRegistry is a registry in memory, which all requests lead to.
type memoryRegistry struct {
	mu     sync.Mutex
	tags   []string
	err    error
	listed int
	last   oci.Registry
}

func (r *memoryRegistry) Tags(_ context.Context, from oci.Registry) ([]string, error) {
	time.Sleep(time.Second) // so that those who ask at the same time meet
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed++
	r.last = from
	return slices.Clone(r.tags), r.err
}

func (r *memoryRegistry) Digest(_ context.Context, _ oci.Registry, tag string) (string, error) {
	return "sha256:of-" + tag, nil
}

// set changes what the registry answers.
func (r *memoryRegistry) set(err error, tags ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.tags = err, tags
}

// requests returns how often tags were listed, and with which account last.
func (r *memoryRegistry) requests() (int, oci.Registry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listed, r.last
}

func (r *memoryRegistry) start(sc scope.Scope) func(*kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		log := logrus.New()
		log.SetOutput(io.Discard)
		secrets := secretcache.New(c.Loop("cache"))
		return append(New(Config{Scope: sc, Registry: r, Secrets: secrets, Workers: 4}, c, logrus.NewEntry(log)).Runnables(), secrets)
	}
}

// given makes the namespace, and then what else there is.
func given(make ...func(*looptest.World)) func(*looptest.World) {
	return func(w *looptest.World) {
		w.Server.MakeNamespace(team)
		for _, f := range make {
			f(w)
		}
	}
}

// isScan reports whether a request writes the time of a scan.
func isScan(r kubetest.Request) bool { return r.Resource == "imagescans" && r.Subresource == "status" }

// scanNamed makes an ImageScan of one image every five minutes.
func scanNamed(name string, change ...func(*fleet.ImageScan)) func(*looptest.World) {
	return func(w *looptest.World) {
		s := &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
		s.Spec.Image, s.Spec.Interval = "ghcr.io/a/b", metav1.Duration{Duration: 5 * time.Minute}
		for _, f := range change {
			f(s)
		}
		looptest.Make(w, s)
	}
}

func scanOf(w *looptest.World, name string) *fleet.ImageScan {
	return looptest.Read[*fleet.ImageScan](w, team, name)
}

// wantState checks the newest tag and condition ImageScanned.
func wantState(w *looptest.World, name, tag, status, text string) {
	w.Helper()
	s := scanOf(w, name).Status
	c := condition.Find(s.Conditions, fleet.ConditionImageScanned)
	if s.LatestTag != tag || (status == "") != (c == nil) || c != nil && (string(c.Status) != status || !strings.Contains(c.Message, text)) {
		w.Errorf("want tag %q, ImageScanned=%s %q, got %+v", tag, status, text, s)
	}
}

// wantListed checks how often the registry has listed tags.
func wantListed(w *looptest.World, r *memoryRegistry, want int) {
	w.Helper()
	if got, _ := r.requests(); got != want {
		w.Errorf("tags were listed %d times, want %d", got, want)
	}
}

// A new ImageScan is scanned at once, whichever request fails; what it has found is right
// after a restart, too.
func TestScan(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0", "1.1.0"}}
	looptest.Run(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Of: loopName, Regular: isScan,
		Given: given(scanNamed("s")),
		When:  func(w *looptest.World) { w.Pass(time.Minute) },
		Then: func(w *looptest.World) {
			wantState(w, "s", "1.1.0", "True", "")
			if s := scanOf(w, "s").Status; s.LatestImage != "ghcr.io/a/b:1.1.0" || s.LatestDigest != "sha256:of-1.1.0" || s.ObservedGeneration != 1 {
				w.Errorf("got %+v", s)
			}
		},
	})
}

// The registry is asked once per interval; a restart, a change of the status and a
// neighbour do not ask it sooner. A changed spec and the end of a suspension do.
func TestInterval(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0"}}
	looptest.Undisturbed(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Regular: isScan,
		Given: given(scanNamed("s")),
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			wantListed(w, r, 1)
			w.Restart()
			w.Pass(time.Minute)
			wantListed(w, r, 1)
			r.set(nil, "1.0.0", "2.0.0")
			w.Pass(4 * time.Minute)
			wantListed(w, r, 2)
			wantState(w, "s", "2.0.0", "True", "")
			looptest.Change(w, team, "s", func(s *fleet.ImageScan) { s.Spec.Policy.SemVer = &fleet.SemVerPolicy{Range: "^1"} })
			w.Pass(time.Minute)
			wantListed(w, r, 3)
			wantState(w, "s", "1.0.0", "True", "")
			looptest.Change(w, team, "s", func(s *fleet.ImageScan) { s.Spec.Suspend = true })
			w.Pass(time.Hour)
			wantListed(w, r, 3)
			looptest.Change(w, team, "s", func(s *fleet.ImageScan) { s.Spec.Suspend = false })
			w.Pass(time.Minute)
			wantListed(w, r, 4)
			if n := looptest.Events(w, team, eventNewTag); n != 3 {
				w.Errorf("%d events of new tags, want 3", n)
			}
		},
		Then: func(w *looptest.World) { wantState(w, "s", "1.0.0", "True", "") },
	})
}

// ImageScans of one image and account share one listing.
func TestListingsAreShared(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0"}}
	looptest.Undisturbed(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Regular: isScan,
		Given: given(scanNamed("a"), scanNamed("b"), scanNamed("c"), scanNamed("other", func(s *fleet.ImageScan) { s.Spec.Image = "ghcr.io/c" })),
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			wantListed(w, r, 2)
		},
		Then: func(w *looptest.World) {
			for _, name := range []string{"a", "b", "c", "other"} {
				wantState(w, name, "1.0.0", "True", "")
			}
		},
	})
}

// A failure is shown with its cause, once, and tried again after a growing delay. What was
// found before stays.
func TestFailure(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0"}}
	looptest.Undisturbed(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Regular: isScan,
		Given: given(scanNamed("s")),
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			r.set(reconcile.RequeueError(oci.ReasonUnreachable, 0, errors.New(`registry "ghcr.io" does not answer`)))
			w.Pass(5 * time.Minute)
			wantState(w, "s", "1.0.0", "False", `registry "ghcr.io" does not answer`)
			before, _ := r.requests()
			w.Pass(time.Hour)
			if after, _ := r.requests(); after-before > 12 || after == before {
				w.Errorf("asked %d times in an hour", after-before)
			}
			if n := looptest.Events(w, team, eventScanFailed); n != 1 {
				w.Errorf("%d events of the failure, want 1", n)
			}
			r.set(nil, "1.0.0", "1.2.0")
			w.Pass(20 * time.Minute)
		},
		Then: func(w *looptest.World) { wantState(w, "s", "1.2.0", "True", "") },
	})
}

// The account comes from the Secret, whose changes count at once; Rancher's authorities
// are trusted.
func TestAccount(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0"}}
	ca, _ := webtest.Authority(t)
	pull := func(password string) map[string][]byte {
		return map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"ghcr.io": {"username": "u", "password": "` + password + `"}}}`)}
	}
	looptest.Undisturbed(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Regular: isScan,
		Given: given(func(w *looptest.World) {
			w.Server.MakeNamespace("cattle-system")
			looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-system", Name: "tls-ca"}, Data: map[string][]byte{"cacerts.pem": ca}})
		}, scanNamed("s", func(s *fleet.ImageScan) { s.Spec.SecretRef = &corev1.LocalObjectReference{Name: "pull"} })),
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			wantState(w, "s", "", "False", `secretRef: there is no Secret "pull" in namespace team`)
			wantListed(w, r, 0)
			looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson, Data: pull("one")})
			w.Pass(time.Minute)
			if _, with := r.requests(); with.Username != "u" || with.Password != "one" || string(with.CABundle) != string(ca) || with.BasicHTTP {
				w.Errorf("asked with %+v", with)
			}
			wantState(w, "s", "1.0.0", "True", "")
		},
		Then: func(w *looptest.World) { wantListed(w, r, 1) },
	})
}

// An ImageScan of another shard is left alone.
func TestScope(t *testing.T) {
	r := &memoryRegistry{tags: []string{"1.0.0"}}
	looptest.Undisturbed(t, looptest.Loop{
		Start: r.start(scope.Scope{}), Regular: isScan,
		Given: given(scanNamed("s", func(s *fleet.ImageScan) { s.Labels = map[string]string{fleet.LabelShardRef: "blue"} })),
		When:  func(w *looptest.World) { w.Pass(time.Hour) },
		Then:  func(w *looptest.World) { wantState(w, "s", "", "", ""); wantListed(w, r, 0) },
	})
}
