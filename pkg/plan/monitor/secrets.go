package monitor

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// orphanGrace is the age from which on a Secret without owner is reported. The manager deletes it
// before.
const orphanGrace = 2 * registration.OrphanTimeout

// secret looks for the faults of a Secret. Its owner is the object that its owner reference names; if
// it has none, the object of the same name.
func (j *judge) secret(s SecretObject) {
	j.finalizers("Secret", &s)
	kind, name := "", s.Name
	switch s.Type {
	case fleet.SecretTypeBundleValues:
		kind = "Bundle"
	case fleet.SecretTypeBundleDeployment:
		kind = "BundleDeployment"
	}
	ref := ownerOf(s)
	if ref != nil {
		kind, name = ref.Kind, ref.Name
	}
	owner, known := j.owner(kind, types.NamespacedName{Namespace: s.Namespace, Name: name})
	if !known || s.DeletionTimestamp != nil {
		return
	}
	entry := newSecret(s)
	switch {
	case owner == nil && j.in.Now.Sub(s.CreationTimestamp.Time) >= orphanGrace:
		entry.Issue = fmt.Sprintf("%s %q does not exist", kind, name)
		j.orphans = append(j.orphans, entry)
	case owner != nil && ref != nil && ref.UID != owner.GetUID() && j.in.isSettled(&s):
		entry.Issue = fmt.Sprintf("its owner has UID %q, %s %q has %q", ref.UID, kind, name, owner.GetUID())
		j.found.InvalidSecretOwners = append(j.found.InvalidSecretOwners, entry)
	case owner != nil && s.Hash != "" && valuesHash(owner) != "" && s.Hash != valuesHash(owner) && j.in.isSettled(&s, owner):
		entry.Issue = fmt.Sprintf("its values are not those that %s %q names", kind, name)
		j.found.InvalidSecretOwners = append(j.found.InvalidSecretOwners, entry)
	}
}

// owner returns the object that owns a Secret; nil if it does not exist. known is false if that is not
// known.
func (j *judge) owner(kind string, key types.NamespacedName) (owner metav1.Object, known bool) {
	switch kind {
	case "Bundle":
		if b, exists := j.bundles[key]; exists {
			return b.Bundle, true
		}
		return nil, j.in.covers(Bundles, key.Namespace)
	case "BundleDeployment":
		if bd := j.deployments[key]; bd != nil {
			return bd, true
		}
		return nil, j.in.covers(Deployments, key.Namespace)
	}
	return nil, false
}

func valuesHash(o metav1.Object) string {
	switch o := o.(type) {
	case *fleet.Bundle:
		return o.Spec.ValuesHash
	case *fleet.BundleDeployment:
		return o.Spec.ValuesHash
	}
	return ""
}

// valuesOf reports an object whose values are in a Secret that does not exist.
func (j *judge) valuesOf(o metav1.Object, hash, secretType string) {
	if hash == "" || j.secrets[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] || !j.in.covers(Secrets, o.GetNamespace()) {
		return
	}
	j.found.InvalidSecretOwners = append(j.found.InvalidSecretOwners, Secret{
		Object: Object{Namespace: o.GetNamespace(), Name: o.GetName(), Issue: "it does not exist, and its owner needs the values in it"},
		Type:   secretType, OwnerName: o.GetName(), OwnerUID: string(o.GetUID()),
	})
}
