package helm

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/builtins" //nolint:staticcheck // the types of kustomize's own plugins are nowhere else
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
)

// What kustomize does with the text of a field.
const (
	loads   = "loads"   // reads a file, or a directory, that it names
	starts  = "starts"  // starts a program
	neither = "neither" // takes it as it is
)

// kustomizationTexts classifies every text in kustomize's type of a
// kustomization. A field that is missing here fails the test: find out what
// kustomize does with it, and extend loadsOf before this table.
var kustomizationTexts = classes(map[string]string{
	loads: `resources[] components[] bases[] crds[] configurations[] generators[] transformers[] validators[] openapi.*
		patches[].path patchesJson6902[].path patchesStrategicMerge[] replacements[].path
		configMapGenerator[].files[] configMapGenerator[].envs[] configMapGenerator[].env
		secretGenerator[].files[] secretGenerator[].envs[] secretGenerator[].env`,
	starts: `helmCharts[].name helmCharts[].version helmCharts[].repo helmCharts[].releaseName helmCharts[].namespace
		helmCharts[].additionalValuesFiles[] helmCharts[].valuesFile helmCharts[].valuesInline.* helmCharts[].valuesMerge
		helmCharts[].apiVersions[] helmCharts[].kubeVersion helmCharts[].nameTemplate
		helmChartInflationGenerator[].chartName helmChartInflationGenerator[].chartVersion helmChartInflationGenerator[].chartRepoUrl
		helmChartInflationGenerator[].chartHome helmChartInflationGenerator[].chartRepoName helmChartInflationGenerator[].helmBin
		helmChartInflationGenerator[].helmHome helmChartInflationGenerator[].values helmChartInflationGenerator[].valuesLocal.*
		helmChartInflationGenerator[].valuesMerge helmChartInflationGenerator[].releaseName
		helmChartInflationGenerator[].releaseNamespace helmChartInflationGenerator[].extraArgs[]`,
	neither: `apiVersion kind metadata.name metadata.namespace metadata.labels.* metadata.annotations.* namePrefix nameSuffix namespace
		commonLabels.* commonAnnotations.* labels[].pairs.* labels[].fields[].group labels[].fields[].version labels[].fields[].kind
		labels[].fields[].path patches[].patch patchesJson6902[].patch images[].name images[].newName images[].tagSuffix images[].newTag
		images[].digest imageTags[].name imageTags[].newName imageTags[].tagSuffix imageTags[].newTag imageTags[].digest
		replicas[].name vars[].name vars[].objref.apiVersion vars[].objref.group vars[].objref.version vars[].objref.kind
		vars[].objref.name vars[].objref.namespace vars[].fieldref.fieldPath sortOptions.order sortOptions.legacySortOptions.orderFirst[]
		sortOptions.legacySortOptions.orderLast[] helmGlobals.chartHome helmGlobals.configHome buildMetadata[]
		generatorOptions.labels.* generatorOptions.annotations.*` +
		selectors("patches[].target", "patchesJson6902[].target") + replacement("replacements[]") +
		generator("configMapGenerator[]") + generator("secretGenerator[]") + ` secretGenerator[].type`,
})

// pluginTexts classifies the texts in the configurations of kustomize's own
// generators and transformers, by kind.
var pluginTexts = map[string]map[string]string{
	"AnnotationsTransformer": classes(map[string]string{neither: "Annotations.* annotations.*" + fields("FieldSpecs[]", "fieldSpecs[]")}),
	"ConfigMapGenerator":     classes(map[string]string{loads: "files[] envs[]", neither: "env " + metaTexts + generator("")}),
	"SecretGenerator":        classes(map[string]string{loads: "files[] envs[]", neither: "env " + metaTexts + generator("") + " type"}),
	"HelmChartInflationGenerator": classes(map[string]string{starts: `chartHome configHome name version repo releaseName namespace additionalValuesFiles[]
		valuesFile valuesInline.* valuesMerge apiVersions[] kubeVersion nameTemplate`}),
	"IAMPolicyGenerator":  classes(map[string]string{neither: "cloud kubernetesService.namespace kubernetesService.name serviceAccount.name serviceAccount.projectId"}),
	"HashTransformer":     {},
	"ImageTagTransformer": classes(map[string]string{neither: "imageTag.name imageTag.newName imageTag.tagSuffix imageTag.newTag imageTag.digest" + fields("fieldSpecs[]")}),
	"LabelTransformer":    classes(map[string]string{neither: "labels.*" + fields("fieldSpecs[]")}),
	"NamespaceTransformer": classes(map[string]string{neither: metaTexts + fields("fieldSpecs[]") +
		" setRoleBindingSubjects"}),
	"PatchJson6902Transformer":       classes(map[string]string{loads: "path", neither: "jsonOp" + selectors("target")}),
	"PatchStrategicMergeTransformer": classes(map[string]string{loads: "paths[]", neither: "patches"}),
	"PatchTransformer":               classes(map[string]string{loads: "path", neither: "patch" + selectors("target")}),
	"PrefixTransformer":              classes(map[string]string{neither: "prefix" + fields("fieldSpecs[]")}),
	"SuffixTransformer":              classes(map[string]string{neither: "suffix" + fields("fieldSpecs[]")}),
	"PrefixSuffixTransformer":        {},
	"ReplacementTransformer":         classes(map[string]string{loads: "replacements[].path", neither: replacement("replacements[]")}),
	"ReplicaCountTransformer":        classes(map[string]string{neither: "replica.name" + fields("fieldSpecs[]")}),
	"ValueAddTransformer":            classes(map[string]string{loads: "targetFilePath", neither: "value targets[].fieldPath" + selectors("targets[].selector")}),
}

