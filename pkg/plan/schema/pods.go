package schema

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	kube "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// podSpec is the spec of the pods that an object of Kubernetes' own kinds makes, and
// the keys that lead to it; nil where the object makes none.
func podSpec(object map[string]any, gvk kube.GroupVersionKind) (spec map[string]any, path []any) {
	switch {
	case gvk.Group != "" && !slices.Contains(workloads, gvk.Group):
		return nil, nil
	case gvk.Group == "" && gvk.Kind == "Pod":
		path = []any{"spec"}
	case gvk.Kind == "CronJob":
		path = []any{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		path = []any{"spec", "template", "spec"}
	}
	spec = object
	for _, key := range path {
		spec, _ = spec[key.(string)].(map[string]any) //nolint:forcetypeassert // they are texts
	}
	return spec, path
}

// appendKeys is a path and more keys below it.
func appendKeys(path []any, keys ...any) []any { return slices.Concat(path, keys) }

// pods checks the pods that an object makes for what API servers refuse.
func (o *objectCheck) pods(object map[string]any, gvk kube.GroupVersionKind) {
	spec, path := podSpec(object, gvk)
	policy, _ := spec["restartPolicy"].(string)
	if gvk.Group == "apps" && (policy == "OnFailure" || policy == "Never") {
		at := appendKeys(path, "restartPolicy")
		o.addFault(finding.RuleValue, false, at, position.Path(at)+" must be Always for pods of a "+gvk.Kind, "pods that end are those of a Job")
	}
	if gvk.Group == "batch" && policy == "Always" {
		at := appendKeys(path, "restartPolicy")
		o.addFault(finding.RuleValue, false, at, position.Path(at)+" must be OnFailure or Never for pods of a Job", "pods that run for ever are those of a Deployment")
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for i, c := range containers {
			if container, ok := c.(map[string]any); ok {
				o.container(container, appendKeys(path, list, i))
			}
		}
	}
}

// container checks one container of a pod.
func (o *objectCheck) container(container map[string]any, path []any) {
	for _, field := range []string{"name", "image"} {
		if text, isText := container[field].(string); container[field] == nil || isText && text == "" {
			o.addFault(finding.RuleValue, false, path, position.Path(appendKeys(path, field))+" is missing", "")
		}
	}
	if name, ok := container["name"].(string); ok && name != "" {
		at := appendKeys(path, "name")
		o.valid(at, position.Path(at), validation.IsDNS1123Label(name))
	}
	ports, _ := container["ports"].([]any)
	for i, p := range ports {
		port, _ := p.(map[string]any)
		o.port(port["containerPort"], appendKeys(path, "ports", i, "containerPort"))
	}
	o.requests(container, path)
	o.handlers(container, path)
}

// port checks a number of a port. What is no number is a fault of its type.
func (o *objectCheck) port(v any, path []any) {
	if n, ok := toFloat(v); ok && (n < 1 || n > 65535) {
		o.addFault(finding.RuleValue, false, path, position.Path(path)+" must be a number from 1 to 65535", "")
	}
}

// requests checks that a container asks for no more than its limits.
func (o *objectCheck) requests(container map[string]any, path []any) {
	resources, _ := container["resources"].(map[string]any)
	requests, _ := resources["requests"].(map[string]any)
	limits, _ := resources["limits"].(map[string]any)
	for _, name := range []string{"cpu", "memory"} {
		request, okRequest := quantity(requests[name])
		limit, okLimit := quantity(limits[name])
		if okRequest && okLimit && request.Cmp(limit) > 0 {
			at := appendKeys(path, "resources", "requests", name)
			o.addFault(finding.RuleValue, false, at, position.Path(at)+" must not be above the limit of the container", "the limit is "+limit.String())
		}
	}
}

// quantity reads an amount such as 100m; one that cannot be read is a fault of its type.
func quantity(v any) (q resource.Quantity, ok bool) {
	if v == nil {
		return q, false
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	return q, err == nil
}

// handlers warns of probes and hooks of a container that name a port which it does not have:
// they fail for as long as the container runs.
func (o *objectCheck) handlers(container map[string]any, path []any) {
	names := namesIn(container["ports"])
	lifecycle, _ := container["lifecycle"].(map[string]any)
	for _, h := range []struct {
		of    map[string]any
		path  []any
		names []string
	}{
		{container, path, []string{"livenessProbe", "readinessProbe", "startupProbe"}},
		{lifecycle, appendKeys(path, "lifecycle"), []string{"postStart", "preStop"}},
	} {
		for _, name := range h.names {
			handler, _ := h.of[name].(map[string]any)
			for _, kind := range []string{"httpGet", "tcpSocket"} {
				action, _ := handler[kind].(map[string]any)
				port, ok := action["port"].(string)
				if !ok || port == "" || slices.Contains(names, port) || isDigits(port) {
					continue
				}
				at := appendKeys(h.path, name, kind, "port")
				o.addWarning(at, fmt.Sprintf("%s: the container has no port %q", position.Path(at), position.ShortName(port)), nearHint(port, names))
			}
		}
	}
}

// nearHint returns the hint for a name that is none of those that there are.
func nearHint(name string, names []string) string {
	if other := spelling.Nearest(position.ShortName(name), names); other != "" {
		return fmt.Sprintf("did you mean %q?", other)
	}
	return ""
}

func isDigits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}
