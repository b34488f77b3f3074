package schema

import (
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// Manifests returns the names of a bundle's files that are deployed as they are on every
// cluster. It returns none for a bundle that is a chart or kustomization for one of its
// targets, and leaves out templates, overlays, and charts and bundles in directories below.
func Manifests(b *fleet.Bundle, files map[string][]byte) []string {
	options := []*fleet.BundleDeploymentOptions{&b.Spec.BundleDeploymentOptions}
	for i := range b.Spec.Targets {
		options = append(options, &b.Spec.Targets[i].BundleDeploymentOptions)
	}
	for _, o := range options {
		if h := o.Helm; h != nil && (h.Chart != "" || h.Repo != "") {
			return nil
		}
		dir := "."
		if o.Kustomize != nil {
			dir = strings.TrimPrefix(path.Clean(o.Kustomize.Dir), "/")
		}
		if _, ok := files[path.Join(dir, "kustomization.yaml")]; ok {
			return nil
		}
	}
	if _, ok := files["Chart.yaml"]; ok {
		return nil
	}
	var list []string
	for name := range files {
		switch ext := path.Ext(name); {
		case ext != ".yaml" && ext != ".yml" && ext != ".json":
		case strings.HasPrefix(name, "templates/"), strings.HasPrefix(name, "overlays/"), strings.HasPrefix(name, ".chart/"):
		case slices.Contains(fleetyaml.Names, name), nested(files, path.Dir(name)):
		default:
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// nested reports whether a directory belongs to a chart or bundle further down.
func nested(files map[string][]byte, dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		for _, name := range append([]string{"Chart.yaml"}, fleetyaml.Names...) {
			if _, ok := files[path.Join(dir, name)]; ok {
				return true
			}
		}
	}
	return false
}
