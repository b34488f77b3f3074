package workspace

import (
	"maps"
	"reflect"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A RightsAction is what to do with an existing role or binding.
type RightsAction int

const (
	// Fits leaves it: it is as it should be.
	Fits RightsAction = iota
	// Mend writes some of its fields.
	Mend
	// Remake deletes it and makes it again: what differs cannot be changed.
	Remake
)

// MendRole compares a ClusterRole with what it should be, and returns it as it is
// to be written. The rules of one that collects them are not compared: Kubernetes
// writes them.
func MendRole(live, want *rbacv1.ClusterRole) (*rbacv1.ClusterRole, RightsAction) {
	aggregates := want.AggregationRule != nil
	if hasLabelsAndOwner(live, want) && reflect.DeepEqual(live.AggregationRule, want.AggregationRule) && (aggregates || reflect.DeepEqual(live.Rules, want.Rules)) {
		return live, Fits
	}
	out := live.DeepCopy()
	setLabelsAndOwner(&out.ObjectMeta, want)
	out.AggregationRule = want.AggregationRule
	if !aggregates {
		out.Rules = want.Rules
	}
	return out, Mend
}

// MendClusterRoleBinding is MendRole for ClusterRoleBindings. Kubernetes does not allow
// changing the role of one.
func MendClusterRoleBinding(live, want *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, RightsAction) {
	if deed := decideBinding(live, want, live.Subjects, want.Subjects, live.RoleRef, want.RoleRef); deed != Mend {
		return live, deed
	}
	out := live.DeepCopy()
	setLabelsAndOwner(&out.ObjectMeta, want)
	out.Subjects = want.Subjects
	return out, Mend
}

// MendRoleBinding is MendRole for RoleBindings. Kubernetes does not allow changing the role
// of one.
func MendRoleBinding(live, want *rbacv1.RoleBinding) (*rbacv1.RoleBinding, RightsAction) {
	if deed := decideBinding(live, want, live.Subjects, want.Subjects, live.RoleRef, want.RoleRef); deed != Mend {
		return live, deed
	}
	out := live.DeepCopy()
	setLabelsAndOwner(&out.ObjectMeta, want)
	out.Subjects = want.Subjects
	return out, Mend
}

func decideBinding(live, want metav1.Object, have, who []rbacv1.Subject, is, role rbacv1.RoleRef) RightsAction {
	switch {
	case is != role:
		return Remake
	case hasLabelsAndOwner(live, want) && reflect.DeepEqual(have, who):
		return Fits
	}
	return Mend
}

// hasLabelsAndOwner reports whether an object has the labels and the owner of another.
func hasLabelsAndOwner(live, want metav1.Object) bool {
	have := live.GetLabels()
	for key, value := range want.GetLabels() {
		if have[key] != value {
			return false
		}
	}
	return reflect.DeepEqual(owners(live), owners(want))
}

// owners are those of an object by kind, name and UID.
func owners(o metav1.Object) []metav1.OwnerReference {
	var out []metav1.OwnerReference
	for _, r := range o.GetOwnerReferences() {
		out = append(out, metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID})
	}
	return out
}

// setLabelsAndOwner gives an object the labels and the owner of another.
func setLabelsAndOwner(m *metav1.ObjectMeta, want metav1.Object) {
	m.Labels = maps.Clone(m.Labels)
	if m.Labels == nil {
		m.Labels = map[string]string{}
	}
	maps.Copy(m.Labels, want.GetLabels())
	m.OwnerReferences = want.GetOwnerReferences()
}

// MayChange reports whether an existing role or binding with the name of a wanted one may be
// changed: it was made for the same purpose, by this manager or by Rancher.
func MayChange(live, want metav1.Object) bool {
	have, labels := live.GetLabels(), want.GetLabels()
	for _, key := range []string{LabelRights, LabelRoleOwner, LabelGrantOwner} {
		if labels[key] != "" && have[key] == labels[key] {
			return labels[LabelWorkspace] == have[LabelWorkspace]
		}
	}
	marks := live.GetAnnotations()
	return labels[LabelRights] == RightsCreator && marks[fleet.AnnotationObjectSetID] == setWorkspace && marks[annotationSetOwner] == labels[LabelWorkspace]
}

// annotationSetOwner is the name of the object that another was generated for.
const annotationSetOwner = "objectset.rio.cattle.io/owner-name"
