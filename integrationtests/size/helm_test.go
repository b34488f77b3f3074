// Package size_test tests how bundles and releases get through that are larger
// than an object of Kubernetes may be, on real API servers.
package size_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// mebibyte is the largest that an object of ours may be.
const mebibyte = 1 << 20

// noise is text that does not compress below three quarters, another for each
// seed.
func noise(seed, bytes int) string {
	raw := make([]byte, bytes/4*3+3)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)[:bytes]
}

// configMap is a manifest with that much data.
func configMap(name string, seed, bytes int) fleet.BundleResource {
	return fleet.BundleResource{Name: name + ".yaml", Content: fmt.Sprintf(
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: %q\n", name, noise(seed, bytes))}
}

// files are count ConfigMaps of a bundle, of which one has other data than with
// another seed.
func files(seed, count, bytes int) content.Manifest {
	var m content.Manifest
	for i := range count {
		s := i
		if i == 0 {
			s = 1000 + seed
		}
		m.Resources = append(m.Resources, configMap(fmt.Sprintf("cm-%02d", i), s, bytes))
	}
	return m
}

func deploymentOf(name, id string, m content.Manifest) helm.Deployment {
	o := fleet.BundleDeploymentOptions{DefaultNamespace: name}
	return helm.Deployment{ID: helm.IDOf(name, o), Content: m, Options: o, Memory: release.Record{
		Owner: release.Owner{BundleID: name}, DeploymentID: id, Manager: "m1/1", BundleUID: "u1", Commit: "c1"}}
}

// helmWorld is a cluster, and Helm on it as the agent in namespace "fleet" uses
// it.
type helmWorld struct {
	*testing.T
	rest  *rest.Config
	kube  kubernetes.Interface
	limit int // of a record in one Secret; 0: as much as a Secret takes
}

// client is Helm as a process that is killed before its write number k, counted
// from 0; negative: never.
func (w helmWorld) client(k int) (*helm.Client, *mortal) {
	w.Helper()
	m := &mortal{left: k}
	cfg := rest.CopyConfig(w.rest)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { m.next = next; return m })
	c, err := helm.Connect(helm.Config{REST: cfg, AgentNamespace: "fleet", RecordBytes: w.limit})
	if err != nil {
		w.Fatal(err)
	}
	return c, m
}

var errKilled = errors.New("killed")

// mortal ends all requests once its writes are used up.
type mortal struct {
	next http.RoundTripper

	mu     sync.Mutex
	left   int // negative: for ever
	writes int
	dead   bool
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	write := r.Method != http.MethodGet
	if write {
		if m.left == m.writes {
			m.dead = true
		}
		m.writes++
	}
	dead := m.dead
	m.mu.Unlock()
	if dead {
		return nil, errKilled
	}
	return m.next.RoundTrip(r)
}

func (w helmWorld) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// converge does what an agent does until it rests.
func (w helmWorld) converge(c *helm.Client, d helm.Deployment, wanted release.Wanted) {
	w.Helper()
	ctx := w.Context()
	for range 8 {
		o, err := c.Observe(ctx, d.ID)
		w.must(err)
		switch a := release.Decide(o, wanted); a.Verb {
		case release.Keep, release.Acknowledge:
			return
		case release.Install:
			err = c.Install(ctx, d)
		case release.Upgrade:
			err = c.Upgrade(ctx, d)
		case release.Fail:
			err = c.Fail(ctx, d.ID)
		case release.Purge:
			err = c.Purge(ctx, d.ID)
		case release.Uninstall:
			err = c.Uninstall(ctx, d.ID, helm.Rights{})
		default:
			w.Fatalf("%s: %s", a.Verb, a.Message)
		}
		w.must(err)
	}
	w.Fatal("it does not come to rest")
}

func (w helmWorld) secrets(namespace string) []corev1.Secret {
	w.Helper()
	list, err := w.kube.CoreV1().Secrets(namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

// checkRecords looks at what is kept of a release: every part belongs to a
// record, and no object is too large.
func (w helmWorld) checkRecords(namespace string) (records, parts int) {
	w.Helper()
	named := map[string]bool{}
	all := w.secrets(namespace)
	for i := range all {
		s := &all[i]
		if n := s.Size(); n > mebibyte {
			w.Errorf("Secret %s takes %d bytes", s.Name, n)
		}
		if s.Labels["owner"] != "helm" {
			continue
		}
		records++
		digest, _, _ := strings.Cut(s.Annotations[fleet.AnnotationReleaseBody], "/")
		if digest != "" {
			named["fleet.release."+s.Labels["name"]+"."+digest[:16]] = true
		}
	}
	for i := range all {
		if all[i].Type != fleet.SecretTypeReleasePart {
			continue
		}
		parts++
		name := all[i].Name
		if !named[name[:strings.LastIndex(name, ".")]] {
			w.Errorf("part %s belongs to no record", name)
		}
	}
	return records, parts
}

func (w helmWorld) data(namespace, name string) string {
	c, err := w.kube.CoreV1().ConfigMaps(namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return c.Data["k"]
}

func (w helmWorld) namespace(name string) {
	w.Helper()
	_, err := w.kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
}

// peak runs f and returns by how much the heap grew at most, in MiB.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as in a program
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	done, highest := make(chan struct{}), make(chan uint64)
	go func() {
		top := before.HeapAlloc
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			top = max(top, m.HeapAlloc)
			select {
			case <-done:
				highest <- top
				return
			case <-time.After(5 * time.Millisecond): // how often it looks
			}
		}
	}()
	f()
	close(done)
	return (<-highest - before.HeapAlloc) >> 20
}

// smallRecord is the limit of a record for tests of which requests an agent sends in which
// order, that do not depend on how large an object may be.
const smallRecord = 32 << 10

// Releases of any size live the life of small ones. A real API server says how large an
// object may be, a member of the shared fleet; what a killed agent leaves behind is looked at
// on one in memory, with a small limit.
func TestHelm(t *testing.T) {
	for _, c := range []struct {
		server harness.ControlPlane
		limit  int
		tests  map[string]func(helmWorld)
	}{
		{harness.Open(t).C1.Cluster, 0, map[string]func(helmWorld){"Life": largeLife, "Border": border}},
		{harness.Memory(t, "killed"), smallRecord, map[string]func(helmWorld){"Killed": killedAnywhere, "Missing": missingPart}},
	} {
		cfg := c.server.REST()
		w := helmWorld{T: t, rest: cfg, kube: kubernetes.NewForConfigOrDie(cfg), limit: c.limit}
		w.namespace("fleet")
		for name, test := range c.tests {
			t.Run(name, func(t *testing.T) { w := w; w.T = t; test(w) })
		}
	}
}

// largeLife takes a release with 3 MiB of data through its life: twice what the API server
// takes in one object.
func largeLife(w helmWorld) {
	const each, count = 640 << 10, 5
	ctx := w.Context()
	c, _ := w.client(-1)
	first, second := deploymentOf("large", "id1", files(1, count, each)), deploymentOf("large", "id2", files(2, count-1, each))
	step := func(name string, f func() error) {
		w.Helper()
		start := time.Now()
		grown := peak(func() { w.must(f()) })
		records, parts := w.checkRecords("large")
		w.Logf("%s: %s, heap grew by %d MiB at most; %d records, %d parts", name, time.Since(start).Round(time.Millisecond), grown, records, parts)
	}
	step("install", func() error { return c.Install(ctx, first) })
	o, err := c.Observe(ctx, first.ID)
	w.must(err)
	if !o.Large || o.Manifest != "" || o.GoodID != "id1" || o.Memory.Commit != "c1" {
		w.Errorf("observed %+v", o)
	}
	step("read", func() error { return c.Complete(ctx, &o) })
	if len(o.Manifest) < count*each {
		w.Errorf("a manifest of %d bytes", len(o.Manifest))
	}
	all, err := c.List(ctx)
	w.must(err)
	if len(all) != 1 || all[0].Memory.Owner.BundleID != "large" {
		w.Errorf("listed %+v", all)
	}
	step("upgrade", func() error { return c.Upgrade(ctx, second) })
	if got := w.data("large", "cm-00"); got != noise(1002, each) {
		w.Errorf("not upgraded: %.20s", got)
	}
	if got := w.data("large", fmt.Sprintf("cm-%02d", count-1)); got != "" {
		w.Error("an object that is gone from the bundle was left behind")
	}
	_, err = w.kube.CoreV1().ConfigMaps("large").Patch(ctx, "cm-01", types.MergePatchType, []byte(`{"data":{"k":"drift"}}`), metav1.PatchOptions{})
	w.must(err)
	before := w.versions("large")
	step("correct", func() error {
		return c.Correct(ctx, first.ID, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true}})
	})
	if got := w.data("large", "cm-01"); got != noise(1, each) {
		w.Errorf("not corrected: %.20s", got)
	}
	for name, version := range w.versions("large") {
		if before[name] == "" {
			w.Errorf("a correction wrote part %s of a manifest that is there already", name)
		} else if before[name] != version {
			w.Errorf("a correction wrote part %s again", name)
		}
	}
	step("uninstall", func() error { return c.Uninstall(ctx, first.ID, helm.Rights{}) })
	if records, parts := w.checkRecords("large"); records+parts > 0 || w.data("large", "cm-01") != "" {
		w.Errorf("left behind: %d records, %d parts, %.10q", records, parts, w.data("large", "cm-01"))
	}
}

