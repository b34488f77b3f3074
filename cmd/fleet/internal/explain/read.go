package explain

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// readSubject reads what all clusters of a Bundle share.
func readSubject(ctx context.Context, r *client.ExplainReader, b *fleet.Bundle) (explain.Subject, error) {
	s := r.S
	out := explain.Subject{Bundle: b, Now: s.Now()}
	var err error
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		if out.Repo, err = client.Read[fleet.GitRepo](ctx, r, cli.MustKind("repos").Resource(), b.Namespace, name); err != nil {
			return out, err
		}
		// The Bundle is read again after the GitRepo says that it was read: only that
		// version is used.
		again, err := client.Read[fleet.Bundle](ctx, r, cli.MustKind("bundles").Resource(), b.Namespace, b.Name)
		if err != nil {
			return out, err
		}
		if again != nil {
			b, out.Bundle = again, again
		}
		out.Findings = s.Unlisted(ctx, out.Repo)
	}
	if name := b.Labels[fleet.LabelHelmOpName]; name != "" {
		if out.HelmOp, err = client.Read[fleet.HelmOp](ctx, r, cli.MustKind("helmops").Resource(), b.Namespace, name); err != nil {
			return out, err
		}
	}
	if err := workspace(ctx, r, &out, b.Namespace); err != nil {
		return out, err
	}
	brake, err := client.Read[corev1.ConfigMap](ctx, r, client.ConfigMaps, s.System, fleet.ConfigMapBrake)
	if err != nil {
		return out, err
	}
	if brake != nil {
		out.Brake = view.ParseGlobalPause(brake.Data)
	}
	if out.Manager, err = s.ManagerOf(ctx, view.ShardOf(b)); err != nil {
		return out, err
	}
	r.Manager = out.Manager
	if b.Spec.ValuesHash == "" {
		return out, nil
	}
	values, err := client.Read[corev1.Secret](ctx, r, client.Secrets, b.Namespace, b.Name)
	if values != nil && values.Type == fleet.SecretTypeBundleValues {
		out.Values = values.Data
	}
	return out, err
}

// workspace reads the groups and limits of a namespace with clusters.
func workspace(ctx context.Context, r *client.ExplainReader, to *explain.Subject, namespace string) error {
	groups, err := client.List[fleet.ClusterGroup](ctx, r, client.Query{Resource: cli.MustKind("groups").Resource(), Namespace: namespace})
	if err != nil {
		return err
	}
	to.Groups = append(to.Groups, groups...)
	restrictions, err := client.List[fleet.GitRepoRestriction](ctx, r, limitsIn(policy.KindRestriction, namespace))
	if err != nil {
		return err
	}
	policies, err := client.List[fleet.Policy](ctx, r, limitsIn(policy.KindPolicy, namespace))
	if err != nil {
		return err
	}
	to.Restrictions, to.Policies = append(to.Restrictions, restrictions...), append(to.Policies, policies...)
	return nil
}

func limitsIn(kind, namespace string) client.Query {
	plural, _, _ := fleet.Resource(kind)
	return client.Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: namespace}
}

// readMappings reads the mappings that may lead a Bundle to other namespaces, and the labels
// of namespaces: of these names, or of all if there are none.
func readMappings(ctx context.Context, r *client.ExplainReader, to *explain.Subject, names []string) error {
	b := to.Bundle
	var err error
	mappings := fleet.GroupVersion.WithResource("bundlenamespacemappings")
	if to.Mappings, err = client.List[fleet.BundleNamespaceMapping](ctx, r, client.Query{Resource: mappings, Namespace: b.Namespace}); err != nil {
		return err
	}
	compiled := plantarget.CompileMappings(to.Mappings)
	if !slices.ContainsFunc(compiled, func(m plantarget.Mapping) bool { return m.Serves(b.Labels) }) {
		return nil
	}
	to.Spaces = map[string]map[string]string{}
	if len(names) == 0 {
		found, err := client.List[corev1.Namespace](ctx, r, client.Query{Resource: client.Namespaces, Labels: fleet.LabelManaged + "!=true"})
		if err != nil {
			return err
		}
		for _, ns := range found {
			to.Spaces[ns.Name] = ns.Labels
		}
	}
	for _, name := range names {
		ns, err := client.Read[corev1.Namespace](ctx, r, client.Namespaces, "", name)
		if err != nil {
			return err
		}
		if ns != nil && ns.Labels[fleet.LabelManaged] != "true" {
			to.Spaces[name] = ns.Labels
		}
	}
	for _, name := range compiled.ReachOf(b.Namespace, b.Labels, to.Spaces).Namespaces() {
		if err := workspace(ctx, r, to, name); err != nil {
			return err
		}
	}
	return nil
}

// bundleLabels selects the deployments of a Bundle.
func bundleLabels(b *fleet.Bundle) string {
	return fleet.LabelBundleName + "=" + b.Name + "," + fleet.LabelBundleNamespace + "=" + b.Namespace
}

