package withdrawal

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// IsProtected reports whether an object bears AnnotationProtect, so that its deletion is
// held until a person approves it.
func IsProtected(o metav1.Object) bool {
	switch o.GetAnnotations()[fleet.AnnotationProtect] {
	case "", fleet.ProtectNot:
		return false
	}
	return true
}

// IsDeleting reports whether an object is being deleted and no protection holds that.
func IsDeleting(o metav1.Object) bool { return o.GetDeletionTimestamp() != nil && !IsProtected(o) }

// Guard says in words what protects a Bundle: its own annotation, or else that of its
// GitRepo, which is nil where it has none. It is empty where nothing does.
func Guard(b *fleet.Bundle, repo *fleet.GitRepo) string {
	switch {
	case IsProtected(b):
		return "the Bundle is protected"
	case repo == nil || !IsProtected(repo) || b.Annotations[fleet.AnnotationProtect] == fleet.ProtectNot:
		return ""
	}
	return fmt.Sprintf("its GitRepo %q is protected", repo.Name)
}

// DecideProtected decides about the deletion of a protected object: it is held, however
// little it removes and whatever the budget, until exactly this list is approved. why
// says what is protected; r.Deleted is the UID of the object.
func DecideProtected(r Removal, why string) Verdict {
	v := Verdict{Hash: Hash(r), Summary: r.summary(false) + ": " + why, List: r.list(), Protected: true}
	v.Approved = r.Approved == v.Hash
	v.Held = !v.Approved
	return v
}

// Unprotected returns a copy of annotations with which the object is not protected any
// more, and its deletion not held.
func Unprotected(annotations map[string]string) map[string]string {
	out := map[string]string{fleet.AnnotationProtect: fleet.ProtectNot}
	for key, text := range annotations {
		if key != fleet.AnnotationProtect && key != fleet.AnnotationDeletionHeld {
			out[key] = text
		}
	}
	return out
}
