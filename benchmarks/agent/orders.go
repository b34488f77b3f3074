package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// An order is one bundle in one version, ready to be written.
type order struct {
	name string
	id   string // deployment id
	spec fleet.BundleDeploymentSpec
}

// prepare writes the content of a bundle, as a manager does before anything
// else.
func (w *world) prepare(ctx context.Context, name string, files []fleet.BundleResource) (order, error) {
	m := content.Manifest{Resources: files}
	c, err := content.New(m)
	if err != nil {
		return order{}, err
	}
	if _, err := kube.StoreOf[*fleet.Content](w.hub.admin).Create(ctx, c); err != nil && !kube.IsExists(err) {
		return order{}, err
	}
	o := order{name: name}
	opts := fleet.BundleDeploymentOptions{DefaultNamespace: target}
	if o.id, err = options.DeploymentID(content.ID(m), opts); err != nil {
		return order{}, err
	}
	o.spec = fleet.BundleDeploymentSpec{Options: opts, DeploymentID: o.id, StagedOptions: opts, StagedDeploymentID: o.id}
	return o, nil
}

// write writes the BundleDeployment, and returns the moment before.
func (w *world) write(ctx context.Context, o order) (time.Time, error) {
	store := kube.StoreOf[*fleet.BundleDeployment](w.hub.admin)
	old := w.seen.deployment(o.name)
	begin := time.Now()
	if old != nil {
		changed := old.DeepCopy()
		changed.Spec = o.spec
		_, err := store.Patch(ctx, old, changed)
		return begin, err
	}
	_, err := store.Create(ctx, &fleet.BundleDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployments, Name: o.name, Labels: map[string]string{
			fleet.LabelBundleName: o.name, fleet.LabelBundleNamespace: workspace, fleet.LabelRepoName: "bench", fleet.LabelCommit: "0123456789abcdef",
		}},
		Spec: o.spec,
	})
	return begin, err
}

// deploy prepares many bundles, writes them, and returns how long it took from
// the first write until the last is reported as Ready.
func (w *world) deploy(ctx context.Context, names []string, files func(name string) []fleet.BundleResource) (begin time.Time, took time.Duration, err error) {
	orders := make([]order, len(names))
	err = parallel(ctx, len(names), func(ctx context.Context, i int) error {
		var err error
		orders[i], err = w.prepare(ctx, names[i], files(names[i]))
		return err
	})
	if err != nil {
		return begin, 0, err
	}
	begin = time.Now()
	err = parallel(ctx, len(orders), func(ctx context.Context, i int) error {
		_, err := w.write(ctx, orders[i])
		return err
	})
	if err != nil {
		return begin, 0, err
	}
	last, err := w.ready(ctx, orders)
	return begin, last.Sub(begin), err
}

// ready waits until all orders are reported as Ready, and returns when the last
// was.
func (w *world) ready(ctx context.Context, orders []order) (last time.Time, err error) {
	for _, o := range orders {
		at, err := w.seen.wait(ctx, w, reported{o.name, o.id})
		if err != nil {
			return last, fmt.Errorf("%s is not Ready: %w", o.name, err)
		}
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}

// names are "<prefix>-000" and so on.
func names(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return out
}

// configMaps are n ConfigMaps of a bundle in one file each.
func configMaps(name string, n int, version string) []fleet.BundleResource {
	var out []fleet.BundleResource
	for i := range n {
		out = append(out, file(fmt.Sprintf("%s-%d", name, i), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {version: "+fmt.Sprintf("%q", version)+"}\n"))
	}
	return out
}

func file(name, text string) fleet.BundleResource {
	return fleet.BundleResource{Name: name + ".yaml", Content: strings.ReplaceAll(text, "NAME", name)}
}

// tenObjects are a bundle of ten objects of the kinds that a small service has.
func tenObjects(name string) []fleet.BundleResource {
	out := configMaps(name, 4, "one")
	for i, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {key: some-text-that-nobody-may-see}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: NAME}\nstringData: {other: some-more-text}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: NAME}\nspec: {selector: {app: NAME}, ports: [{port: 80, targetPort: 8080}]}\n",
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: NAME}\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: NAME}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: NAME}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: NAME}\nsubjects: [{kind: User, name: nobody}]\n",
	} {
		out = append(out, file(fmt.Sprintf("%s-x%d", name, i), text))
	}
	return out
}
