package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/hack/measure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// measureFloors sends, for every pair, the requests that are needed in any
// case, while all watches are open and before there is a manager: what the
// manager writes by one group of clients, what the agents do by another.
func (b *bench) measureFloors(ctx context.Context) error {
	b.floors = map[string]time.Duration{}
	drain, err := b.hub.drain(ctx)
	if err != nil {
		return err
	}
	defer drain()
	if err := b.ceiling(ctx); err != nil {
		return err
	}
	f := &floor{bench: b, payload: sizedResources(b.objects, "floor")}
	c, err := content.New(content.Manifest{Resources: f.payload})
	if err != nil {
		return err
	}
	f.content = c.Name
	c.TypeMeta = metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Content"}
	if err := f.post(ctx, "/apis/"+fleet.GroupVersion.String()+"/contents", c); err != nil {
		return err
	}
	for _, step := range []struct {
		phase          string
		manager, agent func(context.Context, pair) error
	}{
		{"install", f.create, f.answer},
		{"update", f.update, f.answer},
		{"delete", f.withdraw, f.remove},
	} {
		took, err := f.all(ctx, step.manager, step.agent)
		if err != nil {
			return fmt.Errorf("%s: %w", step.phase, err)
		}
		b.floors[step.phase] = took
	}
	return nil
}

// drain watches all deployments, as a manager does, and reads nothing of it.
func (h *hub) drain(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/apis/"+fleet.GroupVersion.String()+"/bundledeployments?watch=true", nil)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch: %w", err)
	}
	resp, err := h.http.Do(req) //nolint:bodyclose // stop closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, resp.Body) // ends with the watch
	}()
	return func() {
		cancel()
		<-done
		_ = resp.Body.Close() // nothing was asked of it
	}, nil
}

// A floor is the work of one scenario without a manager.
type floor struct {
	*bench
	payload []fleet.BundleResource
	content string
}

// all does the manager's and the agent's part for every pair and returns how
// long that took.
func (f *floor) all(ctx context.Context, manager, agent func(context.Context, pair) error) (time.Duration, error) {
	begin := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	todo, written := make(chan pair, f.pairs()), make(chan pair, f.pairs())
	for n := range f.clusters {
		for i := range f.bundles {
			todo <- pair{n, fmt.Sprintf("%s%d", floorPrefix, i)}
		}
	}
	close(todo)
	writers, wctx := errgroup.WithContext(ctx)
	for range f.workers {
		writers.Go(func() error {
			for p := range todo {
				if err := manager(wctx, p); err != nil {
					return err
				}
				written <- p
			}
			return nil
		})
		group.Go(func() error {
			for p := range written {
				if err := agent(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := writers.Wait()
	close(written)
	if agents := group.Wait(); err == nil {
		err = agents
	}
	return time.Since(begin), err
}

// hasValues reports whether a pair has a Secret of its own.
func (f *floor) hasValues(p pair) bool { return f.values && p.cluster%2 == 1 }

func (f *floor) post(ctx context.Context, path string, obj any) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.hub.call(ctx, http.MethodPost, path, contentJSON, body, nil)
}

func (f *floor) path(p pair) string {
	return pathOf(namespaceOf(p.cluster), "bundledeployments") + "/" + p.bundle
}

func (f *floor) secret(p pair) string {
	return "/api/v1/namespaces/" + namespaceOf(p.cluster) + "/secrets/" + p.bundle
}

// deployment is about what a manager writes.
func (f *floor) deployment(p pair) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespaceOf(p.cluster), Name: p.bundle,
		Labels: map[string]string{
			fleet.LabelManaged: "true", fleet.LabelBundleName: p.bundle, fleet.LabelBundleNamespace: workspace,
			fleet.LabelCluster: clusterName(p.cluster), fleet.LabelClusterNamespace: workspace, fleet.LabelRepoName: "bench", fleet.LabelCommit: strings.Repeat("0", 40),
		},
		Annotations: map[string]string{fleet.AnnotationInputHash: strings.Repeat("0", 64)},
	}}
	bd.TypeMeta = metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "BundleDeployment"}
	bd.Spec.DeploymentID = f.content + ":" + strings.Repeat("1", 64)
	bd.Spec.StagedDeploymentID = bd.Spec.DeploymentID
	bd.Spec.Options.DefaultNamespace, bd.Spec.StagedOptions.DefaultNamespace = "default", "default"
	if f.hasValues(p) {
		bd.Spec.ValuesHash = strings.Repeat("2", 64)
	}
	return bd
}

