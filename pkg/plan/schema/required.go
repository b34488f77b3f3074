package schema

import (
	"slices"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// entries stands in a path for every entry of a list.
type entries struct{}

// A need is a field that the API server refuses a kind without, where what is around the
// field is there. without is what a newcomer has to know about it.
type requiredField struct {
	kind    kube.GroupKind
	path    []any
	without string
}

const (
	hintSelector = "it selects the labels of the pod template: matchLabels: {...}"
	hintPathType = "it is Prefix, Exact or ImplementationSpecific"
)

// needs are the fields that are forgotten most. The linked types do not say which fields
// are required.
var needs = []requiredField{
	{kube.GroupKind{Group: "apps", Kind: "Deployment"}, []any{"spec", "selector"}, hintSelector},
	{kube.GroupKind{Group: "apps", Kind: "StatefulSet"}, []any{"spec", "selector"}, hintSelector},
	{kube.GroupKind{Group: "apps", Kind: "DaemonSet"}, []any{"spec", "selector"}, hintSelector},
	{kube.GroupKind{Group: "apps", Kind: "ReplicaSet"}, []any{"spec", "selector"}, hintSelector},
	{kube.GroupKind{Group: "batch", Kind: "CronJob"}, []any{"spec", "schedule"}, "such as \"0 3 * * *\""},
	{kube.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}, []any{"spec", "rules", entries{}, "http", "paths", entries{}, "pathType"}, hintPathType},
	{kube.GroupKind{Kind: "PersistentVolumeClaim"}, []any{"spec", "accessModes"}, "such as [ReadWriteOnce]"},
	{kube.GroupKind{Kind: "PersistentVolumeClaim"}, []any{"spec", "resources"}, "such as requests: {storage: 1Gi}"},
	{kube.GroupKind{Kind: "Service"}, []any{"spec", "ports", entries{}, "port"}, ""},
}

// checkRequired checks that the fields are there without which the API server refuses a kind,
// as far as they are among needs.
func (o *objectCheck) checkRequired(object map[string]any, gvk kube.GroupVersionKind) {
	for _, n := range needs {
		if n.kind == gvk.GroupKind() && gvk.Version == "v1" {
			o.checkRequiredField(object, n.path, nil, n.without)
		}
	}
	if gvk.Group != "batch" {
		return
	}
	path := []any{"spec", "template", "spec", "restartPolicy"}
	if gvk.Kind == "CronJob" {
		path = slices.Concat([]any{"spec", "jobTemplate"}, path)
	}
	o.checkRequiredField(object, path, nil, "for pods of a Job it is OnFailure or Never")
}

// checkRequiredField reports the fields that path leads to below a value and that are not there; above
// leads to the value.
func (o *objectCheck) checkRequiredField(v any, path, above []any, without string) {
	switch key := path[0].(type) {
	case entries:
		list, _ := v.([]any)
		for i, e := range list {
			o.checkRequiredField(e, path[1:], append(slices.Clone(above), i), without)
		}
	case string:
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		at := append(slices.Clone(above), key)
		value, has := m[key]
		switch {
		case len(path) > 1:
			o.checkRequiredField(value, path[1:], at, without)
		case !has || value == nil:
			o.addFault(finding.RuleValue, false, above, position.Path(at)+" is missing", without)
		}
	}
}
