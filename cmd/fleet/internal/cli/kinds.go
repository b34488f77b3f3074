package cli

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// WorkspaceWord is the KIND of what is decided for a whole workspace: its list is on
// the workspace's namespace.
const WorkspaceWord = "workspace"

// WorkspaceKind is that KIND. It has no objects of its own.
var WorkspaceKind = Kind{Plural: "workspaces", Singular: WorkspaceWord, Kind: "Workspace", names: []string{"ws"}}

// KindNamed is the kind of Fleet's API that a word names, with or without the API
// group; empty where there is none.
func KindNamed(word string) string {
	word = strings.TrimSuffix(strings.ToLower(word), "."+fleet.Group)
	for _, k := range Kinds {
		if k.Matches(word) {
			return k.Kind
		}
	}
	for _, k := range fleet.Kinds() {
		if word == k.Plural || word == strings.ToLower(k.Kind) {
			return k.Kind
		}
	}
	return ""
}

// A Kind is one of the kinds that fleet get knows.
type Kind struct {
	Plural   string // as people say and type it: "clusters"
	Singular string
	Kind     string   // as in an object's kind field
	names    []string // further names, as kubectl knows them
}

// Kinds are in the order in which help lists them.
var Kinds = []Kind{
	{"repos", "repo", "GitRepo", []string{"gitrepos", "gitrepo", "gr"}},
	{"helmops", "helmop", "HelmOp", []string{"hop"}},
	{"bundles", "bundle", "Bundle", []string{"bun"}},
	{"clusters", "cluster", "Cluster", []string{"fcl"}},
	{"groups", "group", "ClusterGroup", []string{"clustergroups", "clustergroup", "fcg"}},
	{"deployments", "deployment", "BundleDeployment", []string{"bundledeployments", "bundledeployment", "bd"}},
	{"imagescans", "imagescan", "ImageScan", []string{"isc"}},
	{"tokens", "token", "ClusterRegistrationToken", []string{"clusterregistrationtokens", "clusterregistrationtoken", "fcrt"}},
}

// Resource is how the API server calls the kind.
func (k Kind) Resource() schema.GroupVersionResource {
	plural, _, _ := fleet.Resource(k.Kind)
	return fleet.GroupVersion.WithResource(plural)
}

// Qualified is what kubectl puts before a name: "cluster.fleet.cattle.io".
func (k Kind) Qualified() string { return strings.ToLower(k.Kind) + "." + fleet.Group }

// Matches reports whether a word is one of the names of the kind, with or without the
// API group.
func (k Kind) Matches(name string) bool {
	word := strings.TrimSuffix(strings.ToLower(name), "."+fleet.Group)
	return word == k.Plural || word == k.Singular || slices.Contains(k.names, word)
}

// KindOf finds a kind by any of its names.
func KindOf(name string) (Kind, error) {
	for _, k := range Kinds {
		if k.Matches(name) {
			return k, nil
		}
	}
	if k := KindNamed(name); k != "" {
		plural, _, _ := fleet.Resource(k)
		plural += "." + fleet.Group
		return Kind{}, fmt.Errorf("no kind %q here; kubectl get %s shows them", name, plural)
	}
	if near := spelling.Nearest(strings.ToLower(name), kindWords()); near != "" {
		return Kind{}, fmt.Errorf("no kind %q; did you mean %q?", name, near)
	}
	return Kind{}, fmt.Errorf("no kind %q; there are %s", name, strings.Join(KindNames(), ", "))
}

// MustKind is KindOf for names in the program.
func MustKind(name string) Kind {
	k, err := KindOf(name)
	if err != nil {
		panic(err)
	}
	return k
}

// kindWords are the names of all kinds that are long enough to be misspelt.
func kindWords() []string {
	var words []string
	for _, k := range Kinds {
		for _, word := range append([]string{k.Plural, k.Singular}, k.names...) {
			if len(word) > 3 {
				words = append(words, word)
			}
		}
	}
	return words
}

// KindNames are the names of all kinds as people type them.
func KindNames() []string {
	var names []string
	for _, k := range Kinds {
		names = append(names, k.Plural)
	}
	return names
}
