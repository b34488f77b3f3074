package imagecommit

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/imageupdate"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

const ws = "team"

// A host is a repository in memory, and the loop that reads it.
type host struct {
	cache   *kube.Cache[*fleet.GitRepo]
	changed func(kube.Key)

	mu      sync.Mutex
	files   fstest.MapFS
	err     error // what Update answers, if not nil
	access  gitrepo.Access
	tries   int
	pushed  []git.Change
	looks   int
	inRound func() // what happens while the next commit is made
}

func (h *host) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files = fstest.MapFS{
		"a.yaml": {Data: []byte("image: nginx:1 # {\"$imagescan\": \"web\"}\n"), Mode: 0o644},
		"b.yaml": {Data: []byte("image: redis:1 # {\"$imagescan\": \"db\"}\n"), Mode: 0o644},
	}
	h.err, h.tries, h.pushed, h.looks, h.inRound = nil, 0, nil, 0, nil
	h.access = gitrepo.Access{Source: git.Source{URL: "https://git.example/repo"}, Writable: true}
}

func (h *host) Update(_ context.Context, _ git.Source, _ string, change func(fs.FS) (git.Change, error)) (git.Commit, error) {
	h.mu.Lock()
	files, err, meanwhile := maps.Clone(h.files), h.err, h.inRound
	h.inRound = nil
	h.tries++
	h.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
		time.Sleep(time.Second) // the caches hear of it
	}
	if err != nil {
		return "", err
	}
	c, err := change(files)
	if err != nil || len(c.Files) == 0 {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, data := range c.Files {
		h.files[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	h.pushed = append(h.pushed, c)
	sum := sha1.Sum([]byte(c.Message))
	return git.Commit(hex.EncodeToString(sum[:])), nil
}

func (h *host) Repo(key kube.Key) (*fleet.GitRepo, bool) { return h.cache.Get(key) }
func (h *host) OnReconciled(f func(kube.Key))            { h.changed = f }

func (h *host) Access(context.Context, *fleet.GitRepo) (gitrepo.Access, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.access, nil
}

func (h *host) Look(kube.Key) { h.set(func() { h.looks++ }) }

func (h *host) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *host) start(c *kube.Client) []kube.Runner {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h.cache = kube.NewCache(c.Loop("cache"), kube.Watch{}, func(*fleet.GitRepo) {})
	loop := New(Config{Remotes: h, Repositories: h, Scope: scope.Scope{}}, c, logrus.NewEntry(log))
	h.cache.OnChange(func(old, changed *fleet.GitRepo) {
		if changed != nil && (old == nil || old.Generation != changed.Generation) {
			h.changed(kube.KeyOf(changed))
		}
	})
	return append([]kube.Runner{h.cache}, loop.Runnables()...)
}

// given makes a GitRepo with two scans that have found an image each.
func (h *host) given(change func(*fleet.GitRepo)) func(*looptest.World) {
	return func(w *looptest.World) {
		h.reset()
		w.Server.MakeNamespace(ws)
		r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "repo"}}
		r.Spec.Repo, r.Spec.Branch = "https://git.example/repo", "main"
		r.Spec.ImageScanInterval = &metav1.Duration{Duration: 24 * time.Hour}
		r.Spec.ImageScanCommit = &fleet.CommitSpec{AuthorName: "Robot", MessageTemplate: "{{.Total}} images"}
		if change != nil {
			change(r)
		}
		looptest.Make(w, r)
		makeScan(w, "a", "web", "docker.io/nginx:2")
		makeScan(w, "b", "db", "docker.io/redis:2")
	}
}

func makeScan(w *looptest.World, name, tagName, image string) {
	w.Helper()
	s := &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: name}}
	s.Spec = fleet.ImageScanSpec{TagName: tagName, GitRepoName: "repo", Image: "x", Interval: metav1.Duration{Duration: time.Minute}}
	looptest.Make(w, s)
	looptest.Change(w, ws, name, func(s *fleet.ImageScan) { s.Status.LatestImage = image })
}

func synced(w *looptest.World) *fleet.Condition {
	return condition.Find(looptest.Read[*fleet.GitRepo](w, ws, "repo").Status.Conditions, fleet.ConditionImageSynced)
}

// wantSynced checks condition ImageSynced.
func wantSynced(w *looptest.World, status corev1.ConditionStatus, reason, text string) {
	w.Helper()
	if c := synced(w); c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
		w.Errorf("want ImageSynced %s %q with %q, got %+v", status, reason, text, c)
	}
}

// Two scans are one commit, whatever fails and whenever the process ends.
func TestOneCommit(t *testing.T) {
	h := &host{}
	looptest.Run(t, looptest.Loop{
		Start: h.start, Given: h.given(nil), Of: "imagecommit",
		Then: func(w *looptest.World) {
			wantSynced(w, corev1.ConditionTrue, "", `branch "main"`)
			if looptest.Read[*fleet.GitRepo](w, ws, "repo").Status.LastSyncedImageScanTime.IsZero() {
				w.Error("want the time of the commit")
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.pushed) != 1 || len(h.pushed[0].Files) != 2 || h.pushed[0].Message != "2 images" || h.pushed[0].Author.Name != "Robot" || h.looks != 1 {
				w.Errorf("want one commit and one look at the repository, got %+v and %d", h.pushed, h.looks)
			}
		},
	})
}

