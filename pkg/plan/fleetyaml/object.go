package fleetyaml

import (
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// UnknownKeys returns findings about the keys of a Kubernetes object that its type T does
// not have, except those of its status. They are errors in label selectors, as in
// fleet.yaml, and have the given severity elsewhere. root is the object in the file that
// path names; the caller must have decoded it before. Keys are case-sensitive, as they are
// for an API server.
func UnknownKeys[T any](path string, root *yaml.Node, severity finding.Severity) []finding.Finding {
	return ofObject[T](path, root, severity, finding.RuleUnknownKey)
}

// WrongTypes returns the values of a Kubernetes object that are of another type than its
// type T wants, but for those of its status. root is as in UnknownKeys.
func WrongTypes[T any](path string, root *yaml.Node) []finding.Finding {
	return ofObject[T](path, root, finding.Warning, finding.RuleType)
}

// ofObject are the findings of one rule about an object; unknown is the severity of keys
// that its type does not have.
func ofObject[T any](path string, root *yaml.Node, unknown finding.Severity, rule string) []finding.Finding {
	if root == nil || sizeOf(root).endless {
		return nil
	}
	t := reflect.TypeFor[T]()
	c := &checker{path: path, unknown: unknown, exact: true, belongs: func(key string, s decodeTarget) string { return belongsInObject(key, s, t) }}
	c.checkValue(withoutStatus(root), decodeTarget{t, "", false})
	return slices.DeleteFunc(c.sortedFindings(), func(f finding.Finding) bool { return f.Rule != rule })
}

// withoutStatus is an object without its status: only servers and agents write that.
func withoutStatus(root *yaml.Node) *yaml.Node {
	object := *deref(root)
	object.Content = nil
	for i, n := range deref(root).Content {
		if key := deref(root).Content[i-i%2]; key.Value != "status" {
			object.Content = append(object.Content, n)
		}
	}
	return &object
}

// belongsInObject is where a key that is unknown in a place of an object is known. It
// is empty for others.
func belongsInObject(key string, s decodeTarget, object reflect.Type) string {
	spec, hasSpec := fields(object)["spec"]
	if hasSpec && s.where == "" {
		if _, ok := fields(spec.t)[key]; ok {
			return "it belongs below spec"
		}
	}
	_, helm := fields(reflect.TypeFor[fleet.HelmOptions]())[key]
	if _, ok := fields(s.t)["helm"]; ok && helm {
		return "it belongs under helm: helm." + key
	}
	return ""
}
