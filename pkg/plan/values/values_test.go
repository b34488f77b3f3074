package values_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

type m = map[string]any

var east = values.ClusterFacts{
	Name: "east", Namespace: "fleet-default",
	Labels: map[string]string{
		"env": "prod", "example.com/team": "a",
		"fleet.cattle.io/zone": "z", "management.cattle.io/cluster-name": "c-1",
		"objectset.rio.cattle.io/hash": "h", "kubectl.kubernetes.io/x": "x",
	},
	Annotations:    map[string]string{"note": "n", "fleet.cattle.io/manager": "m"},
	TemplateValues: m{"size": 3.0, "nested": m{"k": "v"}},
}

func helm(v map[string]any) *fleet.HelmOptions {
	return &fleet.HelmOptions{Values: &fleet.GenericMap{Data: v}}
}

func TestRender(t *testing.T) {
	off := helm(m{"a": "global.fleet.clusterLabels.env", "b": "${ .ClusterName }"})
	off.DisablePreProcess = true
	off.TemplateValues = map[string]string{"c": "${ .ClusterName }"}
	offDone := helm(m{"a": "prod", "b": "${ .ClusterName }"})
	offDone.DisablePreProcess = true
	offDone.TemplateValues = off.TemplateValues
	withTemplates := func(v map[string]any, templates map[string]string) *fleet.HelmOptions {
		h := &fleet.HelmOptions{TemplateValues: templates}
		if v != nil {
			h.Values = &fleet.GenericMap{Data: v}
		}
		return h
	}
	bare := values.ClusterFacts{Name: "bare", Labels: map[string]string{"objectset.rio.cattle.io/hash": "h"}}
	tests := map[string]struct {
		in, want *fleet.HelmOptions
		on       values.ClusterFacts
		why      string
	}{
		"NoHelm":           {nil, &fleet.HelmOptions{}, east, "the empty object is part of the deployment id"},
		"NoHelmNoLabels":   {nil, nil, bare, "a cluster without labels of its own gets the options untouched"},
		"NoLabels":         {helm(m{"a": "${ .ClusterName }"}), helm(m{"a": "${ .ClusterName }"}), bare, "a cluster without labels of its own gets the options untouched"},
		"NoValues":         {&fleet.HelmOptions{Chart: "c"}, &fleet.HelmOptions{Chart: "c"}, east, "nothing to fill in"},
		"Plain":            {helm(m{"a": 1.0, "b": []any{"x", nil, true}}), helm(m{"a": 1.0, "b": []any{"x", nil, true}}), east, "what holds no template stays as it is"},
		"Empty":            {helm(m{}), helm(m{}), east, "nothing stays nothing"},
		"Label":            {helm(m{"a": "global.fleet.clusterLabels.env", "b": "global.fleet.clusterLabels.none"}), helm(m{"a": "prod", "b": ""}), east, "a label that is not there is empty"},
		"LabelBelow":       {helm(m{"a": m{"b": "global.fleet.clusterLabels.env"}}), helm(m{"a": m{"b": "prod"}}), east, "at every level"},
		"LabelInMapOfList": {helm(m{"a": []any{m{"b": "global.fleet.clusterLabels.env"}}}), helm(m{"a": []any{m{"b": "prod"}}}), east, "maps in lists are walked"},
		"LabelInList":      {helm(m{"a": []any{"global.fleet.clusterLabels.env"}}), helm(m{"a": []any{"global.fleet.clusterLabels.env"}}), east, "texts in lists are not"},
		"LabelInText":      {helm(m{"a": "x global.fleet.clusterLabels.env"}), helm(m{"a": "x global.fleet.clusterLabels.env"}), east, "only a whole value is a reference"},
		"LabelOfFleet":     {helm(m{"a": "global.fleet.clusterLabels.fleet.cattle.io/zone"}), helm(m{"a": "z"}), east, "Fleet's own labels can be asked for"},
		"LabelOfOthers":    {helm(m{"a": "global.fleet.clusterLabels.objectset.rio.cattle.io/hash"}), helm(m{"a": ""}), east, "internal labels cannot"},
		"Facts": {helm(m{"a": "${ .ClusterName } ${ .ClusterNamespace } ${ .ClusterLabels.env } ${ .ClusterAnnotations.note } ${ .ClusterValues.nested.k }"}),
			helm(m{"a": "east fleet-default prod n v"}), east, "what a template can ask for"},
		"TypeChanges":        {helm(m{"a": "${ .ClusterValues.size }"}), helm(m{"a": 3.0}), east, "a template may leave a number"},
		"Key":                {helm(m{"${ .ClusterLabels.env }": "x"}), helm(m{"prod": "x"}), east, "keys are templates too"},
		"Functions":          {helm(m{"a": `${ get .ClusterLabels "env" | upper | quote }`, "b": `${ hasKey .ClusterLabels "none" }`}), helm(m{"a": "PROD", "b": false}), east, "sprig is there"},
		"Condition":          {helm(m{"a": `${ if eq .ClusterLabels.env "prod" }3${ else }1${ end }`}), helm(m{"a": 3.0}), east, "the usual use"},
		"PreProcessOff":      {off, offDone, east, "label references are replaced all the same"},
		"TemplateValues":     {withTemplates(m{"a": 1.0, "b": 1.0}, map[string]string{"b": "[${ .ClusterName }, 2]", "c": "k: ${ .ClusterLabels.env }"}), withTemplates(m{"a": 1.0, "b": []any{"east", 2.0}, "c": m{"k": "prod"}}, map[string]string{"b": "[${ .ClusterName }, 2]", "c": "k: ${ .ClusterLabels.env }"}), east, "they go before values, whole keys at a time"},
		"OnlyTemplateValues": {withTemplates(nil, map[string]string{"a": "${ .ClusterName }"}), withTemplates(m{"a": "east"}, map[string]string{"a": "${ .ClusterName }"}), east, "values need not be there"},
		"Range":              {withTemplates(nil, map[string]string{"a": "${ range $k, $v := .ClusterValues.nested }\n${ $k }: ${ $v }\n${ end }"}), withTemplates(m{"a": m{"k": "v"}}, map[string]string{"a": "${ range $k, $v := .ClusterValues.nested }\n${ $k }: ${ $v }\n${ end }"}), east, "what templateValues are for"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			before := c.in.DeepCopy()
			got, err := values.Render(fleet.BundleDeploymentOptions{Helm: c.in}, c.on, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got.Helm); d != "" {
				t.Errorf("%s\n-want +got: %s", c.why, d)
			}
			if d := cmp.Diff(before, c.in); d != "" {
				t.Errorf("the argument changed: %s", d)
			}
		})
	}
}

