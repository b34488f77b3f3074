package sources

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/hack/measure"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// timeout is how long one commit may take before the bench gives up.
const timeout = 2 * time.Minute

// commits measures how long a commit takes from git push to Ready on both
// downstream clusters, for a bundle of one ConfigMap.
func (b *bench) commits(ctx context.Context) error {
	measure.Title("From git push to Ready on both clusters, one ConfigMap")
	measure.Row("how the commit is noticed", "median", "all, sorted")
	measure.Row("---", "---:", "---")
	for _, way := range []way{
		{"polling, `pollingInterval: 1s`, pushed at a random moment", time.Second, nil},
		{"forced: `forceSyncGeneration` raised right after the push", time.Hour, (*series).force},
		{"a signed webhook of GitHub right after the push, no polling", 0, (*series).announce},
	} {
		times, err := b.series(ctx, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		measure.Row(way.name, measure.Seconds(measure.Median(times)), measure.List(times))
	}
	return nil
}

// A way is how the manager notices a commit.
type way struct {
	name     string
	polling  time.Duration // 0: there is none
	announce func(s *series, ctx context.Context, commit string) error
}

// series makes a repository of its own and measures one commit after another.
func (b *bench) series(ctx context.Context, w way) ([]time.Duration, error) {
	s, err := b.newSeries(ctx, w.polling)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	var times []time.Duration
	for i := range b.runs + 1 {
		if w.announce == nil { // a push at once after Ready would always meet the same moment between two polls
			pause(ctx, rand.N(w.polling))
		} else { // webhooks make the manager ask every 2 s at most, and a status is soon written once a second only
			pause(ctx, 3*time.Second)
		}
		took, err := s.one(ctx, fmt.Sprint("value ", i), w.announce)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first one installs
			times = append(times, took)
		}
	}
	return times, s.remove(ctx)
}

// A series is a repository that is deployed again and again.
type series struct {
	b       *bench
	name    string
	tree    string
	repos   *kube.Store[*api.GitRepo]
	cache   *kube.Cache[*api.GitRepo]
	changed chan struct{}
	stop    context.CancelFunc
}

func (b *bench) newSeries(ctx context.Context, polling time.Duration) (*series, error) {
	name := "bench-" + polling.String()
	s := &series{
		b: b, name: name, tree: b.tree + "-" + name,
		repos: kube.StoreOf[*api.GitRepo](b.Client()), changed: make(chan struct{}, 1),
	}
	if err := b.Git.Create(name); err != nil {
		return nil, err
	}
	if err := gitserver.Clone(b.Git.Path(name), s.tree); err != nil {
		return nil, err
	}
	if _, err := s.commit("nothing yet"); err != nil {
		return nil, err
	}
	if err := push(s.tree); err != nil {
		return nil, err
	}
	s.cache = kube.NewCache[*api.GitRepo](b.Client(), kube.Watch{Namespace: api.NamespaceDefault, Fields: "metadata.name=" + name}, nil)
	s.cache.OnChange(func(_, _ *api.GitRepo) {
		select {
		case s.changed <- struct{}{}:
		default: // the receiver will look anyway
		}
	})
	watch, stop := context.WithCancel(ctx)
	s.stop = stop
	go func() { _ = s.cache.Run(watch) }() // ends with stop
	repo := &api.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: name},
		Spec: api.GitRepoSpec{
			Repo: b.Git.URL(name), Branch: gitserver.Branch, PollingInterval: &metav1.Duration{Duration: polling},
			Targets: []api.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}},
		},
	}
	if polling == 0 {
		repo.Spec.PollingInterval, repo.Spec.DisablePolling, repo.Spec.WebhookSecret = nil, true, name
		_, err := kube.StoreOf[*corev1.Secret](b.Client()).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: name}, Data: map[string][]byte{"github": []byte(webhookKey)},
		})
		if err != nil {
			return nil, err
		}
	}
	_, err := s.repos.Create(ctx, repo)
	return s, err
}

// webhookKey signs the webhooks of a series.
const webhookKey = "a key of the benchmark"

// commit commits a value for the ConfigMap and returns the commit, which no
// reader sees before push.
func (s *series) commit(value string) (string, error) {
	files := map[string]string{
		"app/fleet.yaml":    "defaultNamespace: " + s.name + "\n",
		"app/settings.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value),
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(s.tree, name), text); err != nil {
			return "", err
		}
	}
	return commit(s.tree, value)
}

// one measures from the start of git push to Ready, and then makes sure that
// Ready was true: both clusters have the value.
func (s *series) one(ctx context.Context, value string, announce func(*series, context.Context, string) error) (time.Duration, error) {
	commit, err := s.commit(value)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := push(s.tree); err != nil {
		return 0, err
	}
	if announce != nil {
		if err := announce(s, ctx, commit); err != nil {
			return 0, err
		}
	}
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for !s.ready(commit) {
		select {
		case <-s.changed:
		case <-limit.C:
			return 0, fmt.Errorf("commit %s was not Ready within %s", commit, timeout)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	took := time.Since(begin)
	return took, s.check(ctx, value)
}

func (s *series) ready(commit string) bool {
	repo, ok := s.cache.Get(kube.Key{Namespace: api.NamespaceDefault, Name: s.name})
	return ok && repo.Status.Commit == commit && repo.Status.ObservedGeneration == repo.Generation &&
		condition.IsTrue(repo.Status.Conditions, api.ConditionReady) && repo.Status.Summary.Ready == 2
}

// force raises the number that asks for a new read.
func (s *series) force(ctx context.Context, _ string) error {
	for {
		old, err := s.repos.Get(ctx, kube.Key{Namespace: api.NamespaceDefault, Name: s.name})
		if err != nil {
			return err
		}
		changed := old.DeepCopy()
		changed.Spec.ForceSyncGeneration++
		if _, err = s.repos.Patch(ctx, old, changed); !kube.IsConflict(err) {
			return err
		}
	}
}

// announce sends a webhook about a commit, as GitHub does.
func (s *series) announce(ctx context.Context, commit string) error {
	body := fmt.Appendf(nil, `{"ref": "refs/heads/%s", "after": %q, "repository": {"clone_url": %q}}`, gitserver.Branch, commit, s.b.Git.URL(s.name))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.b.WebhookURL(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, []byte(webhookKey))
	mac.Write(body)
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook was answered with %s", resp.Status)
	}
	return nil
}

// errNotThere is why a figure would be worth nothing.
var errNotThere = errors.New("the GitRepo is Ready, but the cluster does not have the value")

func (s *series) check(ctx context.Context, value string) error {
	for _, m := range s.b.Downstream {
		client, err := kube.Connect(kube.Config{REST: m.Cluster.REST(), UserAgent: "bench", FieldManager: "bench"})
		if err != nil {
			return err
		}
		got, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: s.name, Name: "settings"})
		if err != nil {
			return err
		}
		if got.Data["value"] != value {
			return fmt.Errorf("%s: %w", m.Name, errNotThere)
		}
	}
	return nil
}

// remove deletes the repository, so that the next series starts at rest.
func (s *series) remove(ctx context.Context) error {
	key := kube.Key{Namespace: api.NamespaceDefault, Name: s.name}
	if err := s.repos.Delete(ctx, key, kube.Precondition{}); err != nil {
		return err
	}
	limit := time.Now().Add(timeout)
	for time.Now().Before(limit) {
		if _, ok := s.cache.Get(key); !ok {
			return nil
		}
		pause(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("GitRepo %s was not gone within %s", key, timeout)
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
