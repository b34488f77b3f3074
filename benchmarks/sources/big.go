package sources

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/hack/measure"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// bigTimeout is how long a big bundle may take.
const bigTimeout = 5 * time.Minute

// objectLimit is how large an object in an API server may be, by the rule
// that big contents are cut by.
const objectLimit = 1 << 10 // KiB

// big deploys charts of random data to two clusters, without a registry, and
// measures what that takes and leaves.
func (e *env) big(ctx context.Context) error {
	cfg, err := e.fleet(ctx, "big", "c1", "c2")
	if err != nil {
		return err
	}
	f, err := fleet.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer f.Stop()
	measure.Title("Big bundles of random data to two clusters, without a registry")
	measure.Row("size", "from GitRepo to Ready", "at best: the same bytes in ConfigMaps", "largest object", "objects of the content", "etcd of local grows by", "etcd of c1 grows by", "gone after")
	measure.Row("---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	peaks := map[string][]string{}
	var names []string
	for _, size := range e.bigMiB {
		b := &bigBundle{env: e, fleet: f, dir: cfg.Dir, mib: size, name: fmt.Sprintf("big-%d", size)}
		if err := b.run(ctx); err != nil {
			return err
		}
		for _, p := range b.parts() {
			m, err := measure.Memory(p.PID)
			if err != nil {
				return err
			}
			name := p.Name + " of " + p.Cluster
			if peaks[name] == nil {
				names = append(names, name)
			}
			peaks[name] = append(peaks[name], fmt.Sprintf("%s (%s before)", measure.MiB(m.Peak), measure.MiB(b.before[p.PID])))
		}
	}
	measure.Title("Peak of resident memory while a big bundle is rolled out")
	head, line := []string{"process"}, []string{"---"}
	for _, size := range e.bigMiB {
		head, line = append(head, fmt.Sprintf("%d MiB", size)), append(line, "---:")
	}
	measure.Row(head...)
	measure.Row(line...)
	for _, name := range names {
		measure.Row(append([]string{name}, peaks[name]...)...)
	}
	return nil
}

// A bigBundle is one bundle on its way.
type bigBundle struct {
	*env
	fleet  *fleet.Fleet
	dir    string // of the fleet
	mib    int
	name   string
	before map[int]int // resident KiB by process
	there  map[types.UID]object
}

// parts are Fleet's own processes.
func (b *bigBundle) parts() []fleet.Part {
	var out []fleet.Part
	for _, p := range b.fleet.Parts() {
		if own(p.Name) && p.PID != 0 {
			out = append(out, p)
		}
	}
	return out
}

func (b *bigBundle) run(ctx context.Context) error {
	best, err := b.ceiling(ctx)
	if err != nil {
		return err
	}
	commit, err := b.prepare()
	if err != nil {
		return err
	}
	if b.there, err = b.objects(ctx); err != nil {
		return err
	}
	b.before = map[int]int{}
	for _, p := range b.parts() {
		if err := measure.ResetPeak(p.PID); err != nil {
			return err
		}
		m, err := measure.Memory(p.PID)
		if err != nil {
			return err
		}
		b.before[p.PID] = m.All
	}
	before, err := b.databases(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.deploy(ctx, commit); err != nil {
		measure.Row(fmt.Sprintf("%d MiB", b.mib), "not: "+err.Error(), measure.Seconds(best), "", "", "", "", "")
		return b.remove(ctx)
	}
	took := time.Since(begin)
	if err := b.check(ctx); err != nil {
		return err
	}
	k, err := b.kept(ctx)
	if err != nil {
		return err
	}
	after, err := b.databases(ctx)
	if err != nil {
		return err
	}
	begin = time.Now()
	err = b.remove(ctx)
	gone := measure.Seconds(time.Since(begin))
	if errors.Is(err, errTimeout) {
		gone, err = err.Error(), nil
	}
	measure.Row(fmt.Sprintf("%d MiB", b.mib), measure.Seconds(took), measure.Seconds(best), k.largest, fmt.Sprintf("%d, %s", k.contents, measure.MiB(k.total)), measure.MiB(after[0]-before[0]), measure.MiB(after[1]-before[1]), gone)
	return err
}

// ceiling is how long it takes to write as many random bytes into the
// management cluster, as ConfigMaps of half a MiB, one after the other.
func (b *bigBundle) ceiling(ctx context.Context) (time.Duration, error) {
	maps := kube.StoreOf[*corev1.ConfigMap](b.fleet.Client())
	random := newNoise()
	var made []*corev1.ConfigMap
	begin := time.Now()
	for i := range b.mib << 20 / chartFile {
		m, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: fmt.Sprintf("%s-%d", b.name, i)},
			BinaryData: map[string][]byte{"data": randomBytes(random, chartFile)},
		})
		if err != nil {
			return 0, err
		}
		made = append(made, m)
	}
	took := time.Since(begin)
	for _, m := range made {
		if err := maps.Delete(ctx, kube.KeyOf(m), kube.Precondition{}); err != nil {
			return 0, err
		}
	}
	return took, nil
}

