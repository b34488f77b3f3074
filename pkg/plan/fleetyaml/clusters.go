package fleetyaml

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// selector refuses a selector that cannot be used, at the first entry that is
// wrong.
func (v *validator) selector(s *metav1.LabelSelector, place ...any) {
	if s == nil {
		return
	}
	what := place[len(place)-1]
	refuse := func(one metav1.LabelSelector, keys ...any) bool {
		_, err := metav1.LabelSelectorAsSelector(&one)
		if err != nil {
			v.addError(fmt.Sprintf("%s cannot be used: %s%s", what, oneLine(err.Error()), operatorMeant(one)), childPlace(place, keys...)...)
		}
		return err != nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if refuse(metav1.LabelSelector{MatchLabels: map[string]string{key: s.MatchLabels[key]}}, "matchLabels", key) {
			return
		}
	}
	for i, e := range s.MatchExpressions {
		if refuse(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e}}, "matchExpressions", i, wrongPart(e)) {
			return
		}
	}
}

// operators are those of label selectors.
var operators = []metav1.LabelSelectorOperator{
	metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
}

// operatorMeant suggests an operator for an expression with an unknown one; empty for
// another selector. It is part of the message, since the GitRepo shows no hints.
func operatorMeant(one metav1.LabelSelector) string {
	if len(one.MatchExpressions) == 0 || slices.Contains(operators, one.MatchExpressions[0].Operator) {
		return ""
	}
	wrong := string(one.MatchExpressions[0].Operator)
	var known []string
	for _, o := range operators {
		if strings.EqualFold(string(o), wrong) {
			return fmt.Sprintf("; did you mean %s?", o)
		}
		known = append(known, string(o))
	}
	if near := spelling.Nearest(wrong, known); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	last := len(known) - 1
	return fmt.Sprintf("; want %s or %s", strings.Join(known[:last], ", "), known[last])
}

// wrongPart is the key of that part of an expression which makes it unusable.
func wrongPart(e metav1.LabelSelectorRequirement) string {
	switch {
	case !slices.Contains(operators, e.Operator):
		return "operator"
	case len(validation.IsQualifiedName(e.Key)) > 0:
		return "key"
	}
	return "values"
}

// namespaces refuses names that no namespace can have, in the options of the
// bundle or of one target, which stands at place.
func (v *validator) namespaces(o *fleet.BundleDeploymentOptions, place []any) {
	v.namespace("defaultNamespace", o.DefaultNamespace, childPlace(place, "defaultNamespace"))
	v.namespace("namespace", o.TargetNamespace, childPlace(place, "namespace"))
	if o.Helm == nil {
		return
	}
	for i, from := range o.Helm.ValuesFrom {
		at := childPlace(place, "helm", "valuesFrom", i)
		if ref := from.ConfigMapKeyRef; ref != nil {
			v.namespace(fmt.Sprintf("helm.valuesFrom[%d].configMapKeyRef.namespace", i), ref.Namespace, childPlace(at, "configMapKeyRef", "namespace"))
		}
		if ref := from.SecretKeyRef; ref != nil {
			v.namespace(fmt.Sprintf("helm.valuesFrom[%d].secretKeyRef.namespace", i), ref.Namespace, childPlace(at, "secretKeyRef", "namespace"))
		}
	}
}

func (v *validator) namespace(what, name string, place []any) {
	if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
		v.addError(fmt.Sprintf("%s %q is not possible: want at most %d lower case letters, digits and -, a letter or digit first and last",
			what, shortenText(name), validation.DNS1123LabelMaxLength), place...)
	}
}