var pluginTypes = map[string]any{
	"AnnotationsTransformer":         builtins.AnnotationsTransformerPlugin{},
	"ConfigMapGenerator":             builtins.ConfigMapGeneratorPlugin{},
	"SecretGenerator":                builtins.SecretGeneratorPlugin{},
	"HelmChartInflationGenerator":    builtins.HelmChartInflationGeneratorPlugin{},
	"IAMPolicyGenerator":             builtins.IAMPolicyGeneratorPlugin{},
	"HashTransformer":                builtins.HashTransformerPlugin{},
	"ImageTagTransformer":            builtins.ImageTagTransformerPlugin{},
	"LabelTransformer":               builtins.LabelTransformerPlugin{},
	"NamespaceTransformer":           builtins.NamespaceTransformerPlugin{},
	"PatchJson6902Transformer":       builtins.PatchJson6902TransformerPlugin{},
	"PatchStrategicMergeTransformer": builtins.PatchStrategicMergeTransformerPlugin{},
	"PatchTransformer":               builtins.PatchTransformerPlugin{},
	"PrefixTransformer":              builtins.PrefixTransformerPlugin{},
	"SuffixTransformer":              builtins.SuffixTransformerPlugin{},
	"PrefixSuffixTransformer":        struct{}{}, // the two before
	"ReplacementTransformer":         builtins.ReplacementTransformerPlugin{},
	"ReplicaCountTransformer":        builtins.ReplicaCountTransformerPlugin{},
	"ValueAddTransformer":            builtins.ValueAddTransformerPlugin{},
}

const metaTexts = "metadata.name metadata.namespace metadata.labels.* metadata.annotations.*"

func classes(m map[string]string) map[string]string {
	out := map[string]string{}
	for class, paths := range m {
		for p := range strings.FieldsSeq(paths) {
			out[p] = class
		}
	}
	return out
}

func each(prefixes []string, names string) string {
	var out strings.Builder
	for _, p := range prefixes {
		if p != "" {
			p += "."
		}
		for n := range strings.FieldsSeq(names) {
			out.WriteString(" " + p + n)
		}
	}
	return out.String()
}

func selectors(at ...string) string {
	return each(at, "group version kind name namespace annotationSelector labelSelector")
}
func fields(at ...string) string { return each(at, "group version kind path") }
func generator(at string) string {
	return each([]string{at}, "namespace name behavior literals[] options.labels.* options.annotations.*")
}

func replacement(at string) string {
	return each([]string{at + ".source"}, "group version kind name namespace fieldPath options.delimiter options.encoding") +
		selectors(at+".targets[].select", at+".targets[].reject[]") +
		each([]string{at + ".targets[]"}, "fieldPaths[] options.delimiter options.encoding") + " " + at + ".sourceValue"
}

// textPaths returns the paths of all texts in a type, as JSON names them.
func textPaths(t reflect.Type, at string) []string {
	switch t.Kind() {
	case reflect.String:
		return []string{at}
	case reflect.Interface:
		return []string{at}
	case reflect.Pointer:
		return textPaths(t.Elem(), at)
	case reflect.Slice, reflect.Array:
		return textPaths(t.Elem(), at+"[]")
	case reflect.Map:
		return textPaths(t.Elem(), at+".*")
	case reflect.Struct:
		var out []string
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() && !f.Anonymous, name == "-":
				continue
			case name == "" && f.Anonymous:
				out = append(out, textPaths(f.Type, at)...)
				continue
			case name == "":
				name = f.Name
			}
			if at != "" {
				name = at + "." + name
			}
			out = append(out, textPaths(f.Type, name)...)
		}
		return out
	}
	return nil
}

// Every text that kustomize's types have is classified, so that a version of
// kustomize that has more of them is noticed.
func TestKustomizeTextsAreClassified(t *testing.T) {
	compare := func(of string, typ any, known map[string]string) {
		have := textPaths(reflect.TypeOf(typ), "")
		for _, p := range have {
			if known[p] == "" {
				t.Errorf("%s: nothing says whether %s loads something", of, p)
			}
		}
	}
	compare("Kustomization", types.Kustomization{}, kustomizationTexts)
	names := krusty.GetBuiltinPluginNames()
	for _, kind := range names {
		if pluginTypes[kind] == nil {
			t.Errorf("nothing says whether configurations of %s load something", kind)
			continue
		}
		compare(kind, pluginTypes[kind], pluginTexts[kind])
	}
}