// prepare makes the repository: one chart with random files, and a template
// that names their digests.
func (b *bigBundle) prepare() (string, error) {
	if err := b.fleet.Git.Create(b.name); err != nil {
		return "", err
	}
	tree := b.path(b.name)
	if err := gitserver.Clone(b.fleet.Git.Path(b.name), tree); err != nil {
		return "", err
	}
	files := chartFiles(b.name, chartVersion)
	files["fleet.yaml"] = fmt.Sprintf("defaultNamespace: %s\nhelm: {releaseName: %s}\n", b.name, b.name)
	random := newNoise()
	for i := range b.mib << 20 / chartFile {
		files[fmt.Sprintf("files/part-%03d.bin", i)] = string(randomBytes(random, chartFile))
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(tree, "app", name), text); err != nil {
			return "", err
		}
	}
	return publish(tree, "first")
}

// deploy makes the GitRepo and returns when it is Ready on both clusters.
func (b *bigBundle) deploy(ctx context.Context, commit string) error {
	repos := kube.StoreOf[*api.GitRepo](b.fleet.Client())
	_, err := repos.Create(ctx, &api.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: b.name},
		Spec: api.GitRepoSpec{
			Repo: b.fleet.Git.URL(b.name), Branch: gitserver.Branch, Paths: []string{"app"},
			PollingInterval: &metav1.Duration{Duration: interval},
			Targets:         []api.GitTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}},
		},
	})
	if err != nil {
		return err
	}
	return b.wait(ctx, func() (string, error) {
		repo, err := repos.Get(ctx, b.key())
		if err != nil {
			return "", err
		}
		if repo.Status.Commit == commit && repo.Status.ObservedGeneration == repo.Generation &&
			condition.IsTrue(repo.Status.Conditions, api.ConditionReady) && repo.Status.Summary.Ready == 2 {
			return "", nil
		}
		return words(repo), nil
	})
}

// words are what a GitRepo says about what is not as it should be.
func words(repo *api.GitRepo) string {
	var out []string
	for _, c := range repo.Status.Conditions {
		if c.Message != "" && (c.Status == "False" || c.Type == api.ConditionStalled) {
			out = append(out, c.Type+": "+c.Message)
		}
	}
	return strings.Join(append(out, fmt.Sprintf("%d clusters are Ready", repo.Status.Summary.Ready)), "; ")
}

func (b *bigBundle) key() kube.Key { return kube.Key{Namespace: api.NamespaceDefault, Name: b.name} }

// wait returns when pending returns nothing.
func (b *bigBundle) wait(ctx context.Context, pending func() (string, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bigTimeout, errTimeout)
	defer cancel()
	for {
		last, err := pending()
		if err != nil || last == "" {
			return err
		}
		pause(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s", context.Cause(ctx), last)
		}
	}
}

// errWrongData is why a figure would be worth nothing.
var errWrongData = errors.New("the GitRepo is Ready, but the cluster does not have all data")

// check makes sure that both clusters have rendered all data.
func (b *bigBundle) check(ctx context.Context) error {
	want := map[string]string{}
	random := newNoise()
	for i := range b.mib << 20 / chartFile {
		want[fmt.Sprintf("part-%03d.bin", i)] = digest(randomBytes(random, chartFile))
	}
	for _, m := range b.fleet.Downstream {
		client, err := kube.Connect(kube.Config{REST: m.Cluster.REST(), UserAgent: "bench", FieldManager: "bench"})
		if err != nil {
			return err
		}
		got, err := kube.StoreOf[*corev1.ConfigMap](client).Get(ctx, kube.Key{Namespace: b.name, Name: "sum"})
		if err != nil {
			return err
		}
		for name, sum := range want {
			if got.Data[name] != sum {
				return fmt.Errorf("%s on %s: %w", name, m.Name, errWrongData)
			}
		}
	}
	return nil
}

// remove deletes the GitRepo and returns when its bundle is gone everywhere.
// Content that no bundle names any more is swept later.
func (b *bigBundle) remove(ctx context.Context) error {
	err := kube.StoreOf[*api.GitRepo](b.fleet.Client()).Delete(ctx, b.key(), kube.Precondition{})
	if err != nil {
		return err
	}
	return b.wait(ctx, func() (string, error) {
		now, err := b.objects(ctx)
		if err != nil {
			return "", err
		}
		var left []string
		for uid, o := range now {
			if _, old := b.there[uid]; !old && o.what != "Content" {
				left = append(left, o.what)
			}
		}
		return strings.Join(left, ", "), nil
	})
}