func TestRenderFails(t *testing.T) {
	deep := m{}
	for at, i := deep, 0; i < 60; i++ {
		below := m{}
		at["k"] = below
		at = below
	}
	tests := map[string]struct {
		in   m
		want string // part of the message
		why  string
	}{
		"MissingLabel":  {m{"a": "${ .ClusterLabels.none }"}, "none", "a typing error must not deploy <no value>"},
		"MissingFact":   {m{"a": "${ .ClusterColour }"}, "ClusterColour", "a typing error must not deploy <no value>"},
		"Syntax":        {m{"a": "${ if }"}, "missing value for if", "the user sees where"},
		"Env":           {m{"a": `${ env "HOME" }`}, "not defined", "templates must not see the manager"},
		"ExpandEnv":     {m{"a": `${ expandenv "$HOME" }`}, "not defined", "templates must not see the manager"},
		"DNS":           {m{"a": `${ getHostByName "a" }`}, "not defined", "templates must not reach the network"},
		"Deep":          {deep, "50 deep", "no endless walk"},
		"Repeat":        {m{"a": `${ repeat 100000000 "aaaaaaaa" }`}, "repeat", "memory of the manager"},
		"Until":         {m{"a": `${ until 1000000000 }`}, "until", "memory of the manager"},
		"UntilOverflow": {m{"a": `${ untilStep 1 9223372036854775807 9223372036854775807 }`}, "too far", "no endless loop"},
		"Seq":           {m{"a": `${ seq 0 1 100000000 }`}, "seq", "memory of the manager"},
		"Random":        {m{"a": `${ randAlpha 100000000 }`}, "randAlpha", "memory of the manager"},
		"RandomBytes":   {m{"a": `${ randBytes 100000000 }`}, "randBytes", "memory of the manager"},
		"Indent":        {m{"a": `${ indent 100000000 "a" }`}, "indent", "memory of the manager"},
		"NestedLoops":   {m{"a": `${ range until 100000 }${ range until 100000 }${ end }${ end }`}, "and take 1 second", "time of the manager"},
		"LoopOverOne":   {m{"a": `${ $l := until 1000 }${ range $l }${ range $l }${ range $l }${ end }${ end }${ end }`}, "and take 1 second", "time of the manager"},
		"LoopInElse":    {m{"a": `${ $l := until 1000 }${ range $l }${ if false }${ else }${ with false }${ else }${ range $l }${ end }${ end }${ end }${ end }`}, "and take 1 second", "time of the manager"},
		"Recursion":     {m{"a": `${ define "x" }${ if lt (len .) 40 }${ template "x" (printf "%sa" .) }${ template "x" (printf "%sb" .) }${ end }${ end }${ template "x" "" }`}, "and take 1 second", "time of the manager"},
		"LargeTexts":    {m{"a": `${ range until 1000 }${ $x := repeat 4000000 "a" }${ end }`}, "makes too much", "memory of the manager"},
		"Doubling":      {m{"a": `${ $x := "aaaaaaaa" }${ range until 40 }${ $x = printf "%s%s" $x $x }${ end }`}, "printf", "memory of the manager"},
		"DoublingCat":   {m{"a": `${ $x := "aaaaaaaa" }${ range until 40 }${ $x = cat $x $x }${ end }`}, "cat", "memory of the manager"},
		"Replace":       {m{"a": `${ $x := repeat 1000000 "a" }${ $x | replace "a" $x }`}, "replace", "memory of the manager"},
		"IndentLines":   {m{"a": `${ repeat 100000 "\n" | indent 100000 }`}, "indent", "memory of the manager"},
		"StepFunction":  {m{"a": `${ fleetStep }`}, "not defined", "charts cannot call functions of Fleet"},
		"TooMuch":       {m{"a": `${ range until 10000 }${ repeat 10000 "a" }${ end }`}, "4 MiB", "memory of the manager"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := values.Render(fleet.BundleDeploymentOptions{Helm: helm(c.in)}, east, nil)
			var p *reconcile.Terminal
			if !errors.As(err, &p) || p.Reason != values.ReasonTemplate {
				t.Fatalf("got %v: %s", err, c.why)
			}
			for _, part := range []string{c.want, `"east"`, `"fleet-default"`} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	o := fleet.BundleDeploymentOptions{Helm: helm(m{"a": "${ .ClusterName }", "b": m{"c": "${ .ClusterLabels.env | upper }"}})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := values.Render(o, east, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// What is wrong with a value must be said without the value.
func TestErrorsKeepSecrets(t *testing.T) {
	for name, text := range map[string]string{
		"Syntax": "a: 1\nb: [canary",
		"Anchor": "a: *canary",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := values.Render(fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{
				TemplateValues: map[string]string{"key": text},
			}}, east, nil)
			if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "templateValues.key") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Limits must not get in the way of ordinary use.
func TestFunctionsWithinLimits(t *testing.T) {
	in := m{
		"until": `${ until 3 }`, "step": `${ untilStep 0 10 5 }`, "seq": `x${ seq 1 2 5 }`, "down": `x${ seq 3 }`, "none": `x${ seq }`,
		"back": `x${ seq 3 1 }`, "repeat": `${ repeat 2 "ab" }`, "length": `${ randAlpha 7 | len }`, "indent": `x${ nindent 0 "y" | trim }`, "empty": `x${ repeat 3 "" }`,
	}
	want := m{
		"until": []any{"0 1 2"}, "step": []any{"0 5"}, "seq": "x1 3 5", "down": "x1 2 3", "none": "x",
		"back": "x3 2 1", "repeat": "abab", "length": 7.0, "indent": "xy", "empty": "x",
	}
	got, err := values.Render(fleet.BundleDeploymentOptions{Helm: helm(in)}, east, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.Helm.Values.Data); d != "" {
		t.Errorf("-want +got: %s", d)
	}
}

// Whatever a repository says, rendering ends, and its argument stays.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"", "x", "${ .ClusterName }", "${ range until 3 }a${ end }", "global.fleet.clusterLabels.env", "${", "}", "a: [", "${ seq 1 3 }", "${ define \"x\" }${ template \"x\" . }${ end }${ template \"x\" . }"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, value, template string) {
		o := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{
			Values:         &fleet.GenericMap{Data: m{"a": value, "b": m{"c": value}}},
			TemplateValues: map[string]string{"t": template},
		}}
		before := o.DeepCopy()
		got, err := values.Render(o, east, nil)
		if d := cmp.Diff(*before, o); d != "" {
			t.Fatalf("the argument changed: %s", d)
		}
		if err == nil && (got.Helm == nil || got.Helm.Values == nil) {
			t.Error("neither values nor an error")
		}
	})
}

// A template that fails for a cluster is named by its key, and what it asks for in
// vain by what was probably meant.
func TestRenderErrors(t *testing.T) {
	region := func(template string) *fleet.HelmOptions {
		return helm(m{"color": "blue", "deep": m{"list": []any{"x", m{"region": template}}}, "zone": "${ .ClusterName }"})
	}
	cases := map[string]struct {
		in   *fleet.HelmOptions
		want string
	}{
		"NoLabel":  {region("${ .ClusterLabels.none }"), "helm.values.deep.list[1].region: no value for .ClusterLabels.none"},
		"Near":     {region("${ .ClusterLabel.env }"), "helm.values.deep.list[1].region: there is no .ClusterLabel; did you mean .ClusterLabels?"},
		"Case":     {region("${ .clusterName }"), "helm.values.deep.list[1].region: there is no .clusterName; did you mean .ClusterName?"},
		"Far":      {region("${ .Values.region }"), "helm.values.deep.list[1].region: there is no .Values; templates know .ClusterAnnotations, .ClusterLabels, .ClusterName, .ClusterNamespace, .ClusterValues"},
		"Function": {region("${ get .ClusterLabels 3 }"), "helm.values.deep.list[1].region: 3: expected string; found 3"},
		"TemplateValues": {&fleet.HelmOptions{TemplateValues: map[string]string{"web": "a: b\nc: ${ .ClusterLabls.env }"}},
			"helm.templateValues.web: there is no .ClusterLabls; did you mean .ClusterLabels?"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := values.Render(fleet.BundleDeploymentOptions{Helm: c.in}, east, nil)
			want := `render values for cluster "east" in namespace "fleet-default": ` + c.want
			if err == nil || err.Error() != want {
				t.Errorf("want %s\ngot  %v", want, err)
			}
		})
	}
}
