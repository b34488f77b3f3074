package fleetyaml

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// unknownKey says of a key of a mapping that nothing reads it: an error in label
// selectors, which match everything without it, elsewhere what the checker is set to.
func (c *checker) unknownKey(n *yaml.Node, p pair, s decodeTarget, known map[string]field) {
	selector := s.t == reflect.TypeFor[metav1.LabelSelector]()
	key, severity := shortenText(p.key.Value), c.unknown
	if selector {
		severity = finding.Error
	}
	if !c.hasRoomFor(severity) {
		return // finding the nearest key is what costs
	}
	near := spelling.Nearest(key, fieldNames(known))
	if selector {
		c.addFinding(p.key, severity, finding.RuleUnknownKey, c.selectorText(n, p, s, near), "")
		return
	}
	hint := cmp.Or(indented(n, key, known), c.belongs(p.key.Value, s))
	if near != "" && hint == "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	text := fmt.Sprintf("unknown key %q", key)
	if severity == finding.Warning {
		text += " is ignored"
	}
	c.addFinding(p.key, severity, finding.RuleUnknownKey, text, hint)
}

// ClusterLabels is no key of a target, and is taken for one: templates call labels so.
const ClusterLabels = "clusterLabels"

// HintClusterLabels is the hint for the key ClusterLabels in a target.
const HintClusterLabels = "labels of clusters are selected with clusterSelector: {matchLabels: {...}}"

// indented says that a key of a label selector stands beside the selector and not
// below it, or how labels of clusters are selected. It is empty for other keys.
func indented(n *yaml.Node, key string, known map[string]field) string {
	if _, selects := known["clusterSelector"]; selects && key == ClusterLabels {
		return HintClusterLabels
	}
	if key != "matchLabels" && key != "matchExpressions" {
		return ""
	}
	for _, selector := range []string{"clusterSelector", "clusterGroupSelector", "selector"} {
		if _, ok := known[selector]; ok && lookup(n, selector) != nil {
			return fmt.Sprintf("it belongs below %s: indent it one level deeper", selector)
		}
	}
	if _, ok := known["clusterSelector"]; ok {
		return "it belongs below a clusterSelector"
	}
	return ""
}

// properPlace is where a key that is unknown in a place is known: in the options of Helm, in
// customizations, or at the top of the file. It is empty for others.
func properPlace(key string, s decodeTarget) string {
	customization := reflect.TypeFor[fleet.BundleTarget]()
	whole := s.t == reflect.TypeFor[document]()
	if whole && slices.Contains(ofObjects, key) {
		return hintObject
	}
	if key == "targetNamespace" && (whole || s.t == customization) {
		return hintNamespace
	}
	if _, ok := fields(reflect.TypeFor[fleet.HelmOptions]())[key]; ok && (whole || s.t == customization) {
		return "it belongs under helm: helm." + key
	}
	_, customizes := fields(customization)[key]
	_, selects := fields(reflect.TypeFor[fleet.GitTarget]())[key]
	switch {
	case customizes && selects && whole:
		return "it belongs in an entry of targetCustomizations or overrideTargets"
	case customizes && (whole || s.t == reflect.TypeFor[fleet.GitTarget]()):
		return "it belongs in an entry of targetCustomizations"
	case slices.Contains(ofAll, key) || whole:
		return ""
	case customizes && isInLists(s.where, "targetCustomizations", "targets"):
		return "it belongs in the entry of targetCustomizations itself"
	case Known(key):
		return "it belongs at the top of fleet.yaml"
	}
	return ""
}

// ofAll are keys of fleet.yaml that are meant for something else in most other places.
var ofAll = []string{"name", "labels", "annotations", "targets"}

// isInLists reports whether a place is in an entry of one of the lists.
func isInLists(where string, lists ...string) bool {
	list, _, inEntry := strings.Cut(where, "[")
	return inEntry && slices.ContainsFunc(lists, func(l string) bool { return strings.EqualFold(l, list) })
}

// ofObjects are keys of every Kubernetes object.
var ofObjects = []string{"apiVersion", "kind", "metadata", "spec"}

// hintObject is the hint for a fleet.yaml that is written as an object.
const hintObject = "fleet.yaml is no Kubernetes object: what it says of the bundle stands at the top; a GitRepo is created on the management cluster"

// hintNamespace is the hint for a key of a GitRepo in fleet.yaml.
const hintNamespace = "it belongs to the GitRepo; namespace puts all objects of this bundle into one namespace, defaultNamespace those that name none"

// selectorText returns the message about an unknown key of a label selector. It contains
// the hint, since the GitRepo shows no hints.
func (c *checker) selectorText(n *yaml.Node, p pair, s decodeTarget, near string) string {
	name := s.where[strings.LastIndex(s.where, ".")+1:]
	text := fmt.Sprintf("unknown key %q in %s", shortenText(p.key.Value), name)
	if !c.hasKey(n, "matchLabels") && !c.hasKey(n, "matchExpressions") {
		text += ": it means every " + selected(s.where, name)
	} else {
		text += " is ignored"
	}
	switch value := deref(p.value); {
	case near != "":
		return fmt.Sprintf("%s; did you mean %s?", text, near)
	case value.Kind == yaml.ScalarNode:
		return fmt.Sprintf("%s; did you mean matchLabels: {%s: %s}?", text, oneLine(shortenText(p.key.Value)), oneLine(shortenText(value.Value)))
	}
	return text + "; want matchLabels or matchExpressions"
}

// hasKey reports whether the decoder finds a key in a mapping.
func (c *checker) hasKey(n *yaml.Node, key string) bool {
	if !c.exact {
		return lookup(n, key) != nil
	}
	return slices.ContainsFunc(pairs(n), func(p pair) bool { return p.key.Value == key })
}

// selected names the kind that the selector of a key selects: clusters for that
// of a ClusterGroup, bundles for that of dependsOn.
func selected(where, key string) string {
	switch strings.ToLower(key) {
	case "clustergroupselector":
		return "cluster group"
	case "bundleselector":
		return "bundle"
	case "namespaceselector", "allowedtargetnamespaceselector":
		return "namespace"
	case "selector":
		if where != "spec.selector" {
			return "bundle"
		}
	}
	return "cluster"
}