// A commit is made when imageScanInterval has passed, not when a scan reports.
func TestInterval(t *testing.T) {
	h := &host{}
	looptest.Undisturbed(t, looptest.Loop{
		Start: h.start, Given: h.given(nil), Rests: time.Minute,
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			looptest.Change(w, ws, "a", func(s *fleet.ImageScan) { s.Status.LatestImage = "docker.io/nginx:3" })
			w.Pass(23 * time.Hour)
			h.set(func() {
				if len(h.pushed) != 1 {
					w.Errorf("want nothing before the interval has passed, got %d commits", len(h.pushed))
				}
			})
			w.Pass(time.Hour)
		},
		Then: func(w *looptest.World) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.pushed) != 2 || !strings.Contains(string(h.files["a.yaml"].Data), "nginx:3") {
				w.Errorf("want a second commit, got %d", len(h.pushed))
			}
		},
	})
}

// A failure that may pass is tried again with a growing delay; one that stays waits for a
// change, and a change is tried at once.
func TestFailures(t *testing.T) {
	h := &host{}
	for name, c := range map[string]struct {
		err       error
		min, max  int // tries in ten minutes
		reason    string
		condition string
	}{
		"Passing": {reconcile.RequeueError(git.ReasonUnreachable, time.Second, errors.New("host is down")), 10, 30, git.ReasonUnreachable, "host is down"},
		"Lasting": {reconcile.TerminalError(git.ReasonPushRefused, errors.New("no rights")), 1, 1, git.ReasonPushRefused, "no rights"},
	} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: h.start, Rests: time.Minute,
				Given: func(w *looptest.World) { h.given(nil)(w); h.set(func() { h.err = c.err }) },
				When: func(w *looptest.World) {
					w.Pass(10 * time.Minute)
					h.set(func() {
						if h.tries < c.min || h.tries > c.max {
							w.Errorf("%d tries in ten minutes, want %d to %d", h.tries, c.min, c.max)
						}
					})
					wantSynced(w, corev1.ConditionFalse, c.reason, c.condition)
					h.set(func() { h.err = nil })
					looptest.Change(w, ws, "repo", func(r *fleet.GitRepo) { r.Spec.ImageScanCommit.AuthorName = "Ana" })
				},
				Then: func(w *looptest.World) { wantSynced(w, corev1.ConditionTrue, "", "2 values in 2 files") },
			})
		})
	}
}

// What prevents commits is shown, and nothing is pushed.
func TestBlocked(t *testing.T) {
	h := &host{}
	cases := map[string]struct {
		repo         func(*fleet.GitRepo)
		when         func(*looptest.World)
		reason, text string
	}{
		"NoSettings": {repo: func(r *fleet.GitRepo) { r.Spec.ImageScanCommit = nil }, reason: imageupdate.ReasonSettingsMissing, text: "spec.imageScanCommit is missing"},
		"Pinned":     {repo: func(r *fleet.GitRepo) { r.Spec.Revision = "v1" }, reason: imageupdate.ReasonPinned, text: "pins"},
		"NoSecret":   {when: func(*looptest.World) { h.set(func() { h.access.Writable = false }) }, reason: imageupdate.ReasonNoCredentials, text: imageupdate.NoCredentials},
		"Restricted": {when: func(*looptest.World) {
			h.set(func() { h.access.Refused = reconcile.TerminalError(fleet.EventPolicyViolation, errors.New("a Policy")) })
		}, reason: fleet.EventPolicyViolation, text: "a Policy"},
		"Outside":  {repo: func(r *fleet.GitRepo) { r.Spec.Paths = []string{"../x"} }, reason: imageupdate.ReasonInvalidPath, text: "resolves outside the repository root"},
		"Template": {repo: func(r *fleet.GitRepo) { r.Spec.ImageScanCommit.MessageTemplate = "{{" }, reason: imageupdate.ReasonInvalidTemplate, text: "messageTemplate"},
		"Scan": {when: func(w *looptest.World) {
			looptest.Change(w, ws, "b", func(s *fleet.ImageScan) {
				s.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionImageScanned, Status: "False", Message: "no tag found"}}
			})
		}, reason: imageupdate.ReasonScanFailed, text: `image scan "b" of x has failed: no tag found`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: h.start,
				Given: func(w *looptest.World) {
					h.given(c.repo)(w)
					if c.when != nil {
						c.when(w)
					}
				},
				Then: func(w *looptest.World) {
					wantSynced(w, corev1.ConditionFalse, c.reason, c.text)
					h.set(func() {
						if len(h.pushed) > 0 {
							w.Errorf("pushed %+v", h.pushed)
						}
					})
				},
			})
		})
	}
}

// A GitRepo that changes while its commit is made is committed to as it is then, and one
// that is deleted not at all; without scans the condition goes.
func TestChangeMeanwhile(t *testing.T) {
	h := &host{}
	looptest.Undisturbed(t, looptest.Loop{
		Start: h.start,
		Given: func(w *looptest.World) {
			h.given(nil)(w)
			h.inRound = func() {
				looptest.Change(w, ws, "repo", func(r *fleet.GitRepo) { r.Spec.Paths = []string{"none"} })
			}
		},
		When: func(w *looptest.World) {
			w.Pass(time.Minute)
			wantSynced(w, corev1.ConditionTrue, "", "holds the newest images")
			looptest.Remove[*fleet.ImageScan](w, ws, "a")
			looptest.Remove[*fleet.ImageScan](w, ws, "b")
		},
		Then: func(w *looptest.World) {
			if c := synced(w); c != nil || len(h.pushed) > 0 {
				w.Errorf("want no condition and no commit, got %+v, %+v", c, h.pushed)
			}
		},
	})
}
