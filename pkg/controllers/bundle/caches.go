package bundle

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/controllers/policycache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// annotationContent carries the digest of a Bundle's resources on cached
// Bundles, which lack the resources. It exists in caches only.
const annotationContent = "cache.fleet.cattle.io/content"

// annotationApplied is kubectl's copy of an object: as large as the object, and not
// read here.
const annotationApplied = "kubectl.kubernetes.io/last-applied-configuration"

// makeCaches makes the informers; b shares the texts of objects.
func makeCaches(b *base, c *kube.Client) *caches {
	managed := kube.Watch{Labels: fleet.LabelManaged + "=true"}
	out := &caches{
		bundles:     kube.NewCache(c, kube.Watch{}, stripBundle),
		deployments: kube.NewCache(c, kube.Watch{}, b.stripDeployment),
		clusters:    kube.NewCache(c, kube.Watch{}, b.stripCluster),
		groups:      kube.NewCache[*fleet.ClusterGroup](c, kube.Watch{}, nil),
		repos:       kube.NewCache[*fleet.GitRepo](c, kube.Watch{}, nil),
		helmOps:     kube.NewCache(c, kube.Watch{}, stripHelmOp),
		contents:    kube.NewMetaCache(c, fleet.GroupVersion.WithKind("Content"), kube.Watch{}, nil),
		secrets:     kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("Secret"), managed, stripSecret),
		configMaps: kube.NewMetaCache(c, corev1.SchemeGroupVersion.WithKind("ConfigMap"), kube.Watch{
			Labels: fleet.LabelCarried + "=true"}, stripSecret),
		suspension: kube.NewCache[*corev1.ConfigMap](c, kube.Watch{
			Namespace: b.cfg.Namespace, Fields: "metadata.name=" + fleet.ConfigMapBrake}, nil),
		policies: policycache.New(c),
		mapped:   makeMappingCaches(c),
	}
	if b.cfg.Schedules {
		out.schedules = kube.NewCache[*fleet.Schedule](c, kube.Watch{}, nil)
	}
	return out
}

// stripped reports whether an object was stripped before: caches strip some objects
// twice. Objects from the API server have managedFields, stripped ones do not.
func stripped(o metav1.Object) bool { return o.GetManagedFields() == nil }

// stripBundle drops the resources and keeps their digest. The annotation that names a
// content stays only on a Bundle without resources, where it has an effect.
func stripBundle(b *fleet.Bundle) {
	if stripped(b) {
		return
	}
	digest := content.Sum(content.Manifest{Resources: b.Spec.Resources})
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	if len(b.Spec.Resources) > 0 {
		delete(b.Annotations, fleet.AnnotationContent)
	}
	b.Spec.Resources = nil
	delete(b.Annotations, annotationApplied)
	b.Annotations[annotationContent] = digest
}

// resourcesDigest returns the digest of a cached Bundle's resources. stripBundle has
// dropped the resources and kept their digest in an annotation.
func resourcesDigest(b *fleet.Bundle) string {
	if id := fleetstate.NamedBy(b); id != "" {
		return strings.TrimPrefix(id, "s-")
	}
	return b.Annotations[annotationContent]
}

// contentID returns the id of the content of a cached Bundle: the one that the Bundle
// names, or the one that the manager makes of its resources. It is empty for a Bundle
// whose charts the agents pull.
func contentID(b *fleet.Bundle) string {
	if id := fleetstate.NamedBy(b); id != "" || b.Spec.HelmOpOptions != nil {
		return id
	}
	return content.IDOf(b.Annotations[annotationContent])
}

// stripDeployment drops the options of a deployment: its ids are enough to compare it.
// It keeps the options about the release, about what is copied to the cluster, and
// about what is deleted with the deployment. It shares the list of objects, which is
// the same on most clusters.
func (bs *base) stripDeployment(bd *fleet.BundleDeployment) {
	if stripped(bd) {
		return
	}
	o := bd.Spec.Options
	bd.Spec.Options = fleet.BundleDeploymentOptions{
		KeepResources: o.KeepResources, DeleteCRDResources: o.DeleteCRDResources, DeleteNamespace: o.DeleteNamespace,
		TargetNamespace: o.TargetNamespace, DefaultNamespace: o.DefaultNamespace, Helm: bs.lists.helmOptions(o.Helm),
		DownstreamResources: o.DownstreamResources,
	}
	bd.Spec.StagedOptions = fleet.BundleDeploymentOptions{}
	bd.Spec.DependsOn, bd.Spec.CorrectDrift = nil, nil
	if o := bd.Spec.HelmChartOptions; o != nil {
		bd.Spec.HelmChartOptions = &fleet.BundleHelmOptions{SecretName: o.SecretName}
	}
	delete(bd.Annotations, annotationApplied)
	bd.Status.Resources = bs.lists.resources(bd.Status.Resources)
	dropInputHash(bd)
	bd.ManagedFields = nil
	bs.lists.deployment(bd)
}

// stripCluster keeps the agent's heartbeat from managedFields, and drops the rest.
func (bs *base) stripCluster(c *fleet.Cluster) {
	if stripped(c) {
		return
	}
	fleetstate.ExtractHeartbeat(c)
	c.ManagedFields = nil
	c.Status.Agent.Journal = nil // users read it, through the API
	bs.lists.cluster(c)
}

// stripHelmOp drops the options of a HelmOp except its chart: its Bundle has them as well.
func stripHelmOp(op *fleet.HelmOp) {
	request := chart.RequestOf(op.Spec.Helm)
	op.Spec.BundleSpec = fleet.BundleSpec{}
	op.Spec.Helm = &fleet.HelmOptions{Repo: request.Repo, Chart: request.Chart, Version: request.Version}
	delete(op.Annotations, annotationApplied)
}

// stripSecret keeps only the annotation of a copied Secret that names its source.
func stripSecret(m *metav1.PartialObjectMetadata) { keepAnnotations(m, fleet.AnnotationInputHash) }

// keepAnnotations drops all annotations except those with the given keys.
func keepAnnotations(m *metav1.PartialObjectMetadata, keys ...string) {
	all := m.Annotations
	m.Annotations = nil
	for _, key := range keys {
		text, ok := all[key]
		if !ok {
			continue
		}
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[key] = text
	}
}
