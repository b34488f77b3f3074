package workspace

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// An Action is what to do with the Namespace of a workspace.
type Action int

const (
	// Leave does nothing.
	Leave Action = iota
	// Create makes it, and it belongs to its workspace.
	Create
	// Adopt takes one that is there, which is never deleted with its workspace.
	Adopt
	// Refuse leaves one that is there, because it is not for workspaces.
	Refuse
)

// backing are the names of namespaces that Rancher keeps for clusters, projects
// and users.
var backing = regexp.MustCompile(`^(c-[a-z0-9]{5}|c-m-[a-z0-9]{8}|p-[a-z0-9]{5}|u-[a-z0-9]{5,10}|user-[a-z0-9]{5})$`)

// System reports whether a namespace is never a workspace: Kubernetes', Rancher's
// and Fleet's own. ns is nil where the namespace is not there.
func System(name string, ns *metav1.PartialObjectMetadata) bool {
	switch name {
	case "default", Local, "fleet-system", "fleet-clusters-system":
		return true
	}
	for _, prefix := range []string{"kube-", "cattle-", "cluster-fleet-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return backing.MatchString(name) || ns != nil && (ns.Labels[labelSystemNamespace] == yes || ns.Annotations[labelSystemNamespace] == yes)
}

// DecideNamespace decides about the Namespace of a workspace; live is nil where there is none.
// The text says why, where it is refused.
func DecideNamespace(w *management.FleetWorkspace, live *metav1.PartialObjectMetadata) (Action, string) {
	switch {
	case w.Annotations[AnnotationManaged] == "false":
		return Leave, ""
	case System(w.Name, live):
		return Refuse, fmt.Sprintf("namespace %q belongs to the system and is never a workspace: choose another name", w.Name)
	case live == nil:
		return Create, ""
	case live.Annotations[AnnotationOrigin] == OriginCreated:
		return Create, ""
	case live.Annotations[AnnotationOrigin] == OriginAdopted, isMadeByRancher(live), live.Annotations[AnnotationAllowExisting] == yes:
		return Adopt, ""
	}
	return Refuse, fmt.Sprintf("namespace %q was there before the workspace, and whoever made the workspace need not be allowed to use it: "+
		"who may change the namespace sets annotation %s=true on it to let the workspace have it", w.Name, AnnotationAllowExisting)
}

// isMadeByRancher reports whether Rancher has made a namespace for a workspace.
func isMadeByRancher(ns *metav1.PartialObjectMetadata) bool {
	return ns.Labels[labelManagedBy] == rancher || ns.Annotations[fleet.AnnotationObjectSetID] == setWorkspace
}

// Namespace returns what the Namespace of a workspace is to say, with the fields that this
// manager owns and nothing else. a is Create or Adopt.
func Namespace(w *management.FleetWorkspace, a Action) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: w.Name, Labels: naming.UserKeys(w.Labels), Annotations: naming.UserKeys(w.Annotations),
	}}
	ns.Annotations[AnnotationOrigin] = OriginCreated
	if a == Adopt {
		ns.Annotations[AnnotationOrigin] = OriginAdopted
	}
	return ns
}

// LocalNamespace returns the Namespace of the local cluster as Rancher makes it at its
// start. Its label lets it have a FleetWorkspace, which Rancher's webhook may look for.
func LocalNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.NamespaceLocal, Labels: map[string]string{labelManagedBy: rancher}}}
}

// podSecurity begins the labels of a Namespace that say what its pods may do.
const podSecurity = "pod-security.kubernetes.io/"

// LeaveOutPodSecurity removes the labels from a Namespace that say what its pods may
// do, and returns their names, sorted.
func LeaveOutPodSecurity(ns *corev1.Namespace) []string {
	var out []string
	for name := range ns.Labels {
		if strings.HasPrefix(name, podSecurity) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	for _, name := range out {
		delete(ns.Labels, name)
	}
	return out
}

// mostNamed is how many clusters a text names.
const mostNamed = 10

// Deletable reports whether a workspace that is to be deleted may go, and what holds
// it otherwise. clusters are those in its namespace, of any of the three kinds and
// of the Cluster API, as "<kind> <name>".
func Deletable(w *management.FleetWorkspace, clusters []string) (bool, string) {
	if len(clusters) == 0 || w.Annotations[AnnotationManaged] == "false" || w.Annotations[AnnotationDeleteClusters] == yes {
		return true, ""
	}
	named := slices.Sorted(slices.Values(clusters))
	more := ""
	if n := len(named) - mostNamed; n > 0 {
		named, more = named[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return false, fmt.Sprintf("workspace %q still holds %s%s: move them to another workspace or delete them first; "+
		"annotation %s=true deletes them together with it", w.Name, strings.Join(named, ", "), more, AnnotationDeleteClusters)
}

// TakesNamespace reports whether the Namespace goes with its workspace: only if it
// was made for it.
func TakesNamespace(w *management.FleetWorkspace, live *metav1.PartialObjectMetadata) bool {
	return w.Annotations[AnnotationManaged] != "false" && live != nil && live.Annotations[AnnotationOrigin] == OriginCreated && !System(w.Name, live)
}

// Leftover returns how long an empty namespace that was made for a workspace stays without
// it, which has been missing for a while; 0: no longer. As with ForsakenPatience, the
// workspace may be about to be restored from a backup.
func Leftover(missing time.Duration) time.Duration { return max(0, ForsakenTimeout-missing) }

// ForOrphan returns the workspace of a namespace that has Clusters or Bundles and none; nil
// where it is to have none. It goes when the namespace goes.
func ForOrphan(ns *metav1.PartialObjectMetadata) *management.FleetWorkspace {
	if ns.DeletionTimestamp != nil || System(ns.Name, ns) || ns.Labels[fleet.LabelManaged] == yes {
		return nil
	}
	return &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{
		Name:            ns.Name,
		Annotations:     map[string]string{AnnotationManaged: "false"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: ns.Name, UID: ns.UID}},
	}}
}
