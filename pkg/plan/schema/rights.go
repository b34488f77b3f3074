package schema

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// verbs are those that Kubernetes asks about resources of its own groups.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"use", "bind", "escalate", "impersonate", "approve", "sign", "attest", "proxy", "*",
}

// otherVerbs maps words that users write by mistake to verbs of the API.
var otherVerbs = map[string]string{
	"read": "get, list, watch", "view": "get, list, watch", "write": "create, update, patch, delete",
	"edit": "update, patch", "modify": "update, patch", "add": "create", "remove": "delete", "all": `"*"`,
}

// plurals are the resources of Kubernetes' own kinds: by group, and by the name of the kind
// in lower case.
var plurals = sync.OnceValue(func() map[string]map[string]string {
	out := map[string]map[string]string{}
	for gvk, t := range linked().AllKnownTypes() {
		if !isObjectType(t) || gvk.Group == fleet.Group {
			continue
		}
		if out[gvk.Group] == nil {
			out[gvk.Group] = map[string]string{}
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		out[gvk.Group][strings.ToLower(gvk.Kind)] = plural.Resource
	}
	return out
})

// checkRoleRules warns of rules of a role that allow nothing: resources in the singular, and verbs
// that nothing asks for. Only rules about groups of Kubernetes are judged.
func (o *objectCheck) checkRoleRules(object map[string]any) {
	rules, _ := object["rules"].([]any)
	for i, r := range rules {
		rule, _ := r.(map[string]any)
		var known []map[string]string
		groups, _ := rule["apiGroups"].([]any)
		for _, g := range groups {
			name, ok := g.(string)
			if resources := plurals()[name]; ok && resources != nil {
				known = append(known, resources)
			}
		}
		if len(known) == 0 || len(known) != len(groups) {
			continue
		}
		o.resources(rule["resources"], known, []any{"rules", i, "resources"})
		o.verbs(rule["verbs"], []any{"rules", i, "verbs"})
	}
}

// resources warns of kinds in the place of resources. known are the resources of the groups.
func (o *objectCheck) resources(v any, known []map[string]string, path []any) {
	list, _ := v.([]any)
	for i, e := range list {
		text, _ := e.(string)
		name, _, _ := strings.Cut(text, "/")
		for _, resources := range known {
			for kind, plural := range resources {
				if name != plural && (strings.EqualFold(name, kind) || strings.EqualFold(name, plural)) {
					at := appendKeys(path, i)
					o.addWarning(at, fmt.Sprintf("%s: there is no resource %q, so that the rule does not allow it", position.Path(at), position.ShortName(name)),
						fmt.Sprintf("did you mean %q?", plural))
				}
			}
		}
	}
}

// verbs warns of verbs that do not exist.
func (o *objectCheck) verbs(v any, path []any) {
	list, _ := v.([]any)
	for i, e := range list {
		verb, ok := e.(string)
		if !ok || slices.Contains(verbs, verb) || strings.ContainsAny(verb, ":/.") { // others are those of an extension
			continue
		}
		hint := "they are get, list, watch, create, update, patch, delete and deletecollection"
		if other := otherVerbs[strings.ToLower(verb)]; other != "" {
			hint = "did you mean " + other + "?"
		} else if other := spelling.Nearest(strings.ToLower(position.ShortName(verb)), verbs); other != "" {
			hint = fmt.Sprintf("did you mean %q?", other)
		}
		at := appendKeys(path, i)
		o.addWarning(at, fmt.Sprintf("%s: there is no verb %q, so that it allows nothing", position.Path(at), position.ShortName(verb)), hint)
	}
}
