package fleetyaml

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// A validator looks for values that have the right type and cannot work: the
// API, a controller or the agent would refuse them later, without a place.
type validator struct {
	f *File
	c *checker
}

// validate refuses values that cannot work, where they stand.
func (f *File) validate(c *checker) {
	v := &validator{f: f, c: c}
	v.checkName()
	v.reserved()
	v.metadata()
	v.dependsOn()
	v.mode()
	v.targets()
	v.rollout()
	v.options(&f.Spec.BundleDeploymentOptions, nil)
	v.versions()
	v.helmNumbers()
	v.jobs()
	v.imageScans()
	v.templates()
}

func (v *validator) addError(message string, keys ...any) {
	v.addFinding(finding.Error, finding.RuleValue, message, "", keys...)
}

func (v *validator) addWarning(message, hint string, keys ...any) {
	v.addFinding(finding.Warning, finding.RuleValue, message, hint, keys...)
}

func (v *validator) addFinding(s finding.Severity, rule, message, hint string, keys ...any) {
	if !v.c.hasRoomFor(s) {
		return // finding the place is what costs
	}
	line, column := v.f.Position(keys...)
	if text, ok := position.Text(v.f.root, keys...); ok && HasTemplate(text) {
		message, hint = templateIn(keys), HintTemplates
	}
	v.c.found = append(v.c.found, finding.Finding{
		Path: v.f.Path, Line: line, Column: column, Severity: s, Rule: rule, Message: message, Hint: hint,
	})
}

// templateIn says that the value that keys lead to is no template.
func templateIn(keys []any) string {
	return position.Path(keys) + " holds ${ }, and templates are not rendered there"
}

// templates warns of templates in values that are used as they stand, as far as
// there is no finding about them. It is an error where the value names what does
// not exist then, a file or a chart; for a directory of kustomize or an overlay,
// reading the directory says more.
func (v *validator) templates() {
	v.f.Texts(func(t Text) {
		where := strings.ToLower(position.Path(t.Keys))
		files := strings.Contains(where, "helm.valuesfiles")
		if !HasTemplate(t.Value) || confidential(where) && !files || strings.Contains(where, "kustomize.dir") || strings.Contains(where, "yaml.overlays") {
			return
		}
		if slices.ContainsFunc(v.c.found, func(f finding.Finding) bool { return f.Line == t.Line && f.Column == t.Column }) {
			return
		}
		s := finding.Warning
		if files || strings.HasSuffix(where, "helm.chart") || strings.HasSuffix(where, "helm.repo") {
			s = finding.Error
		}
		if v.c.hasRoomFor(s) {
			v.c.found = append(v.c.found, finding.Finding{
				Path: v.f.Path, Line: t.Line, Column: t.Column, Severity: s, Rule: finding.RuleNotRendered, Message: templateIn(t.Keys), Hint: HintTemplates,
			})
		}
	})
}

// childPlace is a place below another one.
func childPlace(place []any, keys ...any) []any { return append(slices.Clone(place), keys...) }

func (v *validator) checkName() {
	switch name := v.f.Name; {
	case name == "":
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		v.addError(fmt.Sprintf("name %q is not possible: want %s", shortenText(name), NameForm), "name")
	case len(validation.IsValidLabelValue(name)) > 0:
		v.addError(fmt.Sprintf("name %q is not possible: want at most 63 characters", shortenText(name)), "name")
	}
}

// reserved makes sure that no reserved key came in by a way that the checker
// does not see.
func (v *validator) reserved() {
	check := func(what string, set map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if Reserved(key) {
				v.addFinding(finding.Error, finding.RuleReserved, reservedText(what, key), "", what, key)
			}
		}
	}
	check("labels", v.f.Labels)
	check("annotations", v.f.Annotations)
}

func (v *validator) metadata() {
	v.labels("label", v.f.Labels, "labels")
	v.annotations("annotation", v.f.Annotations, "annotations")
	v.labels("namespace label", v.f.Spec.NamespaceLabels, "namespaceLabels")
	v.annotations("namespace annotation", v.f.Spec.NamespaceAnnotations, "namespaceAnnotations")
	for i := range v.f.Spec.Targets {
		t, place := &v.f.Spec.Targets[i], v.f.customized[i]
		v.labels("namespace label", t.NamespaceLabels, childPlace(place, "namespaceLabels")...)
		v.annotations("namespace annotation", t.NamespaceAnnotations, childPlace(place, "namespaceAnnotations")...)
	}
}

func (v *validator) labels(what string, set map[string]string, place ...any) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		value := set[key]
		if why := validation.IsQualifiedName(key); len(why) > 0 {
			v.addError(fmt.Sprintf("%s %q is not possible: %s", what, shortenText(key), why[0]), childPlace(place, key)...)
		}
		if why := validation.IsValidLabelValue(value); len(why) > 0 {
			v.addError(fmt.Sprintf("value of %s %q is not possible: %s", what, shortenText(key), why[0]), childPlace(place, key)...)
		}
	}
}

func (v *validator) annotations(what string, set map[string]string, place ...any) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if why := validation.IsQualifiedName(strings.ToLower(key)); len(why) > 0 {
			v.addError(fmt.Sprintf("%s %q is not possible: %s", what, shortenText(key), why[0]), childPlace(place, key)...)
		}
	}
}

