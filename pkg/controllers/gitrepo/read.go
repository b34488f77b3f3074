package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonNothingToDeploy is the reason of a repository that yields no bundle.
const ReasonNothingToDeploy = "NothingToDeploy"

// fetch reads the head of the repository and writes the Bundles that changed. It
// remembers the result, and adds it to facts for the report.
func (w *Worker) fetch(ctx context.Context, facts *gitrepo.Facts, from what, step gitrepo.Step, log *logrus.Entry) error {
	repo, commit := facts.Repo, facts.Head.Commit
	key := kube.KeyOf(repo)
	log = log.WithField("commit", git.Commit(commit).Short())
	read := gitrepo.Read{
		Known: true, Source: facts.Source, Credentials: facts.Credentials,
		Commit: commit, Generation: repo.Generation, Force: repo.Spec.ForceSyncGeneration,
		Follows: facts.Read.IsOf(repo.Status),
	}
	w.memories.update(key, repo.UID, func(m *memory) { m.lost = false }) // what is lost from now on is noted again
	began := w.now()
	set, err := w.read(ctx, repo, from, git.Commit(commit))
	var done publish.Done
	if !w.owns(key) {
		return err // Bundles have another manager now, and other labels
	}
	if err == nil {
		set, read.Paths = gitrepo.CheckPaths(set, repo, facts.Read)
		request := &pruning{w: w, repo: repo}
		done, err = w.publisher.Publish(ctx, publish.Order{
			Namespace: repo.Namespace, Owner: repo.Name, OCISecret: repo.Spec.OCIRegistrySecret, Pruning: request, Log: log,
			Unmoved: w.unchangedBundles(repo, commit, set), Scans: w.cfg.ImageScans,
		}, set)
		repo = request.repo
	}
	if err == nil {
		read.Verdict = gitrepo.SummarizeFindings(set, done.Findings)
		read.Changed = done.Written+done.Removed > 0
		read.Commits, read.Gone = done.Commits, done.Gone
		facts.Repo, err = w.writeHashes(ctx, repo, from.access.hashes)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	w.cfg.Metrics.recordReading(key, err, w.now().Sub(began))
	read.Err = err
	facts.Read, facts.Lost = read, false
	w.memories.update(key, repo.UID, func(m *memory) {
		m.read, m.taken = read, done.Taken
		m.inputs = inputsOf(set, read, done.Findings)
		m.fetches++
		if err == nil && !read.Retry {
			m.fetches = 0
		}
	})
	w.reportFindings(repo, commit, append(set.AllFindings(), done.Findings...))
	fields := logrus.Fields{"reason": step.Reason}
	if err != nil {
		fields["error"] = err.Error()
		log.WithFields(fields).Warn("repository not read")
		return err
	}
	if done.Written+done.Removed > 0 {
		log.WithFields(fields).Infof("repository read: %d bundles written, %d to be removed, %d unchanged", done.Written, done.Removed, done.Unchanged)
	}
	return nil
}

// reportFindings emits an event for each finding of a commit, once.
func (w *Worker) reportFindings(repo *fleet.GitRepo, commit string, found []finding.Finding) {
	key := kube.KeyOf(repo)
	before := w.memories.get(key, repo.UID).reported
	if before.commit != commit {
		before = reported{commit: commit}
	}
	after := reported{commit: commit, texts: maps.Clone(before.texts)}
	if after.texts == nil {
		after.texts = map[string]bool{}
	}
	for _, n := range gitrepo.Findings(found, before.texts) {
		w.recordEvents(repo, n)
		after.texts[n.Message] = true
	}
	w.memories.update(key, repo.UID, func(m *memory) { m.reported = after })
}

// announce emits an event for a new commit. For a GitRepo that is read for the first
// time, it writes to the status that the reading is in progress. It returns the GitRepo
// as written, with the finalizer.
func (w *Worker) announce(ctx context.Context, facts gitrepo.Facts) (*fleet.GitRepo, error) {
	repo, commit := facts.Repo, facts.Head.Commit
	key := kube.KeyOf(repo)
	if commit != repo.Status.Commit && w.memories.get(key, repo.UID).announced != commit {
		w.memories.update(key, repo.UID, func(m *memory) { m.announced = commit })
		w.recordEvents(repo, gitrepo.Notice{Reason: fleet.EventGotNewCommit, Message: "commit " + commit})
	}
	repo, err := w.repos.AddFinalizer(ctx, repo, fleet.FinalizerGitRepo)
	if err != nil || repo.Status.Commit != "" || repo.Status.GitJobStatus != "" {
		return repo, err
	}
	facts.Repo, facts.Reading = repo, true
	changed := repo.DeepCopy()
	changed.Status = gitrepo.Status(facts, w.now())
	return w.repos.PatchStatus(ctx, repo, changed)
}

// read makes the bundles of a commit.
func (w *Worker) read(ctx context.Context, repo *fleet.GitRepo, from what, commit git.Commit) (bundle.Set, error) {
	tree, err := w.git.Fetch(ctx, from.follow.src, from.follow.ref, commit)
	if err != nil {
		return bundle.Set{}, from.access.explain(err)
	}
	defer tree.Close()
	key := kube.KeyOf(repo)
	o := gitrepo.Options(repo, string(commit))
	o.ImageScans = w.cfg.ImageScans
	set, left, err := w.cfg.Reader.Read(ctx, bundlesource.Input{
		Tree: tree, Paths: repo.Spec.Paths, Entries: repo.Spec.Bundles, Options: o,
		Access: from.access.charts, Previous: w.memories.get(key, repo.UID).reading,
	})
	w.memories.update(key, repo.UID, func(m *memory) { m.reading = left })
	if err != nil {
		return bundle.Set{}, err
	}
	found := addLintWarnings(tree, set, w.memories.get(key, repo.UID).doubts)
	w.memories.update(key, repo.UID, func(m *memory) { m.doubts = found })
	w.names.warnMissing(ctx, repo, tree, &set)
	if !set.Empty() {
		return set, nil
	}
	if errs := finding.Errors(set.Findings); len(errs) > 0 {
		return set, reconcile.TerminalError(errs[0].Reason(), errors.New(errs[0].Short()))
	}
	if text := gitrepo.AllIgnored(set); text != "" {
		return set, reconcile.TerminalError(ReasonNothingToDeploy, errors.New(text))
	}
	if len(set.Absent) > 0 && len(repo.Spec.Bundles) == 0 {
		text := gitrepo.AbsentPath(set.Absent[0])
		if more := len(set.Absent) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		return set, reconcile.TerminalError(ReasonNothingToDeploy, errors.New(text))
	}
	where := "the repository"
	switch paths := repo.Spec.Paths; {
	case len(repo.Spec.Bundles) > 0:
		where = "the bundles that the GitRepo lists"
	case len(paths) > 0:
		where = "paths " + strings.Join(paths, ", ")
	}
	return set, reconcile.TerminalError(ReasonNothingToDeploy, fmt.Errorf("nothing to deploy in %s; what was deployed before stays", where))
}
