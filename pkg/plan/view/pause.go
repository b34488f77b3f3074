package view

import (
	"bytes"
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Paused is the word for objects of which a user holds back what is new. It stands
// beside their state, which goes on to say how what is deployed is.
const Paused fleet.BundleState = "Paused"

// fromFile is who has set spec.paused of a Bundle where the manager wrote it.
const fromFile = "fleet.yaml"

// A Pause is who holds back what is new for a GitRepo, a HelmOp, a Bundle or a Cluster,
// since when and why.
type Pause struct {
	// Reason is why, in the user's words; empty where none was given.
	Reason string `json:"reason,omitempty"`
	// By is the user. Where only the program is known that set spec.paused, it is the
	// name that managedFields have for it; fleet.yaml where the repository says so.
	By string `json:"by,omitempty"`
	// Since is when.
	Since *time.Time `json:"since,omitempty"`
}

// PauseOf returns who has set spec.paused of an object that has it. It takes this from the
// note of fleet suspend on the object, unless another program has set the field since; then
// from managedFields. For an object without managedFields it takes the note.
func PauseOf(o metav1.Object) Pause {
	owner, noted := pauseOwner(o.GetManagedFields())
	notes := o.GetAnnotations()
	if by := notes[fleet.AnnotationPausedBy]; by != "" && (owner == nil || noted) {
		p := Pause{By: condition.Message(by), Reason: condition.Message(notes[fleet.AnnotationPauseReason])}
		if t, err := time.Parse(time.RFC3339, notes[fleet.AnnotationPausedAt]); err == nil {
			p.Since = utcPointer(t)
		}
		return p
	}
	if owner == nil {
		return Pause{}
	}
	p := Pause{By: condition.Message(owner.Manager)}
	if owner.Manager == fleet.FieldManagerController {
		p.By = fromFile
	}
	if owner.Time != nil {
		p.Since = utcPointer(owner.Time.Time)
	}
	return p
}

// Fields of an object that is paused, and of what fleet suspend notes there.
var (
	pausedField = fieldpath.MakePathOrDie("spec", "paused")
	pausedNote  = fieldpath.MakePathOrDie("metadata", "annotations", fleet.AnnotationPausedBy)
)

// pauseOwner is the entry of managedFields that has set spec.paused, the newest of
// several, and whether the same entry has written the note; nil where none has.
func pauseOwner(fields []metav1.ManagedFieldsEntry) (owner *metav1.ManagedFieldsEntry, noted bool) {
	for i := range fields {
		f := &fields[i]
		if f.Subresource != "" || f.FieldsV1 == nil {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1.GetRawBytes())); err != nil || !set.Has(pausedField) {
			continue
		}
		if owner == nil || owner.Time.Before(f.Time) {
			owner, noted = f, set.Has(pausedNote)
		}
	}
	return owner, noted
}

// Text says since when, by whom and why something is paused. now gives the time its
// zone and day; where it is zero the text has no time, as in conditions.
func (p Pause) Text(now time.Time) string {
	text := "paused"
	if p.Since != nil && !now.IsZero() {
		text += " since " + Clock(*p.Since, now)
	}
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason == "" {
		return text + ", no reason given"
	}
	return text + ": " + p.Reason
}

// PausedObject is one object of which a user holds back what is new.
type PausedObject struct {
	// Kind is GitRepo, HelmOp, Bundle or Cluster.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	Pause
}

// Label returns what a row is about, as for Attention.
func (p PausedObject) Label() string { return Attention{Kind: p.Kind, Name: p.Name}.Label() }

// ReasonText returns the reason, or that none was given.
func (p Pause) ReasonText() string { return cmp.Or(p.Reason, "no reason given") }

// InFile reports whether fleet.yaml in the repository has set it.
func (p Pause) InFile() bool { return p.By == fromFile }

// PausedObjects returns all that are paused, by kind and name. A Bundle that its GitRepo or
// HelmOp pauses has no row of its own.
func PausedObjects(f Fleet) []PausedObject {
	out := []PausedObject{}
	add := func(kind string, o metav1.Object) {
		out = append(out, PausedObject{Kind: kind, Name: keyOf(o).String(), Pause: PauseOf(o)})
	}
	held := map[owner]bool{}
	for _, r := range sortedBy(f.Repositories) {
		if r.Spec.Paused {
			held[owner{"GitRepo", keyOf(r)}] = true
			add("GitRepo", r)
		}
	}
	for _, op := range sortedBy(f.HelmOps) {
		if op.Spec.Paused {
			held[owner{"HelmOp", keyOf(op)}] = true
			add("HelmOp", op)
		}
	}
	for _, b := range sortedBy(f.Bundles) {
		if b.Spec.Paused && !held[ownerOf(b)] {
			add("Bundle", b)
		}
	}
	for _, c := range sortedBy(f.Clusters) {
		if c.Spec.Paused {
			add("Cluster", c)
		}
	}
	return out
}
