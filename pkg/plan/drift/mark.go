package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Keys are the labels and annotations that a manifest sets on an object.
type Keys struct {
	Labels, Annotations []string
}

// KeysOf returns the labels and annotations that a manifest sets, without annotations of
// other programs.
func KeysOf(wanted *unstructured.Unstructured) Keys {
	k := Keys{Labels: slices.Sorted(maps.Keys(wanted.GetLabels()))}
	for _, a := range slices.Sorted(maps.Keys(wanted.GetAnnotations())) {
		if !foreignAnnotations[a] {
			k.Annotations = append(k.Annotations, a)
		}
	}
	return k
}

// A Mark is what the metadata of a live object reveals about its content. For most changes
// it is enough to know that no compared field can differ.
type Mark struct {
	Version    uint64 // resourceVersion
	generation int64
	deleting   bool
	own        uint64 // sum of the labels and annotations that count
	writers    []managerEntry
}

// managerEntry summarises one entry of managedFields.
type managerEntry struct {
	id      string // manager, operation and subresource
	time    int64  // when it wrote last, in seconds
	sum     uint64 // of the fields that it owns
	content bool   // it owns more than metadata
}

// MarkOf reads the metadata of an object, whole or stripped.
func MarkOf(o metav1.Object, keys Keys) Mark {
	m := Mark{generation: o.GetGeneration(), deleting: o.GetDeletionTimestamp() != nil}
	m.Version, _ = strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	h := fnv.New64a()
	for _, part := range []struct {
		keys []string
		have map[string]string
	}{{keys.Labels, o.GetLabels()}, {keys.Annotations, o.GetAnnotations()}} {
		for _, k := range part.keys {
			v, there := part.have[k]
			fmt.Fprintf(h, "%q %t %q\n", k, there, shortText(v))
		}
	}
	m.own = h.Sum64()
	for _, f := range o.GetManagedFields() {
		t := managerEntry{id: f.Manager + "/" + string(f.Operation) + "/" + f.Subresource}
		if f.Time != nil {
			t.time = f.Time.Unix()
		}
		t.sum, t.content = sumOf(f)
		m.writers = append(m.writers, t)
	}
	slices.SortFunc(m.writers, func(a, b managerEntry) int { return cmp.Compare(a.id, b.id) })
	return m
}

// MayDiffer reports whether what an object holds may have changed between two
// marks, in what the manifest sets or in its status. It errs on the side of true.
func (m Mark) MayDiffer(now Mark) bool {
	if m.generation != now.generation || m.deleting != now.deleting || m.own != now.own || len(now.writers) == 0 {
		return true
	}
	var newest int64
	before := map[string]managerEntry{}
	for _, w := range m.writers {
		newest = max(newest, w.time)
		before[w.id] = w
	}
	explained := false
	for _, w := range now.writers {
		was, known := before[w.id]
		delete(before, w.id)
		if known && was == w {
			continue
		}
		if w.content {
			return true
		}
		explained = true
	}
	for _, w := range before { // gone
		if w.content {
			return true
		}
		explained = true
	}
	if explained {
		return false
	}
	// Entries have seconds: one of those who wrote in the newest has written again.
	return slices.ContainsFunc(now.writers, func(w managerEntry) bool { return w.content && w.time >= newest })
}

// strippedKey begins the only key of a set of managed fields that was made stripped.
const strippedKey = "sum:"

// Stripped leaves of an object's metadata what MarkOf needs, in much less room.
func Stripped(o metav1.Object) {
	fields := o.GetManagedFields()
	for i, f := range fields {
		sum, content := sumOf(f)
		fields[i].FieldsV1 = metav1.NewFieldsV1(fmt.Sprintf(`{"%s%x":%t}`, strippedKey, sum, content))
	}
	o.SetManagedFields(fields)
	annotations := o.GetAnnotations()
	for k, v := range annotations {
		annotations[k] = shortText(v)
	}
}

// sumOf returns a sum of the fields that a manager owns, and whether they are more than
// metadata.
func sumOf(f metav1.ManagedFieldsEntry) (sum uint64, content bool) {
	if f.FieldsV1 == nil {
		return 0, true
	}
	set := map[string]any{}
	if err := json.Unmarshal(f.FieldsV1.GetRawBytes(), &set); err != nil {
		return 0, true
	}
	for k, v := range set {
		if text, stripped := strings.CutPrefix(k, strippedKey); stripped {
			sum, _ = strconv.ParseUint(text, 16, 64)
			content, _ = v.(bool)
			return sum, content
		}
		content = content || k != "f:metadata"
	}
	canonical, err := json.Marshal(set)
	if err != nil {
		return 0, true
	}
	h := fnv.New64a()
	h.Write(canonical)
	return h.Sum64(), content
}

// shortText is a text, or a sum of a long one.
func shortText(v string) string {
	if len(v) <= longest {
		return v
	}
	h := fnv.New64a()
	h.Write([]byte(v))
	return fmt.Sprintf("sum:%x:%d", h.Sum64(), len(v))
}
