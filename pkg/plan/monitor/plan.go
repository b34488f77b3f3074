package monitor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Diagnose returns the snapshot of a fleet. Nothing is diagnosed that needs a list which was not
// read. A change that may still be under way is no fault: see Grace.
//
// The lists of the snapshot are in the order of namespaces and names.
func Diagnose(in Input) Snapshot {
	j := newJudge(&in)
	s := Snapshot{
		Timestamp: in.Now.UTC().Format(time.RFC3339), Controller: newProcesses(in.Pods), RecentEvents: newEvents(in.Events),
		APIConsistency: consistency(in.Versions), Unread: in.Unread,
	}
	for _, r := range in.GitRepos {
		s.GitRepos = append(s.GitRepos, newGitRepo(r))
		j.gitRepo(r)
	}
	for _, b := range in.Bundles {
		s.Bundles = append(s.Bundles, newBundle(b))
		j.bundle(b)
	}
	for _, bd := range in.Deployments {
		s.BundleDeployments = append(s.BundleDeployments, newDeployment(bd))
		j.deployment(bd)
	}
	for _, c := range in.Contents {
		if one, used := j.content(c); used || !in.Narrowed {
			s.Contents = append(s.Contents, one)
		}
	}
	for _, c := range in.Clusters {
		s.Clusters = append(s.Clusters, newCluster(c, in.Now))
		j.cluster(c)
	}
	for _, g := range in.Groups {
		s.ClusterGroups = append(s.ClusterGroups, newGroup(g))
		j.group(g)
	}
	for _, one := range in.Secrets {
		s.BundleSecrets = append(s.BundleSecrets, newSecret(one))
		j.secret(one)
	}
	s.OrphanedSecrets, s.ContentIssues = j.orphans, j.contentIssues
	j.count()
	s.Diagnostics = &j.found
	return s
}

// A judge finds faults.
type judge struct {
	index
	in            *Input
	found         Diagnostics
	orphans       []Secret
	contentIssues []ContentIssue
	usual         time.Duration // the check-in interval of agents

	withoutContent map[types.NamespacedName]bool // Bundles that are reported
}

// index finds the objects of an Input.
type index struct {
	repos       map[types.NamespacedName]*fleet.GitRepo
	bundles     map[types.NamespacedName]BundleObject
	ofRepo      map[types.NamespacedName][]*fleet.Bundle
	deployments map[types.NamespacedName]*fleet.BundleDeployment
	deployed    map[types.NamespacedName]int // BundleDeployments of a Bundle
	clusters    map[types.NamespacedName]ClusterObject
	contents    map[string]ContentObject
	uses        map[string]int // BundleDeployments that use a Content
	named       map[string]int // Bundles that name a Content
	secrets     map[types.NamespacedName]bool
}

func newJudge(in *Input) *judge {
	j := &judge{in: in, index: newIndex(in), withoutContent: map[types.NamespacedName]bool{}}
	j.readClusters()
	return j
}

func newIndex(in *Input) index {
	x := index{
		repos: map[types.NamespacedName]*fleet.GitRepo{}, bundles: map[types.NamespacedName]BundleObject{},
		ofRepo: map[types.NamespacedName][]*fleet.Bundle{}, deployments: map[types.NamespacedName]*fleet.BundleDeployment{},
		deployed: map[types.NamespacedName]int{}, clusters: map[types.NamespacedName]ClusterObject{}, contents: map[string]ContentObject{},
		uses: map[string]int{}, named: map[string]int{}, secrets: map[types.NamespacedName]bool{},
	}
	for _, r := range in.GitRepos {
		x.repos[keyOf(r)] = r
	}
	for _, b := range in.Bundles {
		x.addBundle(b)
	}
	for _, bd := range in.Deployments {
		x.deployments[keyOf(bd)] = bd
		x.deployed[bundleOf(bd)]++
		for _, id := range contentsOf(bd) {
			x.uses[id]++
		}
	}
	for _, c := range in.Contents {
		x.contents[c.Name] = c
	}
	for _, s := range in.Secrets {
		x.secrets[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
	}
	return x
}

func (x *index) addBundle(b BundleObject) {
	x.bundles[keyOf(b)] = b
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		repo := types.NamespacedName{Namespace: b.Namespace, Name: name}
		x.ofRepo[repo] = append(x.ofRepo[repo], b.Bundle)
	}
	if id := contentNamedBy(b.Bundle); id != "" {
		x.named[id]++
	}
}

// count sets the counters.
func (j *judge) count() {
	c := &j.found.Counters
	c.OrphanedSecretsCount, c.ContentIssuesCount = len(j.orphans), len(j.contentIssues)
	c.InvalidSecretOwnersCount = len(j.found.InvalidSecretOwners)
	c.GitRepoBundleInconsistenciesCount = len(j.found.GitRepoBundleInconsistencies)
	c.ResourcesWithMultipleFinalizersCount = len(j.found.ResourcesWithMultipleFinalizers)
}

// consistency compares the versions of a list; nil without versions. A later answer with an older
// version comes from an API server that lags behind another one. Newer versions are other writes.
func consistency(versions []string) *APIConsistency {
	if len(versions) == 0 {
		return nil
	}
	out := &APIConsistency{Consistent: true, Versions: versions}
	last := uint64(0)
	for _, v := range versions {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			continue // another kind of server
		}
		out.Consistent = out.Consistent && n >= last
		last = max(last, n)
	}
	return out
}

// knownFinalizers are finalizers of Kubernetes, and prefixes of those of Fleet and Rancher, that may
// be beside each other.
var knownFinalizers = []string{
	"fleet.cattle.io/", "wrangler.cattle.io/", "controller.cattle.io/", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents,
}

// finalizers reports an object with several finalizers, one of which is of another program: that
// program may keep the object.
func (j *judge) finalizers(kind string, o metav1.Object) {
	list := o.GetFinalizers()
	if len(list) < 2 || !slices.ContainsFunc(list, isForeignFinalizer) {
		return
	}
	j.found.ResourcesWithMultipleFinalizers = append(j.found.ResourcesWithMultipleFinalizers, FinalizerList{
		Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Finalizers: list, FinalizerCount: len(list),
		DeletionTimestamp: timeText(o.GetDeletionTimestamp()),
	})
}

func isForeignFinalizer(name string) bool {
	return !slices.ContainsFunc(knownFinalizers, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
