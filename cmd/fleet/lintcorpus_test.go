package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/lint"
)

// corpusSize is how many broken bundles there are, and corpusShare how many of
// what lint says of them must name the very line.
const (
	corpusSize  = 300
	corpusShare = 0.98
)

// corpusDocuments are documents that a file of manifests is made of. N is another
// number in each.
var corpusDocuments = []string{
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-N\n  labels:\n    app: shop\n    tier: front\ndata:\n  mode: fast\n  color: blue\n  text: |\n    first\n    second\n  level: high\n",
	"apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-N\n  labels:\n    app: shop\n    tier: web\nspec:\n  replicas: 2\n  minReadySeconds: 5\n" +
		"  selector:\n    matchExpressions:\n    - key: app\n      operator: In\n      values: [shop]\n  template:\n    metadata:\n      labels:\n        app: shop\n" +
		"    spec:\n      serviceAccountName: web\n      containers:\n      - name: web\n        image: nginx\n        imagePullPolicy: Always\n        ports:\n        - containerPort: 8080\n          name: http\n",
	"apiVersion: v1\nkind: Service\nmetadata:\n  name: web-N\n  labels:\n    app: shop\n    tier: web\nspec:\n  type: ClusterIP\n  sessionAffinity: None\n  selector:\n    app: shop\n  ports:\n  - port: 80\n    name: http\n    targetPort: http\n",
	"# the account\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: web-N\n  namespace: shop\n  labels:\n    app: shop\n    tier: web\nautomountServiceAccountToken: false\n",
}

const (
	corpusOptions = "defaultNamespace: shop\nkeepResources: false\nhelm:\n  releaseName: shop\n  takeOwnership: false\n  timeoutSeconds: 60\nnamespaceLabels:\n  color: blue\n  size: three\n" +
		"targetCustomizations:\n- name: prod\n  clusterSelector:\n    matchExpressions:\n    - key: env\n      operator: In\n      values: [prod]\n  helm:\n    atomic: true\n    timeoutSeconds: 90\n"
	corpusHelm     = "defaultNamespace: shop\nhelm:\n  chart: .\n  version: 1.2.3\n  releaseName: shop\n  valuesFiles: [values.yaml]\n"
	corpusChart    = "apiVersion: v2\nname: shop\nversion: 1.2.3\ndescription: a shop\ntype: application\nappVersion: one\n"
	corpusValues   = "color: blue\nsize: 3\nnested:\n  one: a\n  two: b\nlist:\n- x\n- y\nlast: z\n"
	corpusTemplate = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-N\ndata:\n  color: {{ .Values.color }}\n  one: {{ .Values.nested.one }}\n"
	corpusKustom   = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: shop\nnamePrefix: x-\nresources:\n- base.yaml\n- more.yaml\n"
)

// A broken bundle has one mistake, in one line of one file. The documents of that
// file begin at first.
type brokenBundle struct {
	mistake string
	files   map[string]string
	file    string
	line    int // from 1
	start   int // of the document with the mistake
	end     int
}

// A breaker makes one mistake in lines, in those from start to end. It returns the
// line from 0, or -1 where there is no place for it.
type breaker func(r *rand.Rand, lines []string, start, end int) ([]string, int)

