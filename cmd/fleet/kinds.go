package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// A kind is one of the kinds that fleet get knows.
type kind struct {
	plural   string // as people say and type it: "clusters"
	singular string
	Kind     string   // as in an object's kind field
	names    []string // further names, as kubectl knows them
}

// kinds are in the order in which help lists them.
var kinds = []kind{
	{"repos", "repo", "GitRepo", []string{"gitrepos", "gitrepo", "gr"}},
	{"bundles", "bundle", "Bundle", []string{"bun"}},
	{"clusters", "cluster", "Cluster", []string{"fcl"}},
	{"groups", "group", "ClusterGroup", []string{"clustergroups", "clustergroup", "fcg"}},
	{"deployments", "deployment", "BundleDeployment", []string{"bundledeployments", "bundledeployment", "bd"}},
	{"tokens", "token", "ClusterRegistrationToken", []string{"clusterregistrationtokens", "clusterregistrationtoken", "fcrt"}},
}

// resource is how the API server calls the kind.
func (k kind) resource() schema.GroupVersionResource {
	plural, _, _ := fleet.Resource(k.Kind)
	return fleet.GroupVersion.WithResource(plural)
}

// qualified is what kubectl puts before a name: "cluster.fleet.cattle.io".
func (k kind) qualified() string { return strings.ToLower(k.Kind) + "." + fleet.Group }

// is reports whether a word is one of the names of the kind, with or without the
// API group.
func (k kind) is(name string) bool {
	word := strings.TrimSuffix(strings.ToLower(name), "."+fleet.Group)
	return word == k.plural || word == k.singular || slices.Contains(k.names, word)
}

// kindOf finds a kind by any of its names.
func kindOf(name string) (kind, error) {
	for _, k := range kinds {
		if k.is(name) {
			return k, nil
		}
	}
	if k := kindNamed(name); k != "" {
		plural, _, _ := fleet.Resource(k)
		plural += "." + fleet.Group
		if slices.Contains(support.Kinds(), k) {
			return kind{}, fmt.Errorf("no kind %q here: this version does not act on %s yet; kubectl get %s shows those that are there", name, k, plural)
		}
		return kind{}, fmt.Errorf("no kind %q here; kubectl get %s shows them", name, plural)
	}
	if near := spelling.Nearest(strings.ToLower(name), kindWords()); near != "" {
		return kind{}, fmt.Errorf("no kind %q; did you mean %q?", name, near)
	}
	return kind{}, fmt.Errorf("no kind %q; there are %s", name, strings.Join(kindNames(), ", "))
}

// mustKind is kindOf for names in the program.
func mustKind(name string) kind {
	k, err := kindOf(name)
	if err != nil {
		panic(err)
	}
	return k
}

// kindWords are the names of all kinds that are long enough to be misspelt.
func kindWords() []string {
	var words []string
	for _, k := range kinds {
		for _, word := range append([]string{k.plural, k.singular}, k.names...) {
			if len(word) > 3 {
				words = append(words, word)
			}
		}
	}
	return words
}

// kindNames are the names of all kinds as people type them.
func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.plural)
	}
	return names
}
