package monitor

import "fmt"

// Diagnostics are the faults that a snapshot shows. An empty list is a fault that no object has.
type Diagnostics struct {
	GitRepoFaults
	BundleFaults
	DeploymentFaults
	ClusterFaults
	OtherFaults
	Counters
}

// GitRepoFaults are faults of GitRepos.
type GitRepoFaults struct {
	GitReposWithNoBundles          []GitRepo `json:"gitReposWithNoBundles,omitempty"`
	GitReposWithCommitMismatch     []GitRepo `json:"gitReposWithCommitMismatch,omitempty"`
	GitReposWithGenerationMismatch []GitRepo `json:"gitReposWithGenerationMismatch,omitempty"`
	GitReposUnpolled               []GitRepo `json:"gitReposUnpolled,omitempty"`
}

// BundleFaults are faults of Bundles.
type BundleFaults struct {
	GitRepoBundleInconsistencies  []Bundle `json:"gitRepoBundleInconsistencies,omitempty"`
	LargeBundles                  []Bundle `json:"largeBundles,omitempty"`
	BundlesWithMissingContent     []Bundle `json:"bundlesWithMissingContent,omitempty"`
	BundlesWithNoDeployments      []Bundle `json:"bundlesWithNoDeployments,omitempty"`
	BundlesWithMissingGitRepo     []Bundle `json:"bundlesWithMissingGitRepo,omitempty"`
	BundlesWithGenerationMismatch []Bundle `json:"bundlesWithGenerationMismatch,omitempty"`
}

// DeploymentFaults are faults of BundleDeployments.
type DeploymentFaults struct {
	StuckBundleDeployments                      []Deployment `json:"stuckBundleDeployments,omitempty"`
	BundleDeploymentsWithMissingBundle          []Deployment `json:"bundleDeploymentsWithMissingBundle,omitempty"`
	BundleDeploymentsWithSyncGenerationMismatch []Deployment `json:"bundleDeploymentsWithSyncGenerationMismatch,omitempty"`
}

// ClusterFaults are faults of Clusters and ClusterGroups.
type ClusterFaults struct {
	ClustersWithAgentIssues     []Cluster      `json:"clustersWithAgentIssues,omitempty"`
	ClusterGroupsWithNoClusters []ClusterGroup `json:"clusterGroupsWithNoClusters,omitempty"`
}

// OtherFaults are faults of Secrets, and of finalizers.
type OtherFaults struct {
	InvalidSecretOwners             []Secret        `json:"invalidSecretOwners,omitempty"`
	ResourcesWithMultipleFinalizers []FinalizerList `json:"resourcesWithMultipleFinalizers,omitempty"`
}

// A FinalizerList is an object with several finalizers, one of which is not Fleet's.
type FinalizerList struct {
	Kind              string   `json:"kind"`
	Namespace         string   `json:"namespace"`
	Name              string   `json:"name"`
	Finalizers        []string `json:"finalizers"`
	FinalizerCount    int      `json:"finalizerCount"`
	DeletionTimestamp *string  `json:"deletionTimestamp,omitempty"`
}

// Counters count objects. An object that is being deleted, or a Content that is no longer used, is
// no fault.
type Counters struct {
	OrphanedSecretsCount                   int `json:"orphanedSecretsCount,omitempty"`
	InvalidSecretOwnersCount               int `json:"invalidSecretOwnersCount,omitempty"`
	ContentIssuesCount                     int `json:"contentIssuesCount,omitempty"`
	GitRepoBundleInconsistenciesCount      int `json:"gitRepoBundleInconsistenciesCount,omitempty"`
	ResourcesWithMultipleFinalizersCount   int `json:"resourcesWithMultipleFinalizersCount,omitempty"`
	BundlesWithDeletionTimestamp           int `json:"bundlesWithDeletionTimestamp,omitempty"`
	BundleDeploymentsWithDeletionTimestamp int `json:"bundleDeploymentsWithDeletionTimestamp,omitempty"`
	ContentsWithDeletionTimestamp          int `json:"contentsWithDeletionTimestamp,omitempty"`
	ContentsWithZeroReferenceCount         int `json:"contentsWithZeroReferenceCount,omitempty"`
}

