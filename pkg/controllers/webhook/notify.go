package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/webhook"
)

// notifiers is how many GitRepos of one request are written at once.
const notifiers = 8

// notify writes the commits of a push to the GitRepos that it concerns. What goes wrong
// with one of them does not stop the others. It returns the worst status.
func (r *Receiver) notify(ctx context.Context, push webhook.Push, j *judge) int {
	var mu sync.Mutex
	worst := http.StatusOK
	var group errgroup.Group
	group.SetLimit(notifiers)
	for _, a := range r.affected(push) {
		group.Go(func() error {
			code := r.notifyOne(ctx, a, j)
			mu.Lock()
			defer mu.Unlock()
			worst = max(worst, code)
			return nil
		})
	}
	_ = group.Wait()
	return worst
}

// An announcement is what a push announces to one GitRepo.
type announcement struct {
	repo   *fleet.GitRepo
	commit string
}

// affected returns the GitRepos that follow a branch of the push, each once, without those
// that know the commit.
func (r *Receiver) affected(push webhook.Push) []announcement {
	var list []announcement
	for _, id := range push.Repositories() {
		for _, repo := range r.cache.ByIndex(byRepository, indexKey(id)) {
			commit := push.CommitFor(repo)
			if commit != "" && commit != repo.Status.WebhookCommit && r.cfg.Scope.Holds(repo.Namespace) {
				list = append(list, announcement{repo, commit})
			}
		}
	}
	return list
}

// notifyOne writes a commit to one GitRepo, if its Secret allows it. It returns the status
// of the answer.
func (r *Receiver) notifyOne(ctx context.Context, a announcement, j *judge) int {
	log := r.log.WithFields(naming.LogFields("gitrepo", a.repo)).WithField("commit", a.commit)
	signed, code, err := j.judge(ctx, a.repo)
	if err == nil {
		code = http.StatusInternalServerError
		_, err = r.repos.MutateStatus(ctx, a.repo, func(repo *fleet.GitRepo) error {
			if repo.Status.WebhookCommit != a.commit {
				repo.Status.WebhookCommit, repo.Status.LastWebhookTime = a.commit, metav1.Time{Time: r.now()}
			}
			return nil
		})
		err = kube.IgnoreGone(err)
	}
	switch {
	case err != nil:
		r.refusals.Do(func() { log.WithField("error", err.Error()).Warnf("webhook refused with status %d", code) })
		return code
	case signed:
		log.Info("a webhook announced a commit")
	default:
		log.Warn("a webhook announced a commit without a signature, which is deprecated: " +
			"make a Secret and name it in webhookSecret of the GitRepo")
	}
	return http.StatusOK
}

// A judge decides for the GitRepos of one request whether it is authentic. It reads each
// Secret once.
type judge struct {
	r        *Receiver
	provider *provider
	header   http.Header
	body     []byte

	mu       sync.Mutex
	verdicts map[subject]verdict
}

// A subject is a Secret that a GitRepo names, or the one of the installation.
type subject struct {
	key   kube.Key
	named bool
}

// A verdict is what a Secret says about a request.
type verdict struct {
	signed bool
	code   int // if err is not nil
	err    error
}

// Reasons for which a request is not accepted.
var (
	errSignature = errors.New("the signature or the token is wrong or missing")
	errUnsigned  = errors.New("too many webhooks without a signature")
)

// judge decides by the Secret that a GitRepo names, or else by that of the installation.
// If there is neither, the request is accepted without a signature.
func (j *judge) judge(ctx context.Context, repo *fleet.GitRepo) (signed bool, code int, err error) {
	s := subject{key: kube.Key{Namespace: j.r.cfg.Namespace, Name: fleet.SecretWebhook}}
	if name := repo.Spec.WebhookSecret; name != "" {
		s = subject{key: kube.Key{Namespace: repo.Namespace, Name: name}, named: true}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	v, ok := j.verdicts[s]
	if !ok {
		v = j.verify(ctx, s)
		if j.verdicts == nil {
			j.verdicts = map[subject]verdict{}
		}
		j.verdicts[s] = v
	}
	return v.signed, v.code, v.err
}

// verify compares the request with one Secret. Without a Secret that a GitRepo names, the
// request fails; without the one of the installation, it needs no signature.
func (j *judge) verify(ctx context.Context, s subject) verdict {
	secret, err := j.r.secrets.Get(ctx, s.key)
	switch {
	case kube.IsGone(err) && !s.named && j.r.unsigned.Allow():
		return verdict{}
	case kube.IsGone(err) && !s.named:
		return verdict{code: http.StatusTooManyRequests, err: errUnsigned}
	case err != nil:
		return verdict{code: http.StatusInternalServerError, err: err}
	}
	for _, name := range j.provider.keys {
		if len(secret.Data[name]) == 0 {
			err := fmt.Errorf("secret %q in namespace %s has no key %s", s.key.Name, s.key.Namespace, name)
			return verdict{code: http.StatusInternalServerError, err: err}
		}
	}
	if !j.provider.verify(j.header, j.body, secret.Data) {
		return verdict{code: http.StatusUnauthorized, err: errSignature}
	}
	return verdict{signed: true}
}
