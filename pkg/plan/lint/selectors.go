package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A Deployed is an object of a bundle as a cluster gets it.
type Deployed struct {
	// Namespace is where it is put, also where the object names none.
	Namespace string
	Object    map[string]any
	// Foreign says that a downloaded chart made it: it is not judged.
	Foreign bool
}

// An Unselecting is a Service that selects no pods.
type Unselecting struct {
	Index   int // of the Service in the list
	Message string
	Hint    string
}

// runtimeLabels are labels that Kubernetes gives to pods.
var runtimeLabels = []string{
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "pod-template-hash", "controller-revision-hash", "pod-template-generation",
	"batch.kubernetes.io/job-name", "job-name", "batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-completion-index",
}

// A workload is an object that makes pods.
type workload struct {
	title  string
	labels map[string]string
	lasts  bool // its pods stay
}

// Services finds Services whose selector selects no pod of a bundle. It skips a Service in
// whose namespace the bundle has no lasting workloads. Where an operator may make pods, it
// reports only a selector that is nearly right.
func Services(objects []Deployed) []Unselecting {
	workloads, operators := map[string][]workload{}, map[string]bool{}
	for _, o := range objects {
		w, ok := workloadOf(o.Object)
		switch {
		case ok:
			workloads[o.Namespace] = append(workloads[o.Namespace], w)
		case isCustom(o.Object):
			operators[o.Namespace] = true
		}
	}
	var list []Unselecting
	for i, o := range objects {
		selector := serviceSelector(o.Object)
		all := workloads[o.Namespace]
		lasting := slices.ContainsFunc(all, func(w workload) bool { return w.lasts })
		if o.Foreign || len(selector) == 0 || !lasting || slices.ContainsFunc(all, func(w workload) bool { return selects(selector, w.labels) }) {
			continue
		}
		near := nearestWorkload(selector, all)
		if operators[o.Namespace] && !misspells(selector, near.labels) {
			continue
		}
		list = append(list, Unselecting{
			Index:   i,
			Message: "the selector selects no pod of the bundle: no workload in the same namespace has the labels " + labelText(selector),
			Hint:    fmt.Sprintf("the pods of %s have %s", near.title, labelText(near.labels)),
		})
	}
	return list
}

// serviceSelector is the selector of a Service; nil where it has none, or is none.
func serviceSelector(o map[string]any) map[string]string {
	spec := mapping(o, "spec")
	if o["kind"] != "Service" || o["apiVersion"] != "v1" || spec["type"] == "ExternalName" {
		return nil
	}
	selector := textEntries(mapping(spec, "selector"))
	maps.DeleteFunc(selector, func(key, _ string) bool { return slices.Contains(runtimeLabels, key) })
	return selector
}

// workloadOf reads the pod template of an object, whatever its kind.
func workloadOf(o map[string]any) (w workload, ok bool) {
	kind, _ := o["kind"].(string)
	name, _ := mapping(o, "metadata")["name"].(string)
	w = workload{title: printable.Line(kind + " " + name), lasts: kind != "Job" && kind != "CronJob"}
	spec := mapping(o, "spec")
	switch {
	case kind == "Pod" && o["apiVersion"] == "v1":
		w.labels = textEntries(mapping(o, "metadata", "labels"))
		return w, true
	case kind == "CronJob":
		spec = mapping(spec, "jobTemplate", "spec")
	}
	template := mapping(spec, "template")
	if mapping(template, "spec") == nil {
		return w, false
	}
	w.labels = textEntries(mapping(template, "metadata", "labels"))
	return w, true
}

// isCustom reports whether the kind of an object is none of Kubernetes.
func isCustom(o map[string]any) bool {
	apiVersion, _ := o["apiVersion"].(string)
	group, _, grouped := strings.Cut(apiVersion, "/")
	return grouped && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// nearestWorkload is the workload that most of a selector fits to, the first of several.
func nearestWorkload(selector map[string]string, all []workload) workload {
	points := func(w workload) int {
		sum := 0
		for key, value := range selector {
			switch has, ok := w.labels[key]; {
			case ok && has == value:
				sum += 4
			case ok && spelling.Nearest(value, []string{has}) != "":
				sum += 3
			case ok:
				sum++
			case nearKey(key, value, w.labels):
				sum += 2
			}
		}
		return sum
	}
	return slices.MaxFunc(all, func(a, b workload) int { return points(a) - points(b) })
}

// misspells reports whether each label of a selector that others lack is nearly one
// that they have.
func misspells(selector, labels map[string]string) bool {
	for key, value := range selector {
		has, ok := labels[key]
		if ok && has != value && spelling.Nearest(value, []string{has}) == "" || !ok && !nearKey(key, value, labels) {
			return false
		}
	}
	return true
}

// nearKey reports whether there is a label with the value and nearly the key.
func nearKey(key, value string, labels map[string]string) bool {
	near := spelling.Nearest(key, slices.Collect(maps.Keys(labels)))
	return near != "" && labels[near] == value
}

// labelText is labels for people.
func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return "no labels"
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, printable.Line(key+"="+labels[key]))
	}
	return strings.Join(words, ", ")
}

// mapping is the mapping that keys lead to; nil where there is none.
func mapping(o map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		o, _ = o[key].(map[string]any)
	}
	return o
}

// textEntries are the entries of a mapping that are texts.
func textEntries(o map[string]any) map[string]string {
	out := map[string]string{}
	for key, v := range o {
		if text, ok := v.(string); ok {
			out[key] = text
		}
	}
	return out
}
