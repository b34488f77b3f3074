package main

import (
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/charts"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// The manifest of a manager that runs beside another one, and the id of its
// shard.
const (
	takeoverManifest = "docs/takeover.yaml"
	takeoverShard    = "takeover"
)

// besides are the names of the manager's accounts and their rights beside another
// manager, which has the names of the chart.
var besides = map[string]string{
	"fleet-controller": "fleet-takeover-controller",
	"gitjob":           "fleet-takeover-gitjob",
	"gitjob-binding":   "fleet-takeover-gitjob",
	"helmops":          "fleet-takeover-helmops",
	"helmops-binding":  "fleet-takeover-helmops",
}

// takeover writes the manifest of a manager beside another one: what the chart
// fleet has for a shard, with accounts of its own.
func takeover(root string) error {
	text, err := takeoverText()
	if err != nil {
		return err
	}
	return write(filepath.Join(root, takeoverManifest), []byte(text))
}

func takeoverText() (string, error) {
	files, err := charts.Files(charts.Manager)
	if err != nil {
		return "", err
	}
	values := map[string]any{
		"shards":    []any{map[string]any{"id": takeoverShard}},
		"bootstrap": map[string]any{"enabled": false},
	}
	id := release.ID{Namespace: fleet.NamespaceSystem, Name: charts.Manager}
	made, err := helm.Template(files, id, values, helm.RenderOptions{KubeVersion: "v1.30.0"})
	if err != nil {
		return "", err
	}
	var objects []*unstructured.Unstructured
	for _, o := range made.Objects {
		if aside(o) {
			objects = append(objects, o)
		}
	}
	return install.Text([]string{
		"A manager that looks after the objects of shard \"" + takeoverShard + "\", beside another manager in the same namespace.",
		"docs/takeover.md says how it is used. Generated from the chart fleet by hack/generate. Do not edit.",
	}, objects)
}

// aside reports whether an object of the chart belongs to the shard or to the
// accounts of the manager, and gives it a name that no other manager has.
func aside(o *unstructured.Unstructured) bool {
	kinds := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
	switch name := o.GetName(); {
	case o.GetKind() == "Deployment" && strings.HasSuffix(name, "-shard-"+takeoverShard):
		rename(o.Object, "spec", "template", "spec", "serviceAccountName")
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "annotations")
		return true
	case slices.Contains(kinds, o.GetKind()) && besides[name] != "":
		o.SetName(besides[name])
	default:
		return false
	}
	rename(o.Object, "roleRef", "name")
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		rename(s.(map[string]any), "name")
	}
	if len(subjects) > 0 {
		_ = unstructured.SetNestedSlice(o.Object, subjects, "subjects") // it was a list before
	}
	return true
}

// rename replaces the name of an account or a role in a field, where there is one.
func rename(object map[string]any, fields ...string) {
	name, found, err := unstructured.NestedString(object, fields...)
	if err == nil && found && besides[name] != "" {
		_ = unstructured.SetNestedField(object, besides[name], fields...) // it was a text before
	}
}
