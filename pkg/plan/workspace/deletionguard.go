package workspace

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// Finalizer keeps a FleetWorkspace until its namespace has gone, or stays for good
// reason.
const Finalizer = "fleet.cattle.io/workspace"

// AnnotationRefused on a FleetWorkspace says why it is not deleted, or why it has no
// namespace. It is Fleet's own, and is removed when that is over.
const AnnotationRefused = "fleet.cattle.io/workspace-refused"

// Holdings are the clusters of a workspace, of all kinds.
type Holdings struct {
	Provisioning []*provisioning.Cluster // in its namespace
	Fleet        []*fleet.Cluster        // in its namespace
	Management   []*management.Cluster   // that name it as their workspace
	ClusterAPI   []string                // names, in its namespace
}

// Unlisted stands among the names of clusters for those that may be there.
const Unlisted = "Cluster API Clusters, if there are any: they cannot be listed now,"

// Names returns the clusters as "<kind> <name>", each once: what is one cluster to people
// is a provisioning Cluster, one of Fleet's, a management Cluster and one of the Cluster
// API.
func (h Holdings) Names() []string {
	var out []string
	seen, records := map[string]bool{}, map[string]bool{}
	for _, p := range h.Provisioning {
		seen[p.Name], records[p.Status.ClusterName] = true, true
		out = append(out, "Cluster "+p.Name)
	}
	for _, c := range h.Fleet {
		records[c.Labels[fleet.LabelManagementCluster]] = true
		if !seen[c.Name] {
			seen[c.Name] = true
			out = append(out, "Cluster "+c.Name)
		}
	}
	for _, m := range h.Management {
		if !records[m.Name] && m.DeletionTimestamp == nil {
			out = append(out, "management Cluster "+m.Name)
		}
	}
	for _, name := range h.ClusterAPI {
		if !seen[name] {
			out = append(out, "Cluster API Cluster "+name)
		}
	}
	return out
}

// Guarded reports whether a workspace must not be deleted without the manager's consent.
// Where Rancher makes and deletes its namespace, that is so if the namespace, and clusters
// with it, would be deleted. Where the manager makes the namespaces itself, all workspaces
// are guarded.
func Guarded(w *management.FleetWorkspace, clusters []string) bool {
	return len(clusters) > 0 && w.Annotations[AnnotationManaged] != "false"
}

// Served returns the version by which a kind is best read: the one it is stored in, so that
// nothing has to be converted, or else the first that is served. It is empty where none is.
func Served(crd *apiextensionsv1.CustomResourceDefinition) string {
	first := ""
	for _, v := range crd.Spec.Versions {
		switch {
		case !v.Served:
		case v.Storage:
			return v.Name
		case first == "":
			first = v.Name
		}
	}
	return first
}