// versions are the versions of the parts in a namespace.
func (w helmWorld) versions(namespace string) map[string]string {
	out := map[string]string{}
	for _, s := range w.secrets(namespace) {
		if s.Type == fleet.SecretTypeReleasePart {
			out[s.Name] = s.ResourceVersion
		}
	}
	return out
}

// border looks at records around the limit: what fits is Helm's own, what does
// not is not, and a release may go from one to the other.
func border(w helmWorld) {
	ctx := w.Context()
	c, _ := w.client(-1)
	for i, kib := range []int{900, 980, 1020, 1060, 1100, 900} {
		// Three of four bytes of noise are left after gzip, and base64 makes four of three.
		m := content.Manifest{Resources: []fleet.BundleResource{configMap("a", i, kib<<9), configMap("b", i+100, kib<<9)}}
		d := deploymentOf("border", fmt.Sprint("id", i), m)
		if i == 0 {
			w.must(c.Install(ctx, d))
		} else {
			w.must(c.Upgrade(ctx, d))
		}
		records, parts := w.checkRecords("border")
		w.Logf("%d KiB: %d records, %d parts", kib, records, parts)
		o, err := c.Observe(ctx, d.ID)
		w.must(err)
		w.must(c.Complete(ctx, &o))
		if o.GoodID != d.Memory.DeploymentID || !strings.Contains(o.Manifest, noise(i, 60)) {
			w.Errorf("%d KiB: observed %s", kib, o.GoodID)
		}
	}
	w.must(c.Forget(ctx, release.ID{Namespace: "border", Name: "border"}))
	if records, parts := w.checkRecords("border"); records+parts > 0 || w.data("border", "a") == "" {
		w.Error("forgotten is forgotten, and objects stay")
	}
}

