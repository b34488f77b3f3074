package view

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// A Workspace is one workspace as people see it. Field names are part of the
// command line's contract.
type Workspace struct {
	// Name is that of the workspace and of its namespace.
	Name string `json:"name"`
	// Clusters are counted by state; by Rancher's API only their total is known.
	Clusters Count `json:"clusters"`
	// Bundles are counted by state, and not there where that is not known.
	Bundles *Count `json:"bundles,omitempty"`
	// Repositories is how many GitRepos it has, where that is known.
	Repositories *int `json:"repositories,omitempty"`
	// Creator is Rancher's id of the user who has made it.
	Creator string `json:"creator,omitempty"`
	// Created is when it was made.
	Created *time.Time `json:"created,omitempty"`
	// Message says what is not as usual.
	Message string `json:"message,omitempty"`
}

// A WorkspaceVisibility is what there is to be seen of workspaces.
type WorkspaceVisibility struct {
	Fleet Fleet
	// Kinds reports that Rancher's kinds are in the cluster; Records are its
	// FleetWorkspaces, as metadata.
	Kinds   bool
	Records []*metav1.PartialObjectMetadata
	// Namespaces are all there are; nil where they may not be listed.
	Namespaces []*metav1.PartialObjectMetadata
}

// Workspaces returns all workspaces, by name: those that Rancher has, and namespaces that
// hold Clusters, Bundles or GitRepos or were made to do so.
func Workspaces(s WorkspaceVisibility) []Workspace {
	spaces := map[string]*metav1.PartialObjectMetadata{}
	found := map[string]*Workspace{}
	at := func(name string) *Workspace {
		if found[name] == nil {
			found[name] = &Workspace{Name: name, Repositories: new(int)}
		}
		return found[name]
	}
	for _, ns := range s.Namespaces {
		spaces[ns.Name] = ns
		if ns.Annotations[workspace.AnnotationOrigin] != "" {
			at(ns.Name)
		}
	}
	clusters, bundles := map[string][]*fleet.Cluster{}, map[string][]*fleet.Bundle{}
	for _, c := range s.Fleet.Clusters {
		clusters[c.Namespace] = append(clusters[c.Namespace], c)
	}
	for _, b := range s.Fleet.Bundles {
		bundles[b.Namespace] = append(bundles[b.Namespace], b)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(clusters)), slices.Collect(maps.Keys(bundles))) {
		at(name)
	}
	for _, r := range s.Fleet.Repositories {
		*at(r.Namespace).Repositories++
	}
	records := map[string]*metav1.PartialObjectMetadata{}
	for _, r := range s.Records {
		records[r.Name] = r
		at(r.Name)
	}
	out := make([]Workspace, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		w := found[name]
		w.Clusters = countStates(clusters[name], ClusterState)
		all := countStates(bundles[name], BundleState)
		w.Bundles = &all
		w.addSources(s, records[name], spaces[name])
		out = append(out, *w)
	}
	return out
}

// addSources adds what the FleetWorkspace and the Namespace say; each is nil where it does not
// exist.
func (w *Workspace) addSources(s WorkspaceVisibility, record, ns *metav1.PartialObjectMetadata) {
	source := record
	if source == nil {
		source = ns
	}
	if source == nil {
		return
	}
	w.Created = utcPointer(source.CreationTimestamp.Time)
	switch {
	case source.DeletionTimestamp != nil:
		w.Message = "is being deleted"
	case record != nil && ns == nil && s.Namespaces != nil:
		w.Message = "has no namespace yet; kubectl describe fleetworkspace " + w.Name + " says why"
	case record == nil && s.Kinds:
		w.Message = "a namespace alone, without FleetWorkspace"
	}
	if record != nil {
		w.Creator = record.Annotations[workspace.AnnotationCreator]
	}
}

// Unserved returns the names of what is deployed to a cluster, and would not be if the
// cluster were in another workspace, whose Bundles and ClusterGroups are given. What says
// keepResources is not among them: nothing of it would be removed.
func Unserved(c *fleet.Cluster, to string, deployed []*fleet.BundleDeployment, bundles []*fleet.Bundle, groups []*fleet.ClusterGroup) []string {
	compiled, _ := target.CompileGroups(groups) // a group that cannot be read selects no cluster
	there := target.Cluster{Namespace: to, Name: c.Name, Labels: c.Labels, Groups: compiled.Selecting(c.Labels)}
	served := map[string]bool{}
	for _, b := range bundles {
		if m, err := target.Compile(&b.Spec); err == nil && !IsLeaving(b) && m.Pick(&there).Deploy {
			served[b.Name] = true
		}
	}
	var out []string
	for _, bd := range deployed {
		if !served[bd.Name] && !IsLeaving(bd) && !bd.Spec.Options.KeepResources && bd.Name != naming.AgentBundle(c.Name) {
			out = append(out, bd.Name)
		}
	}
	slices.Sort(out)
	return out
}
