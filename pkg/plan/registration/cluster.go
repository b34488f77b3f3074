package registration

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Reasons of the condition Processed.
const (
	ReasonOtherManager   = "OtherManager"
	ReasonNamespaceTaken = "NamespaceTaken"
	ReasonTerminating    = "NamespaceTerminating"
)

// NamespaceOf chooses the namespace of a Cluster's BundleDeployments. owned are the names
// of the namespaces that say they are this Cluster's.
//
// It prefers the namespace that the manager chose before; then, for an older installation,
// the one that status names; then the computed name. It takes the first two only if the
// namespace confirms them. The annotation and status.namespace alone decide nothing: a user
// who edits the Cluster may write the former, and an agent the latter.
func NamespaceOf(c *fleet.Cluster, owned []string) string {
	asked, computed := c.Annotations[AnnotationDeploymentNamespace], naming.ClusterNamespace(c.Namespace, c.Name)
	for _, ns := range []string{asked, c.Status.Namespace} {
		if asked != computed && slices.Contains(owned, ns) {
			return ns
		}
	}
	return computed
}

// NamespaceRefused returns what to say of a Cluster whose annotation names another
// namespace than it gets; empty: it does not.
func NamespaceRefused(c *fleet.Cluster, gets string) string {
	asked := c.Annotations[AnnotationDeploymentNamespace]
	if asked == "" || asked == gets {
		return ""
	}
	return fmt.Sprintf("annotation %s named %q, which is no namespace of this Cluster: its own is %q", AnnotationDeploymentNamespace, asked, gets)
}

// NamespaceOwner returns the "namespace/name" of the Cluster that a namespace says it
// belongs to; empty for a namespace that is no cluster's.
func NamespaceOwner(ns metav1.Object) string {
	a := ns.GetAnnotations()
	if a[fleet.AnnotationCluster] == "" || a[fleet.AnnotationClusterNamespace] == "" {
		return ""
	}
	return a[fleet.AnnotationClusterNamespace] + "/" + a[fleet.AnnotationCluster]
}

// NewNamespace returns the namespace of a Cluster's BundleDeployments.
func NewNamespace(c *fleet.Cluster, name string, s System) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: s.labels(),
		Annotations: map[string]string{
			fleet.AnnotationCluster:          c.Name,
			fleet.AnnotationClusterNamespace: c.Namespace,
		},
	}}
}

// AdoptNamespace returns why a namespace that exists already must not become a Cluster's:
// the user who made it may read in it. Empty: it is the Cluster's.
//
// Every user who may create a namespace can write its marks, so these are not enough for a
// new Cluster. A Cluster that had the namespace before, or whose annotation a user has set,
// keeps it.
func AdoptNamespace(ns metav1.Object, c *fleet.Cluster) string {
	name, want := ns.GetName(), c.Namespace+"/"+c.Name
	had := c.Annotations[AnnotationDeploymentNamespace] == name || c.Status.Namespace == name
	switch owner := NamespaceOwner(ns); {
	case ns.GetLabels()[fleet.LabelManaged] != True || owner == "":
		return fmt.Sprintf("namespace %q exists and was not made by Fleet: delete it", name)
	case owner != want:
		return takenMessage(name, owner)
	case !had:
		return fmt.Sprintf("namespace %q exists already: delete it, or put its name into annotation %s of the Cluster",
			name, AnnotationDeploymentNamespace)
	}
	return ""
}

// MarkCluster returns a Cluster with the manager's mark, its namespace, and the finalizer;
// they are written together. It adds no label: templates see the labels of a Cluster, and
// what they render must not depend on who manages it. LabelBucket, which earlier versions
// have put on Clusters, goes.
func MarkCluster(c *fleet.Cluster, namespace string, m Mark) *fleet.Cluster {
	out := c.DeepCopy()
	out.Annotations = withEntry(out.Annotations, fleet.AnnotationManager, m.String())
	out.Annotations = withEntry(out.Annotations, AnnotationDeploymentNamespace, namespace)
	delete(out.Labels, fleet.LabelBucket)
	if !slices.Contains(out.Finalizers, fleet.FinalizerCluster) {
		out.Finalizers = append(out.Finalizers, fleet.FinalizerCluster)
	}
	return out
}

// UnmarkCluster returns a Cluster that has no namespace after all.
func UnmarkCluster(c *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	delete(out.Annotations, AnnotationDeploymentNamespace)
	out.Status.Namespace = ""
	return out
}

// ReleaseCluster returns a Cluster without the manager's finalizer.
func ReleaseCluster(c *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == fleet.FinalizerCluster })
	return out
}

// Released reports whether a Cluster is being deleted and the manager has let it go:
// nothing is granted for it any more, whatever other finalizers keep it.
func Released(c *fleet.Cluster) bool {
	return c.DeletionTimestamp != nil && !slices.Contains(c.Finalizers, fleet.FinalizerCluster)
}

// OtherManager returns the id of another manager whose mark a Cluster carries. It is empty
// where the mark is this manager's, is missing or cannot be read.
func OtherManager(c *fleet.Cluster, own Mark) string {
	m, err := ParseMark(c.Annotations[fleet.AnnotationManager])
	if err != nil || m.ID == own.ID {
		return ""
	}
	return m.ID
}

// ProcessedCondition returns the condition of a Cluster that has all it needs, or of one
// that was refused for a reason in words.
func ProcessedCondition(c *fleet.Cluster, reason, message string) fleet.Condition {
	cond := fleet.Condition{
		Type: fleet.ConditionProcessed, Status: corev1.ConditionTrue,
		ObservedGeneration: c.Generation,
	}
	if reason != "" {
		cond.Status, cond.Reason, cond.Message = corev1.ConditionFalse, reason, message
	}
	return cond
}

// withEntry is m with one entry more; m is not changed.
func withEntry(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