// deployment reads the Bundle's deployment on a cluster: by its name in the
// cluster's namespace, or, where the Cluster may not be read, by its labels.
func deployment(ctx context.Context, r *client.ExplainReader, b *fleet.Bundle, at *explain.Place) error {
	k := cli.MustKind("deployments")
	var items []*unstructured.Unstructured
	if at.Cluster != nil {
		if at.Cluster.Status.Namespace == "" {
			return nil
		}
		u, err := r.Get(ctx, k.Resource(), at.Cluster.Status.Namespace, b.Name)
		if u == nil || err != nil {
			return err
		}
		items = append(items, u)
	} else {
		q := client.Query{Resource: k.Resource(), Labels: client.JoinSelectors(bundleLabels(b), fleet.LabelCluster+"="+at.Key.Name)}
		var err error
		if items, _, err = r.S.Listed(ctx, q); apierrors.IsForbidden(err) {
			r.RecordHidden(q.Resource.Resource, "")
			return nil
		} else if err != nil {
			return client.DescribeServerError(r.S.Server, err)
		}
	}
	for _, u := range items {
		bd, err := client.Convert[fleet.BundleDeployment](u)
		if err != nil {
			return err
		}
		if view.BundleOf(bd) == (view.Key{Namespace: b.Namespace, Name: b.Name}) && view.ClusterOf(bd) == at.Key {
			at.Deployment, at.Written = bd, written(bd)
		}
	}
	return nil
}

// maxNamed is how many clusters that targets name are looked for.
const maxNamed = 10

// readClusterNames reads the names and labels of all clusters in the workspace of at, to name
// the nearest. It does so if a Bundle that is not deployed there names a cluster that
// does not exist, or asks for labels that at lacks. Names that the user may not see are
// not missed.
func readClusterNames(ctx context.Context, r *client.ExplainReader, of *explain.Subject, at explain.Place) error {
	if at.Cluster == nil || at.Deployment != nil || !namesMissing(ctx, r, of.Bundle, at) && !explain.AsksLabels(*of, at) {
		return nil
	}
	namespace := at.Key.Namespace
	items, _, err := r.S.Listed(ctx, client.Query{Resource: cli.MustKind("clusters").Resource(), Namespace: namespace})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return client.DescribeServerError(r.S.Server, err)
	}
	var known []string
	var labels []map[string]string
	for _, u := range items {
		known = append(known, plantarget.NamesOf(u.GetName(), u.GetLabels())...)
		labels = append(labels, u.GetLabels())
	}
	of.Clusters, of.Labels = map[string][]string{namespace: known}, map[string][]map[string]string{namespace: labels}
	return nil
}

// namesMissing reports whether the targets of a Bundle name a cluster that does not
// exist, as far as the user may know.
func namesMissing(ctx context.Context, r *client.ExplainReader, b *fleet.Bundle, at explain.Place) bool {
	known := plantarget.NamesOf(at.Key.Name, at.Cluster.Labels)
	for i, t := range plantarget.PlainTargets(&b.Spec) {
		if i == maxNamed {
			break
		}
		if t.ClusterName == "" || slices.Contains(known, t.ClusterName) {
			continue
		}
		if _, err := r.S.API.Get(ctx, cli.MustKind("clusters").Resource(), at.Key.Namespace, t.ClusterName); apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

// clustersOf are all clusters that a Bundle may go to, with its deployments, which
// are listed once.
func clustersOf(ctx context.Context, r *client.ExplainReader, of *explain.Subject) ([]explain.Place, error) {
	b := of.Bundle
	if err := readMappings(ctx, r, of, nil); err != nil {
		return nil, err
	}
	var clusters []*fleet.Cluster
	spaces := plantarget.CompileMappings(of.Mappings).ReachOf(b.Namespace, b.Labels, of.Spaces).Namespaces()
	for _, ns := range append([]string{b.Namespace}, spaces...) {
		found, err := client.List[fleet.Cluster](ctx, r, client.Query{Resource: cli.MustKind("clusters").Resource(), Namespace: ns})
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, found...)
	}
	deployments, err := client.List[fleet.BundleDeployment](ctx, r, client.Query{Resource: cli.MustKind("deployments").Resource(), Labels: bundleLabels(b)})
	if err != nil {
		return nil, err
	}
	at := map[view.Key]int{}
	var out []explain.Place
	for _, c := range clusters {
		key := view.Key{Namespace: c.Namespace, Name: c.Name}
		at[key] = len(out)
		out = append(out, explain.Place{Key: key, Cluster: c})
	}
	for _, bd := range deployments {
		key := view.ClusterOf(bd)
		i, known := at[key]
		if !known {
			if !slices.Contains(r.Hidden, explain.Hidden{Resource: explain.Clusters, Namespace: key.Namespace}) {
				continue // of a cluster that is gone
			}
			i = len(out)
			at[key], out = i, append(out, explain.Place{Key: key})
		}
		out[i].Deployment, out[i].Written = bd, written(bd)
	}
	return out, nil
}

// written is when the manager wrote an object last, by the API server's clock.
func written(o metav1.Object) time.Time {
	var at time.Time
	for _, m := range o.GetManagedFields() {
		if m.Manager == fleet.FieldManagerController && m.Subresource == "" && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}
