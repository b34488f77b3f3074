// Package imagecommit has the controller that commits to repositories what ImageScans have
// found. It runs in the process that reads repositories, with the same stores and rights.
//
// It works on GitRepos: it decides (package imageupdate), replaces marked values in the
// files of the branch's head, pushes one commit, and writes condition ImageSynced. The
// commit is deployed like any other: the reader finds it.
package imagecommit

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/imageupdate"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// byRepo is the index of ImageScans by "namespace/name" of their GitRepo.
const byRepo = "repo"

// workers is how many repositories are committed to at once.
const workers = 4

// EventImagesCommitted is the reason of the event for a commit.
const EventImagesCommitted = "ImagesCommitted"

// Remotes commits to repositories; *git.Remotes does.
type Remotes interface {
	Update(ctx context.Context, src git.Source, branch string, change func(fs.FS) (git.Change, error)) (git.Commit, error)
}

// Repositories knows GitRepos and how they are reached; *gitrepo.Worker does.
type Repositories interface {
	Repo(key kube.Key) (*fleet.GitRepo, bool)
	Access(ctx context.Context, repo *fleet.GitRepo) (gitrepo.Access, error)
	OnReconciled(f func(kube.Key))
	Look(key kube.Key)
}

// Config configures the controller.
type Config struct {
	// Scope selects the GitRepos of this process; the zero Scope selects all.
	Scope scope.Scope
	// Remotes commits. The caller closes it.
	Remotes Remotes
	// Repositories is the loop that reads GitRepos; its caches run with that loop.
	Repositories Repositories
}

// A Controller is the loop and its cache.
type Controller struct {
	cfg    Config
	log    *logrus.Entry
	now    func() time.Time
	repos  *kube.Store[*fleet.GitRepo]
	scans  *kube.Cache[*fleet.ImageScan]
	events *kube.Recorder
	loop   *kube.Controller

	mu     sync.Mutex
	memory map[kube.Key]memory
}

// memory is what is remembered of a GitRepo between runs. Without it, a commit is tried
// once more.
type memory struct {
	uid      types.UID
	failed   imageupdate.Attempt
	failures int       // in a row
	synced   time.Time // of the last success, which the cache may not have yet
}

// New prepares the controller; it sends no request before its parts run.
func New(cfg Config, client *kube.Client, log *logrus.Entry) *Controller {
	own := client.Loop("imagecommit")
	c := &Controller{cfg: cfg, log: log, now: time.Now, repos: kube.StoreOf[*fleet.GitRepo](own), memory: map[kube.Key]memory{}}
	c.events = kube.NewRecorder(client, "gitjob")
	c.scans = kube.NewCache(client.Loop("cache"), kube.Watch{}, stripScan)
	c.scans.Index(byRepo, func(s *fleet.ImageScan) []string { return []string{repoOf(s).String()} })
	c.loop = kube.NewController("imagecommit", workers, c.Reconcile)
	c.scans.OnChange(func(old, changed *fleet.ImageScan) {
		for _, s := range []*fleet.ImageScan{old, changed} {
			if s != nil {
				c.loop.Add(repoOf(s))
			}
		}
	})
	cfg.Repositories.OnReconciled(c.loop.Add)
	return c
}

// stripScan drops the fields that this package does not read.
func stripScan(s *fleet.ImageScan) { s.Annotations, s.ManagedFields = nil, nil }

func repoOf(s *fleet.ImageScan) kube.Key {
	return kube.Key{Namespace: s.Namespace, Name: s.Spec.GitRepoName}
}

// Loops returns the loop, for metrics.
func (c *Controller) Loops() []*kube.Controller { return []*kube.Controller{c.loop} }

// Runnables returns the cache and the loop to run.
func (c *Controller) Runnables() []kube.Runner { return []kube.Runner{c.scans, c.events, c.loop} }

// Reconcile commits to the repository of one GitRepo what its ImageScans have found, if
// that is due.
//
//  1. gather: the GitRepo, its ImageScans and its credentials
//  2. decide: imageupdate.Decide
//  3. act:    rewrite files and push
//  4. report: one patch of the status, if its meaning changed
//
// It may run at any time and any number of times: a head that holds the newest images is
// not committed to.
func (c *Controller) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	repo, ok := c.cfg.Repositories.Repo(key)
	if !ok || !c.cfg.Scope.Owns(repo) {
		c.forget(key)
		return kube.Done, nil
	}
	scans := c.scans.ByIndex(byRepo, key.String())
	if repo.DeletionTimestamp != nil || len(scans) == 0 && condition.Find(repo.Status.Conditions, fleet.ConditionImageSynced) == nil {
		return kube.Done, nil
	}
	access, err := c.cfg.Repositories.Access(ctx, repo)
	if err != nil {
		return kube.Done, err
	}
	m := c.recall(key, repo.UID)
	known := *repo
	if m.synced.After(known.Status.LastSyncedImageScanTime.Time) {
		known.Status.LastSyncedImageScanTime.Time = m.synced
	}
	d := imageupdate.Decide(imageupdate.Facts{
		Repo: &known, Scans: scans, Source: access.Source.ID(), Writable: access.Writable,
		Refused: access.Refused, Suspended: access.Suspended, Last: m.failed,
	}, c.now())
	if d.Action == imageupdate.Commit {
		return c.commit(ctx, repo, access, d)
	}
	err = c.report(ctx, repo, func(repo *fleet.GitRepo) fleet.GitRepoStatus { return imageupdate.DecidedStatus(repo, d, c.now()) })
	return kube.Result{After: d.After}, err
}

