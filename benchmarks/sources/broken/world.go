package broken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A world is all servers and sources, and what is seen of the objects that follow them.
type world struct {
	fleet   *fleet.Fleet
	options Options
	servers []*server
	sources []*source
	byName  map[string]*source // names are distinct among all kinds

	repos       *kube.Cache[*api.GitRepo]
	ops         *kube.Cache[*api.HelmOp]
	scans       *kube.Cache[*api.ImageScan]
	bundles     *kube.Cache[*api.Bundle]
	deployments *kube.Cache[*api.BundleDeployment]
	stop        context.CancelFunc

	mu       sync.Mutex
	counting bool                       // delays are noted
	delays   map[string][]time.Duration // by group
	onTime   map[string]int
	scanned  bool // an ImageScan has a time of its last scan
}

// newWorld opens the servers, a third of them broken or about to break.
func newWorld(ctx context.Context, f *fleet.Fleet, o Options) (*world, error) {
	w := &world{fleet: f, options: o, byName: map[string]*source{}, delays: map[string][]time.Duration{}, onTime: map[string]int{}}
	good, bad, breaking, err := w.open()
	if err != nil {
		return w, err
	}
	w.spread(gitRepo, o.GitRepos, good, bad, breaking)
	w.spread(helmOp, o.HelmOps, good, bad, breaking)
	w.spread(imageScan, o.ImageScans, good, bad, breaking)
	for _, s := range w.sources {
		w.byName[s.name] = s
		if s.server.broken.Load() {
			continue
		}
		if _, err := s.announce(); err != nil {
			return w, err
		}
	}
	w.watch(ctx)
	return w, nil
}

// open opens the servers: the healthy ones, those that are broken, and those that break
// later, which are one of four of a kind.
func (w *world) open() (good, bad, breaking []*server, err error) {
	kinds := brokenKinds()
	for range max(1, w.options.Servers/3/(len(kinds)*4)) {
		for i := range 4 * len(kinds) {
			k, later := kinds[i%len(kinds)], i >= 3*len(kinds)
			if later && k == unknownCA {
				k = garbage // a server with such a certificate cannot have been read before
			}
			s, err := w.openServer(k, !later)
			if err != nil {
				return nil, nil, nil, err
			}
			if later {
				breaking = append(breaking, s)
			} else {
				bad = append(bad, s)
			}
		}
	}
	for range 2 * (len(bad) + len(breaking)) {
		s, err := w.openServer(healthy, false)
		if err != nil {
			return nil, nil, nil, err
		}
		good = append(good, s)
	}
	return good, bad, breaking, nil
}

// openServer opens a server that close closes.
func (w *world) openServer(k kind, broken bool) (*server, error) {
	s, err := openServer(k, broken)
	if err == nil {
		w.servers = append(w.servers, s)
	}
	return s, err
}

// spread makes n sources: two thirds on healthy servers, a twelfth on those that break, and
// the rest on broken ones. A fourth of the GitRepos has webhooks instead of polling, half
// of the HelmOps is polled every 15 s, and a fifth of the charts is in registries.
func (w *world) spread(kind sort, n int, good, bad, breaking []*server) {
	counts := map[bool]int{}
	for i := range n {
		s := &source{sort: kind, name: fmt.Sprintf("%s-%03d", [...]string{"git", "chart", "image"}[kind], i), interval: 30 * time.Second}
		c := i / 12 // sources of each sort before this one, for each of 12
		switch place := i % 12; {
		case place < 8:
			s.server = good[(c*8+place)%len(good)]
		case place == 8:
			s.server, s.breaks = breaking[c%len(breaking)], true
		default:
			s.server = bad[(c*3+place-9)%len(bad)]
		}
		counts[s.server.kind == healthy]++
		k := counts[s.server.kind == healthy] // so that each part has all sorts
		switch kind {
		case gitRepo:
			s.interval = 15 * time.Second
			if k%4 == 0 {
				s.interval = 0
			}
		case helmOp:
			if k%2 == 0 {
				s.interval = 15 * time.Second
			}
			s.registry = k%5 == 0 && !s.breaks && s.server.kind != unknownCA
		}
		w.sources = append(w.sources, s)
	}
}

func (w *world) close() {
	if w.stop != nil {
		w.stop()
	}
	for _, s := range w.servers {
		s.close()
	}
}