// killedAnywhere kills the agent before each single write of each action. The
// next one brings about what is wanted, and nothing is left behind.
func killedAnywhere(w helmWorld) {
	const each = 19 << 10
	v1, v2 := files(1, 2, each), files(2, 2, each)
	actions := map[string]struct {
		before content.Manifest // nil resources: nothing
		act    func(context.Context, *helm.Client, string) error
		want   content.Manifest // nil resources: withdrawn
	}{
		"Install": {content.Manifest{}, func(ctx context.Context, c *helm.Client, name string) error {
			return c.Install(ctx, deploymentOf(name, "id2", v2))
		}, v2},
		"Upgrade": {v1, func(ctx context.Context, c *helm.Client, name string) error {
			return c.Upgrade(ctx, deploymentOf(name, "id2", v2))
		}, v2},
		"Correct": {v2, func(ctx context.Context, c *helm.Client, name string) error {
			_, err := w.kube.CoreV1().ConfigMaps(name).Patch(ctx, "cm-01", types.MergePatchType, []byte(`{"data":{"k":"drift"}}`), metav1.PatchOptions{})
			w.must(err)
			return c.Correct(ctx, release.ID{Namespace: name, Name: name}, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true}})
		}, v2},
		"Uninstall": {v1, func(ctx context.Context, c *helm.Client, name string) error {
			return c.Uninstall(ctx, release.ID{Namespace: name, Name: name}, helm.Rights{})
		}, content.Manifest{}},
	}
	for action, a := range actions {
		w.Run(action, func(t *testing.T) {
			w := w
			w.T = t
			for k := 0; ; k++ {
				name := fmt.Sprintf("killed-%s-%d", strings.ToLower(action), k)
				if !w.killed(name, k, a.before, a.act, a.want) {
					t.Logf("killed before each of %d writes", k)
					return
				}
			}
		})
	}
}