// pick is a line that fits, by chance.
func pick(r *rand.Rand, lines []string, start, end int, fits func(i int) bool) int {
	var all []int
	for i := start; i < end; i++ {
		if fits(i) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return all[r.IntN(len(all))]
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// isScalarLine reports whether a line is a key with a plain value.
func isScalarLine(line string) bool {
	_, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
	return ok && !strings.HasPrefix(strings.TrimSpace(line), "#") && !strings.ContainsAny(value, "[{|\"'")
}

// sibling reports whether a line and the one before it are entries of one mapping.
func sibling(lines []string, i, start int) bool {
	return i > start && isScalarLine(lines[i]) && isScalarLine(lines[i-1]) && indentOf(lines[i]) == indentOf(lines[i-1]) &&
		!strings.Contains(lines[i], "- ") && !strings.Contains(lines[i-1], "- ")
}

// edit breaks one line that fits.
func edit(fits func(lines []string, i, start int) bool, change func(line string) string) breaker {
	return func(r *rand.Rand, lines []string, start, end int) ([]string, int) {
		i := pick(r, lines, start, end, func(i int) bool { return fits(lines, i, start) })
		if i >= 0 {
			lines[i] = change(lines[i])
		}
		return lines, i
	}
}

// swap replaces a text in the line that has it.
func swap(old, text string) breaker {
	return edit(func(lines []string, i, _ int) bool { return strings.Contains(lines[i], old) },
		func(line string) string { return strings.Replace(line, old, text, 1) })
}

// drop removes the line that begins with a text; the mistake is where the document
// begins, after comments.
func drop(text string) breaker {
	return func(r *rand.Rand, lines []string, start, end int) ([]string, int) {
		i := pick(r, lines, start, end, func(i int) bool { return strings.HasPrefix(lines[i], text) })
		if i < 0 {
			return lines, -1
		}
		lines = slices.Delete(lines, i, i+1)
		for strings.HasPrefix(lines[start], "#") {
			start++
		}
		return lines, start
	}
}

func scalarAt(lines []string, i, _ int) bool { return isScalarLine(lines[i]) }

// ofSyntax are mistakes that any file can have.
var ofSyntax = map[string]breaker{
	"unclosed double quote": edit(scalarAt, func(l string) string { return strings.Replace(l, ": ", `: "`, 1) }),
	"unclosed single quote": edit(scalarAt, func(l string) string { return strings.Replace(l, ": ", ": '", 1) }),
	"unclosed bracket":      edit(scalarAt, func(l string) string { return strings.Replace(l, ": ", ": [", 1) }),
	"indented too deep":     edit(sibling, func(l string) string { return " " + l }),
	"indented too little": edit(func(lines []string, i, start int) bool { return sibling(lines, i, start) && indentOf(lines[i]) > 0 },
		func(l string) string { return l[1:] }),
	"tab": edit(func(lines []string, i, start int) bool { return sibling(lines, i, start) && indentOf(lines[i]) > 0 },
		func(l string) string { return "\t" + strings.TrimLeft(l, " ") }),
	"no colon": edit(sibling, func(l string) string { return strings.Replace(l, ": ", " ", 1) }),
}

// ofKeys are mistakes that every file can have whose keys are known.
var ofKeys = map[string]breaker{
	"duplicate key": func(r *rand.Rand, lines []string, start, end int) ([]string, int) {
		i := pick(r, lines, start, end, func(i int) bool { return sibling(lines, i, start) })
		if i < 0 {
			return lines, -1
		}
		return slices.Insert(lines, i+1, lines[i]), i + 1
	},
}

// ofObjects are mistakes in manifests.
var ofObjects = map[string]breaker{
	"unknown field of an object":    swap("minReadySeconds", "minReadySecond"),
	"unknown field at the top":      swap("automountServiceAccountToken", "automountToken"),
	"unknown field of a container":  swap("imagePullPolicy", "pullPolicy"),
	"unknown field of a service":    swap("sessionAffinity", "affinity"),
	"unknown field of the metadata": swap("  labels:", "  label:"),
	"text for a number":             swap("replicas: 2", "replicas: two"),
	"text for a port":               swap("containerPort: 8080", "containerPort: http"),
	"number for a text":             swap("mode: fast", "mode: 7"),
	"text for true":                 swap("Token: false", "Token: never"),
	"unknown kind":                  swap("kind: Deployment", "kind: Deploymet"),
	"unknown group":                 swap("apiVersion: apps/v1", "apiVersion: app/v1"),
	"removed version":               swap("apiVersion: apps/v1", "apiVersion: apps/v1beta1"),
	"bad label value":               swap("tier: web", "tier: the/web"),
	"bad operator":                  swap("operator: In", "operator: Inn"),
	"bad label key":                 swap("    tier: ", "    -tier-: "),
	"bad name":                      swap("name: settings-", "name: Settings_"),
	"bad namespace":                 swap("namespace: shop", "namespace: Shop_1"),
}

// ofManifests are mistakes in files of manifests that agents read as they are.
var ofManifests = map[string]breaker{
	"name missing":       drop("  name: "),
	"kind missing":       drop("kind: "),
	"apiVersion missing": drop("apiVersion: "),
	"text as a document": func(_ *rand.Rand, lines []string, start, end int) ([]string, int) {
		return slices.Replace(lines, start, end, "only some text"), start
	},
}

var ofOptions = map[string]breaker{
	"unknown key of fleet.yaml":      swap("keepResources", "keepResource"),
	"unknown key of helm":            swap("takeOwnership", "takeOwner"),
	"text for a number of helm":      swap("timeoutSeconds: 60", "timeoutSeconds: soon"),
	"number for a text of helm":      swap("releaseName: shop", "releaseName: [shop]"),
	"text for true in fleet.yaml":    swap("keepResources: false", "keepResources: never"),
	"bad operator of a selector":     swap("operator: In", "operator: Inn"),
	"bad label key of a selector":    swap("key: env", "key: env//x"),
	"bad namespace of fleet.yaml":    swap("defaultNamespace: shop", "defaultNamespace: Shop_1"),
	"bad release name":               swap("releaseName: shop", "releaseName: Shop_1"),
	"unknown key of a customization": swap("    atomic: true", "    atomicc: true"),
}

var ofChartOptions = map[string]breaker{
	"missing values file":     swap("valuesFiles: [values.yaml]", "valuesFiles: [nowhere.yaml]"),
	"missing chart":           swap("chart: .", "chart: ./nowhere"),
	"bad version range":       swap("version: 1.2.3", "version: 1.x.y"),
	"number for text of helm": swap("releaseName: shop", "releaseName: 7"),
}

var ofChart = map[string]breaker{
	"version of a chart": swap("version: 1.2.3", "version: one"),
	"type of a chart":    swap("type: application", "type: program"),
}

var ofTemplates = map[string]breaker{
	"unclosed action":  swap("{{ .Values.color }}", "{{ .Values.color"),
	"unknown function": swap("{{ .Values.color }}", "{{ colour .Values.color }}"),
	"value of nothing": swap("{{ .Values.nested.one }}", "{{ .Values.other.one }}"),
	"unknown field, rendered": edit(func(lines []string, i, _ int) bool { return lines[i] == "data:" || lines[i] == "spec:" },
		func(string) string { return "dat:" }),
	"number for text, rendered": swap("one: {{ .Values.nested.one }}", "one: 7"),
	"unknown kind, rendered":    swap("kind: ConfigMap", "kind: ConfigMop"),
	"bad end":                   swap("{{ .Values.color }}", "{{ .Values.color }}{{ end }}"),
	"field of a text":           swap("{{ .Values.color }}", "{{ .Values.color.dark }}"),
	"required value":            swap("{{ .Values.color }}", `{{ required "give one" .Values.colour }}`),
	"unknown field of meta":     swap("  name: {{", "  nam: x\n  name: {{"),
	"value that is no mapping":  swap("{{ .Values.nested.one }}", "{{ .Values.size.one }}"),
}

var ofKustomizations = map[string]breaker{
	"missing file of kustomize":  swap("- more.yaml", "- nowhere.yaml"),
	"file outside":               swap("- more.yaml", "- ../more.yaml"),
	"unknown key of kustomize":   swap("namePrefix:", "nameprefixes:"),
	"mapping for a text":         swap("namePrefix: x-", "namePrefix: {a: b}"),
	"missing file of kustomize2": swap("- base.yaml", "- bases.yaml"),
}

// A brokenFile is a file of a bundle that is broken, and the mistakes that it may have.
type brokenFile struct {
	file     string
	breakers map[string]breaker
	bundle   func(r *rand.Rand, n int) map[string]string
}

func brokenFiles() []brokenFile {
	all := func(groups ...map[string]breaker) map[string]breaker {
		out := map[string]breaker{}
		for _, group := range groups {
			for name, b := range group {
				out[name] = b
			}
		}
		return out
	}
	return []brokenFile{
		{"objects.yaml", all(ofSyntax, ofKeys, ofObjects, ofManifests), plainBundle},
		{"fleet.yaml", all(ofSyntax, ofKeys, ofOptions), plainBundle},
		{"fleet.yaml", ofChartOptions, chartBundle},
		{"Chart.yaml", all(ofSyntax, ofChart), chartBundle},
		{"values.yaml", ofSyntax, chartBundle},
		{"templates/all.yaml", ofTemplates, chartBundle},
		{"kustomization.yaml", all(ofSyntax, ofKustomizations), kustomBundle},
		{"base.yaml", all(ofSyntax, ofObjects), kustomBundle},
	}
}

// numbered is some documents in some order, none twice.
func numbered(r *rand.Rand, n int, least int) string {
	var docs []string
	for i, at := range r.Perm(len(corpusDocuments))[:least+r.IntN(len(corpusDocuments)-least+1)] {
		docs = append(docs, strings.ReplaceAll(corpusDocuments[at], "N\n", fmt.Sprintf("%d-%d\n", n, i)))
	}
	return strings.Join(docs, "---\n")
}

func plainBundle(r *rand.Rand, n int) map[string]string {
	return map[string]string{"fleet.yaml": corpusOptions, "objects.yaml": numbered(r, n, 3)}
}

func chartBundle(_ *rand.Rand, n int) map[string]string {
	return map[string]string{
		"fleet.yaml": corpusHelm, "Chart.yaml": corpusChart, "values.yaml": corpusValues,
		"templates/all.yaml": strings.ReplaceAll(corpusTemplate, "N\n", fmt.Sprintf("%d\n", n)) + "---\n" +
			strings.ReplaceAll(corpusDocuments[2], "N\n", fmt.Sprintf("%d\n", n)),
	}
}

func kustomBundle(r *rand.Rand, n int) map[string]string {
	return map[string]string{
		"fleet.yaml": "defaultNamespace: shop\n", "kustomization.yaml": corpusKustom, "base.yaml": numbered(r, n, 2),
		"more.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more-%d\n", n),
	}
}

// corpus is the broken bundles, the same each time.
func corpus() []brokenBundle {
	r := rand.New(rand.NewPCG(1, 2))
	var out []brokenBundle
	list := brokenFiles()
	for n := 0; len(out) < corpusSize; n++ {
		s := list[n%len(list)]
		if n%2 == 0 { // half of all are files of manifests and fleet.yaml
			s = list[n/2%2]
		}
		var names []string
		for name := range s.breakers {
			names = append(names, name)
		}
		slices.Sort(names)
		name := names[r.IntN(len(names))]
		b := brokenBundle{mistake: name, file: s.file, files: s.bundle(r, n)}
		lines := strings.Split(strings.TrimSuffix(b.files[b.file], "\n"), "\n")
		start, end := someDocument(r, lines)
		before := len(lines)
		lines, at := s.breakers[name](r, lines, start, end)
		if at < 0 {
			continue
		}
		b.files[b.file] = strings.Join(lines, "\n") + "\n"
		b.line, b.start, b.end = at+1, start+1, end+len(lines)-before
		out = append(out, b)
	}
	return out
}

// someDocument is one of the documents in lines.
func someDocument(r *rand.Rand, lines []string) (start, end int) {
	starts := []int{0}
	for i, line := range lines {
		if line == "---" {
			starts = append(starts, i+1)
		}
	}
	n := r.IntN(len(starts))
	if n+1 < len(starts) {
		return starts[n], starts[n+1] - 1
	}
	return starts[n], len(lines)
}

// Of mistakes at known places lint finds all, and says in which line they are: of
// what it finds nearly all names the very line, and the rest the same document.
func TestLintCorpus(t *testing.T) {
	tree := map[string]string{}
	bundles := corpus()
	for i, b := range bundles {
		for name, text := range b.files {
			tree[fmt.Sprintf("b%03d/%s", i, name)] = text
		}
	}
	out, notes, code := linted(t, files(t, tree), "-o", "json", "--offline")
	var report lint.LintReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v, code %d: %s", err, code, notes)
	}
	of := map[string][]lint.LintFinding{}
	for _, f := range report.Findings {
		dir, _, _ := strings.Cut(f.Path, "/")
		of[dir] = append(of[dir], f)
	}
	findings, exact, away := 0, 0, 0
	for i, b := range bundles {
		dir := fmt.Sprintf("b%03d", i)
		if len(of[dir]) == 0 {
			t.Errorf("%s: nothing is found\n%s", b.mistake, b.files[b.file])
		}
		for _, f := range of[dir] {
			findings++
			switch {
			case f.Path == path.Join(dir, b.file) && f.Line == b.line:
				exact++
			case f.Path == path.Join(dir, b.file) && f.Line >= b.start && f.Line <= b.end:
				t.Logf("%s in line %d of %s: %s:%d: %s", b.mistake, b.line, b.file, f.Path, f.Line, f.Message)
			default:
				away++
				t.Logf("AWAY %s in line %d (%d to %d) of %s: %s:%d: %s", b.mistake, b.line, b.start, b.end, b.file, f.Path, f.Line, f.Message)
			}
		}
	}
	share := float64(exact) / float64(findings)
	t.Logf("%d broken files, %d findings: %d (%.1f %%) name the very line, %d another document", len(bundles), findings, exact, 100*share, away)
	if share < corpusShare || away > 0 {
		t.Errorf("want at least %.0f %% to name the very line, and none another document", 100*corpusShare)
	}
}