// A Fault is one diagnosis with the objects that have it.
type Fault struct {
	Key     string // of the diagnosis in JSON
	Title   string // what is wrong, for people
	Objects []Object
}

// Faults returns the diagnoses of a snapshot that at least one object has, in a fixed order.
// Those of a snapshot of the reference are the reference's.
func (s *Snapshot) Faults() []Fault {
	var out []Fault
	add := func(key, title string, objects []Object) {
		if len(objects) > 0 {
			out = append(out, Fault{key, title, objects})
		}
	}
	if d := s.Diagnostics; d != nil {
		add("stuckBundleDeployments", "BundleDeployments that do not get applied or removed", objectsOf(d.StuckBundleDeployments))
		add("bundleDeploymentsWithSyncGenerationMismatch", "BundleDeployments that a forced sync has not reached", objectsOf(d.BundleDeploymentsWithSyncGenerationMismatch))
		add("bundleDeploymentsWithMissingBundle", "BundleDeployments without Bundle", objectsOf(d.BundleDeploymentsWithMissingBundle))
		add("clustersWithAgentIssues", "Clusters that are not Ready or not seen", objectsOf(d.ClustersWithAgentIssues))
		add("clusterGroupsWithNoClusters", "ClusterGroups without Clusters", objectsOf(d.ClusterGroupsWithNoClusters))
		add("gitReposWithCommitMismatch", "GitRepos whose newest commit is not read", objectsOf(d.GitReposWithCommitMismatch))
		add("gitReposWithGenerationMismatch", "GitRepos whose change is not read", objectsOf(d.GitReposWithGenerationMismatch))
		add("gitReposUnpolled", "GitRepos that are not polled", objectsOf(d.GitReposUnpolled))
		add("gitReposWithNoBundles", "GitRepos without Bundles", objectsOf(d.GitReposWithNoBundles))
		add("gitRepoBundleInconsistencies", "Bundles that differ from their GitRepo", objectsOf(d.GitRepoBundleInconsistencies))
		add("bundlesWithMissingGitRepo", "Bundles without their GitRepo", objectsOf(d.BundlesWithMissingGitRepo))
		add("bundlesWithGenerationMismatch", "Bundles whose change is not processed", objectsOf(d.BundlesWithGenerationMismatch))
		add("bundlesWithNoDeployments", "Bundles without BundleDeployments", objectsOf(d.BundlesWithNoDeployments))
		add("bundlesWithMissingContent", "Bundles whose Content is missing", objectsOf(d.BundlesWithMissingContent))
		add("largeBundles", "Bundles that are larger than 1 MiB", objectsOf(d.LargeBundles))
		add("invalidSecretOwners", "Secrets that do not match their owner", objectsOf(d.InvalidSecretOwners))
		add("resourcesWithMultipleFinalizers", "objects with several finalizers", objectsOf(d.ResourcesWithMultipleFinalizers))
	}
	add("orphanedSecrets", "Secrets without owner", objectsOf(s.OrphanedSecrets))
	add("contentIssues", "BundleDeployments without Content", objectsOf(s.ContentIssues))
	if c := s.APIConsistency; c != nil && !c.Consistent {
		add("apiConsistency", "the API server gives old answers", []Object{{Issue: fmt.Sprintf("versions %q", c.Versions)}})
	}
	return out
}

// named is an entry of a diagnosis.
type named interface{ object() Object }

func (o Object) object() Object { return o }

func (f FinalizerList) object() Object {
	return Object{Namespace: f.Namespace, Name: f.Kind + "/" + f.Name, Issue: fmt.Sprintf("%q", f.Finalizers)}
}

func (c ContentIssue) object() Object {
	o := Object{Namespace: c.Namespace, Name: c.Name}
	if len(c.Issues) > 0 {
		o.Issue = c.Issues[0]
	}
	return o
}

func objectsOf[T named](list []T) []Object {
	out := make([]Object, len(list))
	for i, one := range list {
		out[i] = one.object()
	}
	return out
}