func (v *validator) dependsOn() {
	for i, ref := range v.f.Spec.DependsOn {
		if ref.Name == "" && ref.Selector == nil {
			v.addError(fmt.Sprintf("dependsOn[%d] needs a name or a selector", i), "dependsOn", i)
		}
		v.selector(ref.Selector, "dependsOn", i, "selector")
		for j, state := range ref.AcceptedStates {
			if !slices.Contains(fleet.States, state) {
				v.addError(fmt.Sprintf("dependsOn[%d].acceptedStates: %q is not a state; want one of %s", i, shortenText(string(state)), states()),
					"dependsOn", i, "acceptedStates", j)
			}
		}
	}
}

func states() string {
	list := make([]string, len(fleet.States))
	for i, s := range fleet.States {
		list[i] = string(s)
	}
	return strings.Join(list, ", ")
}

func (v *validator) mode() {
	switch m := v.f.Spec.TargetCustomizationMode; m {
	case "", fleet.TargetCustomizationFirstMatch, fleet.TargetCustomizationAllMatches:
	default:
		v.addError(fmt.Sprintf("targetCustomizationMode %q is not possible: want %s or %s", shortenText(string(m)),
			fleet.TargetCustomizationFirstMatch, fleet.TargetCustomizationAllMatches), "targetCustomizationMode")
	}
}

// targets checks what selects clusters: one selector that cannot be read stops
// the whole bundle.
func (v *validator) targets() {
	for i := range v.f.Spec.Targets {
		t, place := &v.f.Spec.Targets[i], v.f.customized[i]
		v.selector(t.ClusterSelector, childPlace(place, "clusterSelector")...)
		v.selector(t.ClusterGroupSelector, childPlace(place, "clusterGroupSelector")...)
		v.options(&t.BundleDeploymentOptions, place)
	}
	for i := range v.f.OverrideTargets {
		t := &v.f.OverrideTargets[i]
		v.selector(t.ClusterSelector, "overrideTargets", i, "clusterSelector")
		v.selector(t.ClusterGroupSelector, "overrideTargets", i, "clusterGroupSelector")
	}
}

// imageScans warns about entries that are skipped.
func (v *validator) imageScans() {
	for i := range v.f.ImageScans {
		if v.f.ImageScans[i].Image == "" {
			v.addWarning(fmt.Sprintf("imageScans[%d] has no image and is skipped", i), "", "imageScans", i)
		}
	}
}

// jsonPointer is RFC 6901, without the pointer to the whole document.
var jsonPointer = regexp.MustCompile(`^(/([^~]|~[01])*)+$`)

// comparePatches warns about what can never leave anything out of a comparison.
func (v *validator) comparePatches(o *fleet.DiffOptions, place []any) {
	if o == nil {
		return
	}
	for i := range o.ComparePatches {
		p, at := &o.ComparePatches[i], childPlace(place, "diff", "comparePatches", i)
		ignores := slices.ContainsFunc(p.Operations, func(op fleet.Operation) bool { return op.Op == "ignore" })
		if len(p.JsonPointers) == 0 && len(p.Operations) == 0 {
			v.addWarning(fmt.Sprintf("comparePatches[%d] has neither jsonPointers nor operations and does nothing", i), "", at...)
		}
		if p.Kind == "" && len(p.Operations) > 0 {
			v.addWarning(fmt.Sprintf("comparePatches[%d] has operations and no kind, so it matches no object", i), "", at...)
		}
		if !ignores {
			v.pattern(p.Name, childPlace(at, "name"))
		} else if _, err := regexp.Compile(p.Name); err != nil {
			v.addWarning(fmt.Sprintf("name %q is no regular expression, so it matches no other object", shortenText(p.Name)), "", childPlace(at, "name")...)
		}
		for j, pointer := range p.JsonPointers {
			if !jsonPointer.MatchString(pointer) {
				v.addWarning(fmt.Sprintf("%q is no JSON pointer and does nothing", shortenText(pointer)), "it begins with /, as in /spec/replicas", childPlace(at, "jsonPointers", j)...)
			}
		}
		for j := range p.Operations {
			v.operation(&p.Operations[j], childPlace(at, "operations", j))
		}
	}
}

func (v *validator) pattern(name string, place []any) {
	if _, err := path.Match(name, ""); err != nil {
		v.addWarning(fmt.Sprintf("name %q is no pattern, so it matches no object", shortenText(name)), "", place...)
	}
}

func (v *validator) operation(op *fleet.Operation, place []any) {
	switch op.Op {
	case "ignore":
		return
	case "remove", "add", "replace":
	case "":
		v.addWarning("the operation has no op and does nothing", "op is remove, add, replace or ignore", place...)
		return
	default:
		v.addWarning(fmt.Sprintf("operation %q does nothing here", shortenText(op.Op)), "op is remove, add, replace or ignore", childPlace(place, "op")...)
		return
	}
	if !jsonPointer.MatchString(op.Path) {
		v.addWarning(fmt.Sprintf("path %q is no JSON pointer; the operation does nothing", shortenText(op.Path)), "it begins with /, as in /spec/replicas", childPlace(place, "path")...)
	}
}
