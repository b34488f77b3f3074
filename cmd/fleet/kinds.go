package main

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A kind is one of the kinds that fleet get knows.
type kind struct {
	plural   string // as people say and type it: "clusters"
	singular string
	Kind     string   // as in an object's kind field
	names    []string // further names, as kubectl knows them
	columns  []column
	row      rowFunc
}

// kinds are in the order in which help lists them.
var kinds = []kind{
	{"repos", "repo", "GitRepo", []string{"gitrepos", "gitrepo", "gr"}, repoColumns, repoRow},
	{"bundles", "bundle", "Bundle", []string{"bun"}, bundleColumns, bundleRow},
	{"clusters", "cluster", "Cluster", []string{"fcl"}, clusterColumns, clusterRow},
	{"groups", "group", "ClusterGroup", []string{"clustergroups", "clustergroup", "fcg"}, groupColumns, groupRow},
	{"deployments", "deployment", "BundleDeployment", []string{"bundledeployments", "bundledeployment", "bd"}, deploymentColumns, deploymentRow},
	{"tokens", "token", "ClusterRegistrationToken", []string{"clusterregistrationtokens", "clusterregistrationtoken", "fcrt"}, tokenColumns, tokenRow},
}

// resource is how the API server calls the kind.
func (k kind) resource() schema.GroupVersionResource {
	plural, _, _ := fleet.Resource(k.Kind)
	return fleet.GroupVersion.WithResource(plural)
}

// qualified is what kubectl puts before a name: "cluster.fleet.cattle.io".
func (k kind) qualified() string { return strings.ToLower(k.Kind) + "." + fleet.Group }

// kindOf finds a kind by any of its names, with or without the API group.
func kindOf(name string) (kind, error) {
	word := strings.TrimSuffix(strings.ToLower(name), "."+fleet.Group)
	for _, k := range kinds {
		if word == k.plural || word == k.singular || slices.Contains(k.names, word) {
			return k, nil
		}
	}
	known := kindNames()
	if near := view.Nearest(word, known); near != "" {
		return kind{}, fmt.Errorf("no kind %q; did you mean %q?", name, near)
	}
	return kind{}, fmt.Errorf("no kind %q; there are %s", name, strings.Join(known, ", "))
}

// mustKind is kindOf for names in the program.
func mustKind(name string) kind {
	k, err := kindOf(name)
	if err != nil {
		panic(err)
	}
	return k
}

func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.plural)
	}
	return names
}

// target reads KIND/NAME, where KIND is one of allowed.
func target(arg string, allowed ...string) (kind, string, error) {
	word, name, ok := strings.Cut(arg, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return kind{}, "", fmt.Errorf("%q: want KIND/NAME, for example %s/NAME", arg, mustKind(allowed[0]).singular)
	}
	k, err := kindOf(word)
	if err != nil {
		return kind{}, "", err
	}
	if !slices.Contains(allowed, k.plural) {
		return kind{}, "", fmt.Errorf("%q: this works with %s", arg, strings.Join(allowed, ", "))
	}
	return k, name, nil
}
