package kubetest

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate refuses names and labels that API servers refuse for every kind. live is nil for
// a new object. RBAC's kinds have names that are only segments of a path.
func (c *call) validate(live, obj *unstructured.Unstructured) error {
	var list field.ErrorList
	metadata := field.NewPath("metadata")
	if live == nil && c.res.Group != rbacv1.GroupName {
		for _, message := range validation.NameIsDNSSubdomain(obj.GetName(), false) {
			list = append(list, field.Invalid(metadata.Child("name"), obj.GetName(), message))
		}
	}
	if live == nil || !maps.Equal(live.GetLabels(), obj.GetLabels()) {
		list = append(list, metav1validation.ValidateLabels(obj.GetLabels(), metadata.Child("labels"))...)
	}
	if len(list) > 0 {
		return c.invalid(list...)
	}
	return nil
}
