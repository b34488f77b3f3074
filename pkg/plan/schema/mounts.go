package schema

import (
	"fmt"
	"slices"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// mounts checks that containers mount volumes that the pod has: the API server
// refuses all others.
func (o *objectCheck) mounts(object map[string]any, gvk kube.GroupVersionKind) {
	spec, path := podSpec(object, gvk)
	volumes := namesIn(spec["volumes"])
	if top, ok := object["spec"].(map[string]any); ok {
		claims, _ := top["volumeClaimTemplates"].([]any)
		for _, c := range claims {
			claim, _ := c.(map[string]any)
			volumes = append(volumes, namesIn([]any{claim["metadata"]})...)
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for i, c := range containers {
			container, _ := c.(map[string]any)
			for _, kind := range []string{"volumeMounts", "volumeDevices"} {
				o.mounted(container[kind], volumes, append(slices.Clone(path), list, i, kind))
			}
		}
	}
}

// mounted checks one list of mounts.
func (o *objectCheck) mounted(v any, volumes []string, path []any) {
	list, _ := v.([]any)
	for i, e := range list {
		entry, _ := e.(map[string]any)
		name, ok := entry["name"].(string)
		if !ok || slices.Contains(volumes, name) {
			continue
		}
		at := append(slices.Clone(path), i, "name")
		hint := "add it to the volumes of the pod"
		if near := spelling.Nearest(name, volumes); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		o.addFault(finding.RuleValue, false, at, fmt.Sprintf("%s: the pod has no volume %q", position.Path(at), position.ShortName(name)), hint)
	}
}

// namesIn are the names of the entries of a list.
func namesIn(v any) []string {
	var names []string
	list, _ := v.([]any)
	for _, e := range list {
		entry, _ := e.(map[string]any)
		if name, ok := entry["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}
