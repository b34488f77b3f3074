package fleetyaml

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// releaseName is what Helm and the API accept.
var releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// validate refuses values that the API would refuse, where they stand.
func (f *File) validate(c *checker) {
	bad := func(message string, keys ...any) {
		line, column := f.At(keys...)
		c.found = append(c.found, finding.Finding{
			Path: f.Path, Line: line, Column: column, Severity: finding.Error, Rule: finding.RuleValue, Message: message,
		})
	}
	if f.Name != "" && len(validation.IsDNS1123Subdomain(f.Name)) > 0 {
		bad(fmt.Sprintf("name %q is not possible: want lower case letters, digits, - and .", f.Name), "name")
	}
	for i, ref := range f.Spec.DependsOn {
		if ref.Name == "" && ref.Selector == nil {
			bad(fmt.Sprintf("dependsOn[%d] needs a name or a selector", i), "dependsOn", i)
		}
		for j, state := range ref.AcceptedStates {
			if !slices.Contains(fleet.States, state) {
				bad(fmt.Sprintf("dependsOn[%d].acceptedStates: %q is not a state; want one of %s", i, state, states()), "dependsOn", i, "acceptedStates", j)
			}
		}
	}
	switch m := f.Spec.TargetCustomizationMode; m {
	case "", fleet.TargetCustomizationFirstMatch, fleet.TargetCustomizationAllMatches:
	default:
		bad(fmt.Sprintf("targetCustomizationMode %q is not possible: want %s or %s", m,
			fleet.TargetCustomizationFirstMatch, fleet.TargetCustomizationAllMatches), "targetCustomizationMode")
	}
	f.metadata(bad)
	f.releases(bad)
}

func states() string {
	list := make([]string, len(fleet.States))
	for i, s := range fleet.States {
		list[i] = string(s)
	}
	return strings.Join(list, ", ")
}

func (f *File) metadata(bad func(string, ...any)) {
	for key, value := range f.Labels {
		if why := validation.IsQualifiedName(key); len(why) > 0 {
			bad(fmt.Sprintf("label %q is not possible: %s", key, why[0]), "labels", key)
		}
		if why := validation.IsValidLabelValue(value); len(why) > 0 {
			bad(fmt.Sprintf("value of label %q is not possible: %s", key, why[0]), "labels", key)
		}
	}
	for key := range f.Annotations {
		if why := validation.IsQualifiedName(strings.ToLower(key)); len(why) > 0 {
			bad(fmt.Sprintf("annotation %q is not possible: %s", key, why[0]), "annotations", key)
		}
	}
}

func (f *File) releases(bad func(string, ...any)) {
	check := func(h *fleet.HelmOptions, place []any) {
		if h != nil && h.ReleaseName != "" && (len(h.ReleaseName) > fleet.ReleaseNameLimit || !releaseName.MatchString(h.ReleaseName)) {
			bad(fmt.Sprintf("helm.releaseName %q is not possible: want at most %d lower case letters, digits, - and .",
				cut(h.ReleaseName), fleet.ReleaseNameLimit), append(place, "helm", "releaseName")...)
		}
	}
	check(f.Spec.Helm, nil)
	for i := range f.Spec.Targets {
		check(f.Spec.Targets[i].Helm, slices.Clone(f.customized[i]))
	}
}
