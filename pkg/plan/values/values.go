// Package values fills the Helm values of a bundle with facts about the cluster
// that they are for: references to labels, and templates between ${ and }.
//
// Committers write the templates, and the manager renders them for every cluster.
// So what they make and how long they take is measured, the time by the clock.
package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonTemplate is the reason of values that cannot be rendered.
const ReasonTemplate = "ValuesNotRendered"

// labelReference begins a value that stands for a label.
const labelReference = "global.fleet.clusterLabels."

// maxDepth is how deep values may be nested.
const maxDepth = 50

// ClusterFacts are the facts of a cluster that templates of values can use.
type ClusterFacts struct {
	Name        string // of the Cluster
	Namespace   string // of the Cluster
	Labels      map[string]string
	Annotations map[string]string
	// TemplateValues are spec.templateValues of the Cluster; nil for none.
	TemplateValues map[string]any
}

// Render returns o with its Helm values filled in for one cluster. o itself is
// left as it is, and so are the facts.
//
// First, every text that begins with "global.fleet.clusterLabels." is replaced
// by the label that it goes on to name, or "" if there is none. Then, unless
// disablePreProcess is set, values as a whole are one template, and each of
// templateValues is another whose result takes the place of the key of the same
// name. A cluster without a label of its user's or Fleet's gets o as it is.
//
// Templates may make 16 MiB and take a second; what needs more is an ErrLimit.
// budget is that of all clusters together, nil for none.
//
// All errors are permanent, with reason ValuesNotRendered, and name the
// cluster. Errors of the result's syntax do not quote it.
func Render(o fleet.BundleDeploymentOptions, c ClusterFacts, budget *Budget) (fleet.BundleDeploymentOptions, error) {
	labels := usableLabels(c.Labels)
	if len(labels) == 0 {
		return o, nil
	}
	if o.Helm == nil {
		o.Helm = &fleet.HelmOptions{} // part of the deployment id
		return o, nil
	}
	if (o.Helm.Values == nil || o.Helm.Values.Data == nil) && len(o.Helm.TemplateValues) == 0 {
		return o, nil
	}
	helm, err := renderWithin(budget, o.Helm, c, labels)
	if err != nil {
		return o, reconcile.TerminalError(ReasonTemplate,
			fmt.Errorf("render values for cluster %q in namespace %q: %w", c.Name, c.Namespace, err))
	}
	o.Helm = helm
	return o, nil
}

// render fills in helm.
func (m *meter) render(helm *fleet.HelmOptions, c ClusterFacts, labels map[string]string) error {
	if helm.Values != nil {
		if err := replaceLabels(helm.Values.Data, labels, 0); err != nil {
			return err
		}
	}
	if helm.DisablePreProcess {
		return nil
	}
	facts := map[string]any{
		"ClusterName":        c.Name,
		"ClusterNamespace":   c.Namespace,
		"ClusterLabels":      dict(labels),
		"ClusterAnnotations": dict(naming.UserKeys(c.Annotations)),
		"ClusterValues":      (&fleet.GenericMap{Data: c.TemplateValues}).DeepCopy().Data,
	}
	if facts["ClusterValues"].(map[string]any) == nil {
		facts["ClusterValues"] = map[string]any{}
	}
	data := map[string]any{}
	if helm.Values != nil {
		rendered, err := m.renderTree(helm.Values.Data, facts)
		if err != nil {
			return err
		}
		data = rendered
	}
	for _, key := range sortedKeys(helm.TemplateValues) {
		value, err := m.renderText(templateValues+key, helm.TemplateValues[key], facts)
		if err != nil {
			return err
		}
		data[key] = value
	}
	helm.Values = &fleet.GenericMap{Data: data}
	return nil
}

// usableLabels are the labels that values can ask for: those of users, and
// those by which Fleet and Rancher describe the cluster.
func usableLabels(all map[string]string) map[string]string {
	out := naming.UserKeys(all)
	for k, v := range all {
		if strings.HasPrefix(k, "fleet.cattle.io/") || strings.HasPrefix(k, "management.cattle.io/") {
			out[k] = v
		}
	}
	return out
}

// replaceLabels puts labels in the place of references, in maps and in maps
// that are items of lists.
func replaceLabels(data map[string]any, labels map[string]string, depth int) error {
	if depth > maxDepth {
		return errors.New("values are nested more than 50 deep")
	}
	for k, v := range data {
		if text, ok := v.(string); ok {
			if name, ok := strings.CutPrefix(text, labelReference); ok {
				data[k] = labels[name]
			}
			continue
		}
		for _, below := range mapsIn(v) {
			if err := replaceLabels(below, labels, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapsIn returns v if it is a map, or the maps that are items of it.
func mapsIn(v any) []map[string]any {
	switch t := v.(type) {
	case map[string]any:
		return []map[string]any{t}
	case []any:
		var out []map[string]any
		for _, item := range t {
			if below, ok := item.(map[string]any); ok {
				out = append(out, below)
			}
		}
		return out
	}
	return nil
}

// dict is m in the type that template functions for maps expect.
func dict(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
