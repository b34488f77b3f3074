package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/source"
)

// ReasonNothingToDeploy is the reason of a repository that yields no bundle.
const ReasonNothingToDeploy = "NothingToDeploy"

// fetch reads the repository's head and writes what changed. How it went is
// remembered, and put into facts for the report.
func (w *Worker) fetch(ctx context.Context, facts *source.Facts, follow want, step source.Step, log *logrus.Entry) error {
	repo, commit := facts.Repo, facts.Head.Commit
	key := kube.KeyOf(repo)
	log = log.WithField("commit", git.Commit(commit).Short())
	read := source.Read{
		Known: true, Source: facts.Source, Commit: commit, Generation: repo.Generation, Force: repo.Spec.ForceSyncGeneration,
	}
	w.remember(key, repo.UID, func(m *memory) { m.lost = false }) // what is lost from now on counts again
	set, err := w.read(ctx, repo, follow, git.Commit(commit))
	var done summary
	if err == nil {
		done, err = w.write(ctx, repo, set, log)
	}
	if err == nil {
		read.Reason, read.Message = source.Broken(append(set.All(), done.findings...))
		read.Changed = done.written+done.removed > 0
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	read.Err = err
	facts.Read, facts.Lost = read, false
	w.remember(key, repo.UID, func(m *memory) {
		m.read, m.taken = read, done.taken
		m.fetches++
		if err == nil {
			m.fetches = 0
		}
	})
	fields := logrus.Fields{"reason": step.Reason}
	if err != nil {
		fields["error"] = err.Error()
		log.WithFields(fields).Warn("repository not read")
		return err
	}
	if done.written+done.removed > 0 {
		log.WithFields(fields).Infof("repository read: %d bundles written, %d removed, %d unchanged", done.written, done.removed, done.unchanged)
	}
	for _, f := range set.All() {
		if f.Severity == finding.Warning {
			w.tell(repo, source.News{Warning: true, Reason: f.Reason(), Message: f.Short()})
		}
	}
	return nil
}

// announce tells people of a new commit, and says in the status of a GitRepo
// that is read for the first time that this is under way. It returns the
// GitRepo as it is now: with our finalizer.
func (w *Worker) announce(ctx context.Context, facts source.Facts) (*fleet.GitRepo, error) {
	repo, commit := facts.Repo, facts.Head.Commit
	key := kube.KeyOf(repo)
	if commit != repo.Status.Commit && w.recall(key, repo.UID).announced != commit {
		w.remember(key, repo.UID, func(m *memory) { m.announced = commit })
		w.tell(repo, source.News{Reason: fleet.EventGotNewCommit, Message: "commit " + commit})
	}
	repo, err := w.finalized(ctx, repo)
	if err != nil || repo.Status.Commit != "" || repo.Status.GitJobStatus != "" {
		return repo, err
	}
	facts.Repo, facts.Reading = repo, true
	changed := repo.DeepCopy()
	changed.Status = source.Status(facts, w.now())
	return w.repos.PatchStatus(ctx, repo, changed)
}

// read makes the bundles of a commit.
func (w *Worker) read(ctx context.Context, repo *fleet.GitRepo, follow want, commit git.Commit) (bundle.Set, error) {
	tree, err := w.cfg.Remotes.Fetch(ctx, follow.src, follow.ref, commit)
	if err != nil {
		return bundle.Set{}, err
	}
	defer tree.Close()
	set := bundle.Read(tree, repo.Spec.Paths, repo.Spec.Bundles, source.Options(repo, string(commit)))
	if !set.Empty() {
		return set, nil
	}
	if errs := finding.Errors(set.Findings); len(errs) > 0 {
		return set, fault.PermanentError(errs[0].Reason(), errors.New(errs[0].Short()))
	}
	where := "the repository"
	switch paths := repo.Spec.Paths; {
	case len(repo.Spec.Bundles) > 0:
		where = "the bundles that the GitRepo lists"
	case len(paths) > 0:
		where = "paths " + strings.Join(paths, ", ")
	}
	return set, fault.PermanentError(ReasonNothingToDeploy, fmt.Errorf("nothing to deploy in %s; what was deployed before stays", where))
}

// summary counts what was done.
type summary struct {
	written, removed, unchanged int
	findings                    []finding.Finding
	taken                       []string // names that somebody else has
}

// write brings the Bundles in the cluster in line with a reading: first all
// that is new or changed, each after its Secret of values, then what is no
// longer there.
func (w *Worker) write(ctx context.Context, repo *fleet.GitRepo, set bundle.Set, log *logrus.Entry) (summary, error) {
	present, err := w.present(ctx, repo)
	if err != nil {
		return summary{}, err
	}
	plan := source.PlanWrites(set, present)
	done := summary{unchanged: plan.Unchanged, findings: plan.Findings, taken: plan.Taken}
	refused := make([]*finding.Finding, len(plan.Put))
	var written atomic.Int64
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, write := range plan.Put {
		group.Go(func() error {
			if why := w.suspended(); why != "" {
				return fault.WaitError(fleet.ReasonSuspended, 0, errors.New(why))
			}
			f, err := w.put(gctx, repo, write)
			if err == nil && f == nil {
				written.Add(1)
				log.WithFields(logrus.Fields{"bundle": write.New.Name, "reason": write.Reason}).Info("bundle written")
			}
			refused[i] = f
			return err
		})
	}
	err = group.Wait()
	done.written = int(written.Load())
	for _, f := range refused {
		if f != nil {
			done.findings = append(done.findings, *f)
			done.taken = append(done.taken, f.Path)
		}
	}
	switch {
	case err != nil:
		return done, err
	case plan.Err != nil:
		return done, plan.Err
	case len(done.findings) > 0:
		return done, nil // something new is missing, so nothing is removed
	}
	done.removed, err = w.prune(ctx, plan.Remove, log)
	return done, err
}

// present reads what the cluster holds.
func (w *Worker) present(ctx context.Context, repo *fleet.GitRepo) (source.Present, error) {
	selector := fleet.LabelRepoName + "=" + repo.Name
	p := source.Present{Others: map[string]string{}, Secrets: map[string]map[string][]byte{}}
	var err error
	if p.Own, err = w.bundles.List(ctx, repo.Namespace, selector); err != nil {
		return p, err
	}
	for _, b := range w.cache.bundles.List(repo.Namespace) {
		if owner := b.Labels[fleet.LabelRepoName]; owner != repo.Name {
			p.Others[b.Name] = ownerOf(b)
		}
	}
	for _, b := range p.Own { // the cache may be behind
		delete(p.Others, b.Name)
	}
	secrets, err := w.secrets.List(ctx, repo.Namespace, selector)
	if err != nil {
		return p, err
	}
	for _, s := range secrets {
		if s.Type == fleet.SecretTypeBundleValues {
			p.Secrets[s.Name] = s.Data
		}
	}
	return p, nil
}

// ownerOf says in words whose a Bundle is.
func ownerOf(b *metav1.PartialObjectMetadata) string {
	switch {
	case b.Labels[fleet.LabelRepoName] != "":
		return fmt.Sprintf("GitRepo %q", b.Labels[fleet.LabelRepoName])
	case b.Labels[fleet.LabelHelmOpName] != "":
		return fmt.Sprintf("HelmOp %q", b.Labels[fleet.LabelHelmOpName])
	}
	return "no GitRepo"
}

// put writes one Bundle after its values. A Bundle that is refused is a finding,
// so that others go on.
func (w *Worker) put(ctx context.Context, repo *fleet.GitRepo, write source.Write) (*finding.Finding, error) {
	b := write.New
	if write.Secret {
		if f, err := w.putValues(ctx, repo, write); f != nil || err != nil {
			return f, err
		}
	}
	err := w.store(ctx, write)
	switch {
	case kube.IsExists(err):
		return conflict(b, fmt.Sprintf("bundle %q exists and belongs to somebody else; it is not overwritten", b.Name)), nil
	case kube.IsInvalid(err):
		return &finding.Finding{Path: b.Name, Severity: finding.Error, Rule: finding.RuleValue, Message: err.Error()}, nil
	case kube.IsTerminating(err):
		return nil, fault.WaitError(fleet.ReasonProgressing, 0, fmt.Errorf("namespace %q is being deleted", b.Namespace))
	case err != nil:
		return nil, err
	}
	if write.Values == nil && write.Old != nil && write.Old.Spec.ValuesHash != "" {
		return nil, w.dropValues(ctx, kube.KeyOf(b))
	}
	return nil, nil
}

// store creates or changes a Bundle. Its status is written all the time by
// others, so that a patch may come too late a few times.
func (w *Worker) store(ctx context.Context, write source.Write) error {
	if write.Old == nil {
		_, err := w.bundles.Create(ctx, write.New)
		return err
	}
	old, changed := write.Old, write.New
	for try := 0; ; try++ {
		_, err := w.bundles.Patch(ctx, old, changed)
		if !kube.IsConflict(err) || try == 5 {
			return err
		}
		fresh, err := w.bundles.Get(ctx, kube.KeyOf(old))
		if err != nil {
			return err
		}
		if fresh.UID != old.UID || fresh.DeletionTimestamp != nil || fresh.Labels[fleet.LabelRepoName] != old.Labels[fleet.LabelRepoName] {
			return fault.WaitError(fleet.ReasonProgressing, 0, fmt.Errorf("bundle %q was changed by somebody else meanwhile", old.Name))
		}
		old, changed = fresh, source.Onto(fresh, write.New)
	}
}

func conflict(b *fleet.Bundle, message string) *finding.Finding {
	return &finding.Finding{Path: b.Name, Severity: finding.Error, Rule: finding.RuleConflict, Message: message}
}

// putValues writes the Secret of a Bundle's values. A Secret of that name that
// is not ours is not touched.
func (w *Worker) putValues(ctx context.Context, repo *fleet.GitRepo, write source.Write) (*finding.Finding, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: write.New.Name, Namespace: write.New.Namespace,
			Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelRepoName: repo.Name},
		},
		Type: fleet.SecretTypeBundleValues,
		Data: write.Values,
	}
	_, err := w.secrets.Create(ctx, secret)
	switch {
	case kube.IsTerminating(err):
		return nil, fault.WaitError(fleet.ReasonProgressing, 0, fmt.Errorf("namespace %q is being deleted", secret.Namespace))
	case kube.IsInvalid(err):
		return unkeepable(secret.Name), nil
	case !kube.IsExists(err):
		return nil, err
	}
	old, err := w.secrets.Get(ctx, kube.KeyOf(secret))
	if err != nil {
		return nil, err
	}
	if old.Type != secret.Type {
		return conflict(write.New, fmt.Sprintf("secret %q exists and is not Fleet's; the bundle's values cannot be kept", secret.Name)), nil
	}
	changed := old.DeepCopy()
	changed.Labels, changed.Data = secret.Labels, secret.Data
	if _, err = w.secrets.Patch(ctx, old, changed); kube.IsInvalid(err) {
		return unkeepable(secret.Name), nil
	}
	return nil, err
}