// watch notes what becomes of the objects from now on.
func (w *world) watch(ctx context.Context) {
	own := kube.Watch{Namespace: api.NamespaceDefault}
	c := w.fleet.Client()
	w.repos = kube.NewCache[*api.GitRepo](c, own, nil)
	w.repos.OnChange(func(_, o *api.GitRepo) {
		if o != nil {
			w.observe(o.Name, o.Status.Conditions)
		}
	})
	w.ops = kube.NewCache[*api.HelmOp](c, own, nil)
	w.ops.OnChange(func(_, o *api.HelmOp) {
		if o != nil {
			w.observe(o.Name, o.Status.Conditions)
		}
	})
	w.scans = kube.NewCache[*api.ImageScan](c, own, nil)
	w.scans.OnChange(func(_, o *api.ImageScan) {
		if o == nil {
			return
		}
		w.observe(o.Name, o.Status.Conditions)
		w.has(o.Name, o.Status.LatestTag)
		if !o.Status.LastScanTime.IsZero() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.scanned = true
		}
	})
	w.bundles = kube.NewCache[*api.Bundle](c, own, nil)
	w.bundles.OnChange(func(_, b *api.Bundle) {
		switch {
		case b == nil:
		case b.Labels[api.LabelRepoName] != "":
			w.has(b.Labels[api.LabelRepoName], b.Labels[api.LabelCommit])
		case b.Spec.Helm != nil:
			w.has(b.Labels[api.LabelHelmOpName], b.Spec.Helm.Version)
		}
	})
	w.deployments = kube.NewCache[*api.BundleDeployment](c, kube.Watch{}, nil)
	watching, stop := context.WithCancel(ctx)
	w.stop = stop
	for _, r := range []interface{ Run(context.Context) error }{w.repos, w.ops, w.scans, w.bundles, w.deployments} {
		go func() { _ = r.Run(watching) }() // ends with stop
	}
}

func (w *world) observe(name string, conditions []api.Condition) {
	if s := w.byName[name]; s != nil {
		s.observe(conditions)
	}
}

// has notes the commit, version or tag that an object or its Bundle has.
func (w *world) has(name, what string) {
	s := w.byName[name]
	if s == nil {
		return
	}
	took, ok := s.has(what)
	if !ok {
		return
	}
	w.note(s, took)
}

// note counts how long one source took, if it is healthy.
func (w *world) note(s *source, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.counting || s.server.kind != healthy {
		return
	}
	w.delays[s.group()] = append(w.delays[s.group()], took)
	if took <= s.deadline() {
		w.onTime[s.group()]++
	}
}

// create makes all objects.
func (w *world) create(ctx context.Context) error {
	c := w.fleet.Client()
	secrets := kube.StoreOf[*corev1.Secret](c)
	for name, data := range map[string]map[string][]byte{secretWebhook: {"github": []byte(webhookKey)}, secretPlain: {"basicHTTP": []byte("true")}} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: name}, Data: data}
		if _, err := secrets.Create(ctx, secret); err != nil {
			return err
		}
	}
	repos, ops, scans := kube.StoreOf[*api.GitRepo](c), kube.StoreOf[*api.HelmOp](c), kube.StoreOf[*api.ImageScan](c)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, s := range w.sources {
		group.Go(func() (err error) {
			s.mu.Lock()
			s.wrongAt = time.Now()
			s.mu.Unlock()
			switch s.sort {
			case gitRepo:
				_, err = repos.Create(gctx, s.gitRepo())
			case helmOp:
				_, err = ops.Create(gctx, s.helmOp())
			case imageScan:
				_, err = scans.Create(gctx, s.imageScan())
			}
			return err
		})
	}
	return group.Wait()
}

// errNotRead is why the benchmark does not begin.
var errNotRead = errors.New("a source was not read in time")

// settled returns when every source that is not broken was read and what it breaks is deployed.
func (w *world) settled(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		pending := w.pending()
		if pending == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: %s", errNotRead, pending)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// pending names a source that is not broken and was not read, or is not deployed.
func (w *world) pending() string {
	for _, s := range w.sources {
		if s.sort == imageScan || s.server.broken.Load() {
			continue
		}
		if _, waits := s.waiting(); waits {
			return s.name + " was not read"
		}
		if s.breaks && w.deployed(s) == 0 {
			return s.name + " is not deployed"
		}
	}
	return ""
}

// deployed counts the BundleDeployments of a source that are Ready.
func (w *world) deployed(s *source) int {
	n := 0
	for _, d := range w.deployments.List("") {
		if d.Labels[api.LabelRepoName] != s.name && d.Labels[api.LabelHelmOpName] != s.name && d.Labels[api.LabelBundleName] != s.name {
			continue
		}
		if d.Status.Ready && d.DeletionTimestamp == nil && d.Status.AppliedDeploymentID == d.Spec.DeploymentID {
			n++
		}
	}
	return n
}

// publish publishes something new on a healthy source again and again until ctx ends, each
// time after the object has what was new before. announced is called for what only
// webhooks announce.
func (w *world) publish(ctx context.Context, s *source, announced func(s *source, commit string)) {
	for pause(ctx, changeAfter+rand.N(changeAfter)) {
		what, err := s.announce()
		if err != nil {
			return // cannot be: it is in memory
		}
		if s.interval == 0 {
			announced(s, what)
		}
		for {
			_, waits := s.waiting()
			if !waits {
				break
			}
			if !pause(ctx, 200*time.Millisecond) {
				return
			}
		}
	}
}

// breakServers breaks the servers that were healthy until now.
func (w *world) breakServers() {
	for _, s := range w.sources {
		if s.breaks {
			s.mu.Lock()
			s.wrongAt, s.reportedAt = time.Now(), time.Time{}
			s.mu.Unlock()
		}
	}
	for _, s := range w.servers {
		if s.kind != healthy && !s.broken.Load() {
			s.fail()
		}
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