func (f *floor) create(ctx context.Context, p pair) error {
	if f.hasValues(p) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(p.cluster), Name: p.bundle},
			Type: fleet.SecretTypeBundleDeployment, Data: map[string][]byte{fleet.KeyValues: []byte(`{"cluster":"` + clusterName(p.cluster) + `"}`)}}
		if err := f.post(ctx, "/api/v1/namespaces/"+s.Namespace+"/secrets", s); err != nil {
			return err
		}
	}
	return f.post(ctx, pathOf(namespaceOf(p.cluster), "bundledeployments"), f.deployment(p))
}

func (f *floor) update(ctx context.Context, p pair) error {
	if f.hasValues(p) {
		if err := f.hub.call(ctx, http.MethodPatch, f.secret(p), mergePatch, []byte(`{"data":{"`+fleet.KeyValues+`":"e30="}}`), nil); err != nil {
			return err
		}
	}
	id := f.content + ":" + strings.Repeat("3", 64)
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"deploymentID":%q,"stagedDeploymentID":%q}}`,
		fleet.AnnotationInputHash, strings.Repeat("4", 64), id, id)
	return f.hub.call(ctx, http.MethodPatch, f.path(p), mergePatch, []byte(body), nil)
}

// answer is what an agent does with a new version: the Content, the values,
// the status.
func (f *floor) answer(ctx context.Context, p pair) error {
	if err := f.hub.call(ctx, http.MethodGet, "/apis/"+fleet.GroupVersion.String()+"/contents/"+f.content, "", nil, nil); err != nil {
		return err
	}
	if f.hasValues(p) {
		if err := f.hub.call(ctx, http.MethodGet, f.secret(p), "", nil, nil); err != nil {
			return err
		}
	}
	bd := f.deployment(p)
	a := &agent{agents: f.agents, n: p.cluster}
	return f.status(ctx, p, report.Status(bd, a.found(bd, false), time.Now()))
}

func (f *floor) status(ctx context.Context, p pair, status fleet.BundleDeploymentStatus) error {
	body, err := statusPatch("", status)
	if err != nil {
		return err
	}
	return f.hub.call(ctx, http.MethodPatch, f.path(p)+"/status?fieldManager="+fleet.FieldManagerAgent, mergePatch, body, nil)
}

func (f *floor) withdraw(ctx context.Context, p pair) error {
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"order"}}}`, fleet.AnnotationWithdrawn)
	return f.hub.call(ctx, http.MethodPatch, f.path(p), mergePatch, []byte(body), nil)
}

// remove is the agent's answer and what the manager does then.
func (f *floor) remove(ctx context.Context, p pair) error {
	if err := f.status(ctx, p, report.Withdrawn(f.deployment(p), "order", "", time.Now())); err != nil {
		return err
	}
	if f.hasValues(p) {
		if err := f.hub.call(ctx, http.MethodDelete, f.secret(p), "", nil, nil); err != nil {
			return err
		}
	}
	return f.hub.call(ctx, http.MethodDelete, f.path(p), "", nil, nil)
}

// ceilingRequests is how many requests of a kind the ceiling is measured with.
const ceilingRequests = 2000

// ceiling measures how many creates, and how many status patches, of
// deployments this API server takes per second.
func (b *bench) ceiling(ctx context.Context) error {
	f := &floor{bench: b, content: "s-" + strings.Repeat("5", 60)}
	rate := func(do func(context.Context, pair) error) (string, error) {
		begin := time.Now()
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(b.workers)
		for i := range ceilingRequests {
			group.Go(func() error { return do(ctx, pair{i % b.clusters, fmt.Sprintf("%sceiling-%d", floorPrefix, i)}) })
		}
		err := group.Wait()
		return fmt.Sprintf("%.0f/s", ceilingRequests/time.Since(begin).Seconds()), err
	}
	creates, err := rate(func(ctx context.Context, p pair) error {
		return f.post(ctx, pathOf(namespaceOf(p.cluster), "bundledeployments"), f.deployment(p))
	})
	if err != nil {
		return err
	}
	patches, err := rate(func(ctx context.Context, p pair) error {
		return f.status(ctx, p, report.Status(f.deployment(p), report.Found{ID: "x"}, time.Now()))
	})
	if err != nil {
		return err
	}
	if _, err := rate(func(ctx context.Context, p pair) error {
		return f.hub.call(ctx, http.MethodDelete, f.path(p), "", nil, nil)
	}); err != nil {
		return err
	}
	measure.Title(b.String())
	fmt.Printf("Ceiling with %d clients and %d watches: %s creates, %s status patches.\n\n", b.workers, b.clusters, creates, patches)
	return nil
}

// sizedResources are so many small objects.
func sizedResources(objects int, version string) []fleet.BundleResource {
	var list []fleet.BundleResource
	for i := range objects {
		list = append(list, fleet.BundleResource{Name: fmt.Sprintf("map-%d.yaml", i), Content: fmt.Sprintf(
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map-%d\ndata:\n  version: %q\n  text: %q\n", i, version, strings.Repeat("x", 100))})
	}
	return list
}