// unkeepable is said of values that a Secret refuses. The API server's own text
// might repeat them.
func unkeepable(name string) *finding.Finding {
	return &finding.Finding{
		Path: name, Severity: finding.Error, Rule: finding.RuleValue,
		Message: "its values cannot be kept in a Secret: they may have 1 MiB in all",
	}
}

// dropValues removes the Secret of a Bundle that has no values any more.
func (w *Worker) dropValues(ctx context.Context, key kube.Key) error {
	old, err := w.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil || old.Type != fleet.SecretTypeBundleValues {
		return err
	}
	return w.secrets.Delete(ctx, key, kube.Precondition{UID: old.UID, ResourceVersion: old.ResourceVersion})
}

// prune removes Bundles. Their finalizer keeps them until their deployments are
// withdrawn, which is the engine's work.
func (w *Worker) prune(ctx context.Context, list []*fleet.Bundle, log *logrus.Entry) (int, error) {
	removed := 0
	for _, b := range list {
		if why := w.suspended(); why != "" {
			return removed, fault.WaitError(fleet.ReasonSuspended, 0, errors.New(why))
		}
		if err := w.removeBundle(ctx, b); err != nil {
			return removed, err
		}
		removed++
		log.WithFields(logrus.Fields{"bundle": b.Name, "reason": "no longer in the repository"}).Info("bundle removed")
	}
	return removed, nil
}

func (w *Worker) removeBundle(ctx context.Context, b metav1.Object) error {
	w.mu.Lock()
	w.removed[b.GetUID()] = true
	w.mu.Unlock()
	err := w.bundles.Delete(ctx, kube.KeyOf(b), kube.Precondition{UID: b.GetUID()})
	if err != nil {
		w.letGo(b.GetUID())
	}
	return err
}