// killed runs one such test. It returns false if the action came to its end.
func (w helmWorld) killed(name string, k int, before content.Manifest,
	act func(context.Context, *helm.Client, string) error, want content.Manifest,
) bool {
	ctx := w.Context()
	healthy, _ := w.client(-1)
	id := "id1"
	if len(before.Resources) > 0 {
		if before.Resources[0] == want1(want) {
			id = "id2"
		}
		w.must(healthy.Install(ctx, deploymentOf(name, id, before)))
	}
	agentProcess, m := w.client(k)
	_ = act(ctx, agentProcess, name) // the agent is dead and reads no error

	next, _ := w.client(-1)
	d := deploymentOf(name, "id2", want)
	wanted := release.Wanted{ID: d.ID, DeploymentID: "id2", Self: release.Owner{AgentNamespace: "fleet", BundleID: name}}
	if len(want.Resources) == 0 {
		wanted.Order = "order"
	}
	w.converge(next, d, wanted)
	if len(want.Resources) > 0 {
		if got := w.data(name, "cm-01"); got == "drift" {
			w.must(next.Correct(ctx, d.ID, helm.Rights{}, helm.Correction{CorrectDrift: fleet.CorrectDrift{Enabled: true}}))
		}
		o, err := next.Observe(ctx, d.ID)
		w.must(err)
		w.must(next.Complete(ctx, &o))
		if o.State != release.Deployed || o.GoodID != "id2" || !strings.Contains(o.Manifest, noise(1002, 100)) {
			w.Errorf("%d: %s %s", k, o.State, o.GoodID)
		}
	}
	w.must(next.SweepParts(ctx, time.Now().Add(11*time.Minute)))
	records, parts := w.checkRecords(name)
	if len(want.Resources) == 0 && (records+parts > 0 || w.data(name, "cm-00") != "") {
		w.Errorf("%d: left behind: %d records, %d parts", k, records, parts)
	}
	for i, r := range want.Resources {
		if got := w.data(name, fmt.Sprintf("cm-%02d", i)); got == "" || !strings.Contains(r.Content, got) {
			w.Errorf("%d: cm-%02d is %.10q", k, i, got)
		}
	}
	w.must(next.Forget(ctx, d.ID)) // else each uninstall of the next tests looks through this one
	return m.dead
}

func want1(m content.Manifest) fleet.BundleResource {
	if len(m.Resources) == 0 {
		return fleet.BundleResource{}
	}
	return m.Resources[0]
}

// missingPart takes away a part of a record: the release is made good again, and
// the agent does not use what is left of the record.
func missingPart(w helmWorld) {
	ctx := w.Context()
	c, _ := w.client(-1)
	d := deploymentOf("missing", "id2", files(1, 2, 19<<10))
	w.must(c.Install(ctx, d))
	for name := range w.versions("missing") {
		w.must(w.kube.CoreV1().Secrets("missing").Delete(ctx, name, metav1.DeleteOptions{}))
		break
	}
	next, _ := w.client(-1)
	o, err := next.Observe(ctx, d.ID)
	w.must(err)
	if err := next.Uninstall(ctx, d.ID, helm.Rights{}); err == nil || w.data("missing", "cm-00") == "" {
		w.Errorf("uninstalled what cannot be known: %v", err)
	}
	if err := next.Complete(ctx, &o); err == nil {
		w.Fatal("a part is missing, and it was read")
	}
	w.converge(next, d, release.Wanted{ID: d.ID, DeploymentID: "id2", Self: release.Owner{AgentNamespace: "fleet", BundleID: "missing"}})
	o, err = next.Observe(ctx, d.ID)
	w.must(err)
	w.must(next.Complete(ctx, &o))
	if o.State != release.Deployed || !strings.Contains(o.Manifest, noise(1001, 100)) {
		w.Errorf("not made good: %s", o.State)
	}
}