// errChanged says that a GitRepo changed while a commit for it was made.
var errChanged = errors.New("the GitRepo has changed meanwhile")

// commit makes the commit that is due, and reports what became of it.
func (c *Controller) commit(ctx context.Context, repo *fleet.GitRepo, access gitrepo.Access, d imageupdate.Decision) (kube.Result, error) {
	key, now := kube.KeyOf(repo), c.now()
	out := imageupdate.Outcome{Branch: git.Reference{Branch: repo.Spec.Branch}.String(), Notes: d.Notes}
	commit, err := c.cfg.Remotes.Update(ctx, access.Source, out.Branch, func(files fs.FS) (git.Change, error) {
		out.Rewrite = imageupdate.Rewrite{}
		if live, ok := c.cfg.Repositories.Repo(key); !ok || live.UID != repo.UID || live.Generation != repo.Generation ||
			live.DeletionTimestamp != nil || !c.cfg.Scope.Owns(live) {
			return git.Change{}, errChanged
		}
		rewrite, err := imageupdate.RewriteTree(files, repo.Spec, d.Values)
		if err != nil || len(rewrite.Files) == 0 {
			out.Rewrite = rewrite
			return git.Change{}, err
		}
		out.Rewrite = rewrite
		message, err := imageupdate.Message(repo, out.Branch, rewrite.Changes)
		name, email := imageupdate.Author(repo.Spec)
		return git.Change{Files: rewrite.Files, Message: message, Author: git.Signature{Name: name, Email: email, Time: now}}, err
	})
	switch {
	case errors.Is(err, context.Canceled):
		return kube.Done, err
	case errors.Is(err, errChanged):
		return kube.Result{After: time.Second}, nil
	}
	out.Commit, out.Err = string(commit), access.Explain(err)
	c.announce(repo, out)
	if err := c.report(ctx, repo, func(repo *fleet.GitRepo) fleet.GitRepoStatus { return imageupdate.Status(repo, out, now) }); err != nil {
		return kube.Done, err
	}
	m := c.recall(key, repo.UID)
	if out.Err == nil {
		c.remember(key, memory{uid: repo.UID, synced: now})
		return kube.Result{After: imageupdate.Interval(repo.Spec)}, nil
	}
	if m.failed.Inputs != d.Inputs {
		m.failures = 0
	}
	m.failures++
	after := imageupdate.RetryAfter(repo.Spec, out.Err, m.failures)
	m.failed = imageupdate.Attempt{Inputs: d.Inputs, Until: now.Add(after)}
	c.remember(key, m)
	return kube.Result{After: after}, nil
}

// announce logs an attempt, and after a push emits an event and asks the repository for its
// new head.
func (c *Controller) announce(repo *fleet.GitRepo, out imageupdate.Outcome) {
	log := c.log.WithFields(naming.LogFields("gitrepo", repo))
	switch {
	case out.Err != nil:
		log.WithField("error", out.Err.Error()).Warn("images not committed")
	case out.Commit != "":
		log.WithField("commit", git.Commit(out.Commit).Short()).WithField("reason", out.Summary()).Info("images committed")
		c.events.Event(repo, kube.Normal, EventImagesCommitted, "commit "+out.Commit+" to branch "+out.Branch+": "+out.Summary())
		c.cfg.Repositories.Look(kube.KeyOf(repo))
	}
}

// report writes the status if it has changed, and emits an event for a new problem.
func (c *Controller) report(ctx context.Context, repo *fleet.GitRepo, status func(*fleet.GitRepo) fleet.GitRepoStatus) error {
	var old, now fleet.GitRepoStatus
	_, err := c.repos.MutateStatus(ctx, repo, func(repo *fleet.GitRepo) error {
		old, now = repo.Status, status(repo)
		repo.Status = now
		return nil
	})
	if err != nil {
		return kube.IgnoreGone(err)
	}
	if n := condition.Turned(old.Conditions, now.Conditions, fleet.ConditionImageSynced, corev1.ConditionFalse); n != nil {
		c.events.Event(repo, kube.Warning, n.Reason, n.Message)
	}
	return nil
}

// recall returns what is remembered of a GitRepo; nothing for another object of the same
// name.
func (c *Controller) recall(key kube.Key, uid types.UID) memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memory[key]; m.uid == uid {
		return m
	}
	return memory{uid: uid}
}

func (c *Controller) remember(key kube.Key, m memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory[key] = m
}

func (c *Controller) forget(key kube.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memory, key)
}
