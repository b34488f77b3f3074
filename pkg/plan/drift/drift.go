// Package drift finds differences between live objects and what was deployed.
//
// A field has drifted if the release's manifest sets it to something other than null and
// its live value differs in meaning: quantities, numbers and the order of keyed lists are
// compared as Kubernetes understands them. A field that the manifest does not set never
// drifts, whichever program sets it.
//
// Some fields belong to others by design and are not compared: fields that the scale or the
// status subresource owns, certificate authorities that controllers put in, the rules of
// aggregated ClusterRoles, lists of tokens, finalizers, Jobs that clean up after
// themselves, fields that the cluster does not keep, and what a comparePatch names.
package drift

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxChanges is how many fields of one object are listed.
const maxChanges = 5

// Expected describes how an object of a release must be marked, and which of
// its fields are compared.
type Expected struct {
	// SetHash is the value of the label objectset.rio.cattle.io/hash. Empty:
	// ownership is not looked at.
	SetHash string
	// Patches say what is not compared.
	Patches []fleet.ComparePatch
	// Hide takes out of a text what must not be shown. Nil: nothing.
	Hide func(string) string
	// Schema is the schema of a custom resource, as its CRD has it; it is asked
	// for only when a field is missing. Nil, or a nil schema: every field is kept.
	Schema func() map[string]any
}

// Compare reports whether and how a live object differs from what was deployed. wanted is
// from the release's manifest, with its namespace set; live is nil if the object is
// missing. Compare changes neither. The status says how they differ; values of Secrets are
// not in it.
func (e Expected) Compare(wanted, live *unstructured.Unstructured) (fleet.ModifiedStatus, bool) {
	out := fleet.ModifiedStatus{
		Kind:       wanted.GetKind(),
		APIVersion: wanted.GetAPIVersion(),
		Namespace:  wanted.GetNamespace(),
		Name:       wanted.GetName(),
	}
	if live == nil {
		out.Create = true
		return out, !MayBeMissing(wanted, e.Patches)
	}
	if e.SetHash != "" && live.GetLabels()[fleet.LabelObjectSetHash] != e.SetHash {
		out.Create, out.Exist = true, true
		out.Changes = e.fieldChanges(wanted, live, []difference{e.lostMark(live)})
		return out, true
	}
	diff, found := differenceAndFields(wanted, live, e.Patches, e.Schema)
	if diff == nil {
		return fleet.ModifiedStatus{}, false
	}
	out.Patch = e.text(diff)
	out.Changes = e.fieldChanges(wanted, live, found.fields)
	return out, true
}

// lostMark is the label by which the object was the release's.
func (e Expected) lostMark(live *unstructured.Unstructured) difference {
	d := difference{path: fieldPath{}.toField("metadata").toField("labels").toField(fleet.LabelObjectSetHash), wanted: e.SetHash}
	if v, ok := live.GetLabels()[fleet.LabelObjectSetHash]; ok {
		d.live = v
	}
	return d
}

// cleansUp reports whether an object is a Job that is removed some time after it has ended.
func cleansUp(o *unstructured.Unstructured) bool {
	if o.GetKind() != "Job" || o.GroupVersionKind().Group != "batch" {
		return false
	}
	ttl, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
	return err == nil && found && ttl != nil
}

// Difference returns the fields in which a live object differs from the wanted one, as a
// patch from the wanted state to the live one: null stands for a field that is missing, and
// {"$patch":"delete"} for an entry of a keyed list that is missing. It is nil if nothing
// differs. Values of Secrets are hidden.
func Difference(wanted, live *unstructured.Unstructured, patches []fleet.ComparePatch) map[string]any {
	diff, _ := differenceAndFields(wanted, live, patches, nil)
	return diff
}

// differenceAndFields is Difference together with the single fields; those of Secrets are not
// hidden.
func differenceAndFields(wanted, live *unstructured.Unstructured, patches []fleet.ComparePatch,
	schema func() map[string]any,
) (map[string]any, differences) {
	w, l := applyPatches(wanted, live, patches)
	kind := kindOf(w)
	var found differences
	c := comparer{kind: kind, owned: ownedBySubresource(live), isKept: keptBy(kind, schema), found: &found}
	diff, differs := c.maps(kind.normal(w.Object), kind.normalLive(l.Object), nil, kind.meta)
	if !differs {
		return nil, differences{}
	}
	if isSecret(wanted) {
		hideValues(diff)
	}
	slices.SortFunc(found.fields, func(a, b difference) int { return strings.Compare(a.path.String(), b.path.String()) })
	return diff, found
}

// fieldChanges lists single fields for people, each with the one who wrote it.
func (e Expected) fieldChanges(wanted, live *unstructured.Unstructured, fields []difference) []fleet.FieldChange {
	fields = fields[:min(len(fields), maxChanges)]
	out := make([]fleet.FieldChange, len(fields))
	writers := writersOf(live)
	secret := isSecret(wanted)
	for i, d := range fields {
		out[i] = fleet.FieldChange{Field: e.shortenText(d.path.String()), Wanted: e.valueText(d.wanted), Live: e.valueText(d.live)}
		if secret && len(d.path) > 1 && isHiddenField(d.path.fieldNames()) {
			out[i].Wanted = hidden
			if d.live != nil {
				out[i].Live = hidden
			}
		}
		if who, at := writers.writerOf(d); who != "" {
			out[i].Manager = who
			if !at.IsZero() {
				out[i].Time = &at
			}
		}
	}
	return out
}

// valueText is a value as JSON, fit to be shown; "" for a field that is missing.
func (e Expected) valueText(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return e.shortenText(string(data))
}

// KeepTimes gives a finding the times of the one before, as far as both say the same: the time
// of a manager's entry also moves when the manager writes something else.
func KeepTimes(now *fleet.ModifiedStatus, before []fleet.ModifiedStatus) {
	for _, old := range before {
		if old.Kind != now.Kind || old.APIVersion != now.APIVersion || old.Namespace != now.Namespace || old.Name != now.Name {
			continue
		}
		for i := range now.Changes {
			n := &now.Changes[i]
			for _, o := range old.Changes {
				if o.Field == n.Field && o.Live == n.Live && o.Wanted == n.Wanted && o.Manager == n.Manager {
					n.Time = o.Time
				}
			}
		}
	}
}

// Managers names the managers of what differs, each once, in order.
func Managers(m fleet.ModifiedStatus) []string {
	var out []string
	for _, c := range m.Changes {
		if c.Manager != "" && !slices.Contains(out, c.Manager) {
			out = append(out, c.Manager)
		}
	}
	slices.Sort(out)
	return out
}
