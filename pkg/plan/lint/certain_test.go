package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TestDependenceOfALine: a line fails on every cluster only where nothing that decides
// about it comes from a cluster.
func TestDependenceOfALine(t *testing.T) {
	values := map[string]any{
		"region": `${ get .ClusterLabels "region" }`, "log": map[string]any{"level": "info"}, "db": map[string]any{"host": "${ .ClusterName }"},
		"hosts": []any{"a", "${ .ClusterName }"}, "team": "global.fleet.clusterLabels.team",
	}
	cases := map[string]struct {
		why    string
		text   string // the line is the first that has an x
		absent bool
		other  string // another template of the chart
		values map[string]any
		want   bool
	}{
		"Plain":         {text: "a: {{ .Values.x.y | quote }}"},
		"FromTheTop":    {text: "{{ with .Values.log }}\na: {{ $.Values.x.y }}\n{{ end }}"},
		"Templated":     {text: "a: {{ .Values.region.x }}", want: true},
		"Below":         {text: "a: {{ .Values.db.host.x }}", want: true},
		"Around":        {text: "a: {{ .Values.db | x }}", want: true},
		"InAList":       {text: "a: {{ .Values.hosts.x }}", want: true},
		"Reference":     {text: "a: {{ .Values.team.x }}", want: true},
		"Beside":        {text: "a: {{ .Values.db.x.y }}"},
		"All":           {text: "a: {{ .Values | x }}", want: true},
		"Condition":     {text: "{{ if .Values.log.level }}\na: {{ .Values.x.y }}\n{{ end }}"},
		"Guarded":       {text: "{{ if .Values.region }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Else":          {text: "{{ if eq .Values.region \"eu\" }}\n{{ else }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"ElseIf":        {text: "{{ if .Values.region }}\n{{ else if .Values.log }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Closed":        {text: "{{ if .Values.region }}\na: b\n{{ end }}\nb: {{ .Values.x.y }}"},
		"SameLine":      {text: "{{ .Values.region }}: {{ .Values.x.y }}", want: true},
		"SeveralLines":  {text: "a: {{ list\n  .Values.x.y\n  .Values.log }}"},
		"Later":         {text: "a: {{ list\n  .Values.x.y\n  .Values.region }}", want: true},
		"Variable":      {text: "{{ $r := .Values.region }}\n{{ if $r }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Dot":           {text: "{{ range .Values.log }}\na: {{ .x.y }}\n{{ end }}", want: true},
		"DotIsValues":   {text: "{{ with .Values.log }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Break":         {text: "{{ range .Values.log }}\n{{ if $.Values.region }}{{ break }}{{ end }}\na: {{ $.Values.x.y }}\n{{ end }}", want: true},
		"Helper":        {text: "{{ if eq (include \"env\" .) \"prod\" }}\n{{ else }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Include":       {text: `a: {{ include "x" . }}`, want: true},
		"AbsentInclude": {text: `a: {{ include "x" . | nindent 2 }}`, absent: true},
		"AbsentFromTop": {text: `a: {{ include "x" $ }}`, absent: true},
		"AbsentByName":  {text: `a: {{ include (printf "x%s" .Values.region) . }}`, absent: true, want: true},
		"Template":      {text: `{{ template "x" .Values.log }}`, want: true},
		"Tpl":           {text: "a: {{ tpl .Values.x .Values.log }}", want: true},
		"Lookup":        {text: `a: {{ (lookup "v1" "Secret" "x" "y").data.a }}`, want: true},
		"Kubernetes":    {text: "a: {{ .Capabilities.x.y }}", want: true},
		"Release":       {text: "a: {{ .Release.x.y }}"},
		"Define":        {text: "{{ define \"a\" }}\na: {{ .Values.x.y }}\n{{ end }}", want: true},
		"Set":           {text: "a: {{ .Values.x.y }}", other: `{{ $_ := set .Values "x" (dict "y" "z") }}`, want: true},
		"Merge":         {text: "a: {{ .Values.x.y }}", other: `{{ $_ := mergeOverwrite .Values (index .Values.envs .Values.region) }}`, want: true},
		"MergeOfCopies": {text: "a: {{ .Values.x.y }}", other: `{{ $v := merge (dict) .Values.log }}`},
		"KeyTemplated":  {text: "a: {{ .Values.x.y }}", values: map[string]any{"${ .ClusterName }": "b"}, want: true},
		"OverSeveral":   {text: "a: {{ .Values.x.y }}", values: map[string]any{"a": "${ if .ClusterName }", "b": "${ end }"}, want: true},
		"MoreLines":     {text: "a: {{ .Values.x.y }}", values: map[string]any{"a": "${ toJson .ClusterValues | nindent 2 }"}, want: true},
		"Balanced":      {text: "a: {{ .Values.x.y }}", values: map[string]any{"a": "${ if .ClusterName }a${ else }b${ end }"}},
		"NoTemplate":    {text: "a: {{ .Values.x.y }", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := &fleet.Bundle{}
			for name, text := range map[string]string{"Chart.yaml": "name: a", "templates/a.yaml": c.text, "templates/_b.tpl": c.other} {
				b.Spec.Resources = append(b.Spec.Resources, fleet.BundleResource{Name: name, Content: text})
			}
			if c.values == nil {
				c.values = values
			}
			b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: c.values}}
			line := 1
			for i := range c.text {
				if c.text[i] == 'x' {
					break
				}
				if c.text[i] == '\n' {
					line++
				}
			}
			if got := DependenceOf(b).Line("templates/a.yaml", line, c.absent); got != c.want {
				t.Errorf("line %d of %s: depends %t, want %t; %s", line, c.text, got, c.want, c.why)
			}
		})
	}
}

func TestDependenceOfAViolation(t *testing.T) {
	const plain = `{"type": "object"}`
	cases := map[string]struct {
		pointer, text, schema string
		want                  bool
	}{
		"Plain":       {pointer: "/replicas", text: "got string, want integer", schema: plain},
		"Templated":   {pointer: "/region", text: "got string, want integer", schema: plain, want: true},
		"Around":      {pointer: "", text: "minProperties: got 1, want 3", schema: plain, want: true},
		"Missing":     {pointer: "", text: "missing properties 'a', 'b'", schema: plain},
		"MissingNull": {pointer: "", text: "missing properties 'a', 'region'", schema: plain, want: true},
		"Additional":  {pointer: "/db", text: "additional properties 'a' not allowed", schema: plain},
		"Conditional": {pointer: "/replicas", text: "got string, want integer", schema: `{"if": {"properties": {"region": {"const": "eu"}}}}`, want: true},
		"NoSchema":    {pointer: "/replicas", text: "got string, want integer", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := &fleet.Bundle{}
			if c.schema != "" {
				b.Spec.Resources = []fleet.BundleResource{{Name: "values.schema.json", Content: c.schema}}
			}
			b.Spec.Helm = &fleet.HelmOptions{TemplateValues: map[string]string{"region": "${ .ClusterName }"}}
			if got := DependenceOf(b).Violation(c.pointer, c.text); got != c.want {
				t.Errorf("depends %t, want %t", got, c.want)
			}
		})
	}
}

// TestFill: what another customization has, or a cluster has not, is not added.
func TestFill(t *testing.T) {
	b := &fleet.Bundle{}
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{
		"a": map[string]any{"b": "${ .ClusterName }", "c": "d"}, "list": []any{"x", "${ .ClusterName }"},
	}}}
	b.Spec.Targets = []fleet.BundleTarget{{}}
	b.Spec.Targets[0].Helm = &fleet.HelmOptions{TemplateValues: map[string]string{"other": "${ .ClusterName }"}, Values: &fleet.GenericMap{
		Data: map[string]any{"deep": map[string]any{"er": map[string]any{"e": "${ .ClusterName }"}}},
	}}
	values := map[string]any{"a": map[string]any{"b": "sample", "c": "d"}, "list": []any{"x", "sample"}, "deep": "text"}
	got := DependenceOf(b).Fill(values, false)
	want := map[string]any{"a": map[string]any{"b": false, "c": "d"}, "list": false, "deep": "text"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if values["list"] == false {
		t.Error("the values that are filled in are those of the caller")
	}
}
