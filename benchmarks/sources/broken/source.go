package broken

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A sort is the kind of the object that follows a source.
type sort int

const (
	gitRepo sort = iota
	helmOp
	imageScan
)

func (s sort) String() string { return [...]string{"GitRepo", "HelmOp", "ImageScan"}[s] }

// Names of Secrets.
const (
	secretWebhook = "hooks"
	secretPlain   = "plain" // lets HelmOps ask registries without TLS
	webhookKey    = "a key of the benchmark"
)

// A source is something that an object follows: a branch, a chart or an image, each with a
// name of its own.
type source struct {
	sort     sort
	name     string
	server   *server
	breaks   bool          // healthy at first
	interval time.Duration // 0: only webhooks announce what is new
	registry bool          // of a HelmOp: its chart is in a registry

	mu           sync.Mutex
	newest       string    // the newest commit, version or tag; empty if the object has it
	since        time.Time // when newest was published
	wrongAt      time.Time // when the source was broken from the object's point of view
	reportedAt   time.Time // when the object first said so; zero: not yet
	falselyReady bool      // it was Ready, or scanned, although its source was never read
	ready        bool      // now
	notReady     bool      // condition Ready is False now, with a message
}

// group says how what is new is noticed.
func (s *source) group() string {
	switch {
	case s.interval == 0:
		return "GitRepo, webhooks alone"
	case s.registry:
		return fmt.Sprintf("HelmOp of a registry, every %s", s.interval)
	}
	return fmt.Sprintf("%s, every %s", s.sort, s.interval)
}

// deadline is how soon an object has to have what is new.
func (s *source) deadline() time.Duration { return s.interval + slack }

// url is what the object follows.
func (s *source) url() string {
	switch {
	case s.sort == gitRepo:
		return s.server.url("/" + s.name + ".git")
	case s.registry:
		return "oci://" + s.server.host() + "/" + s.name
	case s.sort == helmOp:
		return s.server.url("/charts")
	}
	return s.server.host() + "/" + s.name
}

// publish adds a commit, a version or a tag, and returns it.
func (s *source) publish() (string, error) {
	switch {
	case s.sort == gitRepo:
		return s.server.repository(s.name).commit(s.name, fmt.Sprint(time.Now().UnixNano()))
	case s.sort == imageScan || s.registry:
		return s.server.catalog.tag(s.name), nil
	}
	return s.server.catalog.release(s.name), nil
}

// announce is publish for what an object has to notice from now on. It returns what it has
// published.
func (s *source) announce() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // the object may have it before this returns
	newest, err := s.publish()
	s.newest, s.since = newest, time.Now()
	return newest, err
}

// has notes what an object or its Bundle has. It returns how long that took if it is the
// newest, and was not noted before.
func (s *source) has(what string) (took time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == "" || what != s.newest {
		return 0, false
	}
	s.newest = ""
	return time.Since(s.since), true
}

// waiting reports whether the object lacks what is newest, and since when.
func (s *source) waiting() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.newest != ""
}

// observe notes what the conditions of an object say while its source is broken.
func (s *source) observe(conditions []api.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready, s.notReady = false, false
	reports := false
	for _, c := range conditions {
		switch c.Type {
		case api.ConditionReady:
			s.ready, s.notReady = c.Status == corev1.ConditionTrue, c.Status == corev1.ConditionFalse && c.Message != ""
		case api.ConditionGitPolling, api.ConditionPolled, api.ConditionImageScanned:
			reports = reports || c.Status == corev1.ConditionFalse && c.Message != ""
			if c.Type == api.ConditionImageScanned && c.Status == corev1.ConditionTrue {
				s.ready = true
			}
		case api.ConditionStalled:
			reports = reports || c.Status == corev1.ConditionTrue && c.Message != ""
		}
	}
	if !s.server.broken.Load() {
		return
	}
	if reports && s.reportedAt.IsZero() {
		s.reportedAt = time.Now()
	}
	s.falselyReady = s.falselyReady || s.ready && !s.breaks
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func (s *source) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: s.name}
}

// gitRepo is the GitRepo of a source. Those whose sources break are deployed; they are few,
// so that the agent does not need what is measured.
func (s *source) gitRepo() *api.GitRepo {
	repo := &api.GitRepo{ObjectMeta: s.meta(), Spec: api.GitRepoSpec{Repo: s.url(), Branch: branch, Paths: []string{"app"}}}
	if s.interval == 0 {
		repo.Spec.DisablePolling, repo.Spec.WebhookSecret = true, secretWebhook
	} else {
		repo.Spec.PollingInterval = duration(s.interval)
	}
	if s.breaks {
		repo.Spec.Targets = []api.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
	}
	return repo
}

func (s *source) helmOp() *api.HelmOp {
	op := &api.HelmOp{ObjectMeta: s.meta()}
	op.Spec.PollingInterval = duration(s.interval)
	op.Spec.DefaultNamespace = s.name
	op.Spec.Helm = &api.HelmOptions{Repo: s.url(), Version: "^1"}
	if s.registry {
		op.Spec.HelmSecretName = secretPlain
	} else {
		op.Spec.Helm.Chart = s.name
	}
	if s.breaks {
		op.Spec.Targets = []api.BundleTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
	}
	return op
}

func (s *source) imageScan() *api.ImageScan {
	scan := &api.ImageScan{ObjectMeta: s.meta()}
	scan.Spec = api.ImageScanSpec{TagName: s.name, GitRepoName: "none", Image: s.url(), Interval: *duration(s.interval)}
	scan.Spec.Policy.SemVer = &api.SemVerPolicy{Range: "*"}
	return scan
}
