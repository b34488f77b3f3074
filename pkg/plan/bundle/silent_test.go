package bundle

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// withHints are findings with what would help, in brackets.
func withHints(found []finding.Finding) []string {
	var list []string
	for _, f := range found {
		list = append(list, f.String()+" ("+f.Hint+")")
	}
	return list
}

func TestIgnoredManifestsAreNamed(t *testing.T) {
	const remove = " (remove the line, or remove the directory to remove the bundle)"
	cases := map[string]silent{
		"OneLine": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/.fleetignore": "# not these\n*.yaml\n"},
			found: []string{`d/.fleetignore:2:1: warning: nothing is left to deploy: "*.yaml" ignores all manifests [empty]` + remove},
		},
		"Directory": {
			tree:  map[string]string{"d/fleet.yaml": "namespace: a\n", "d/web/app/a.yaml": configMap, "d/.fleetignore": "web/*\n"},
			found: []string{`d/.fleetignore:1:1: warning: nothing is left to deploy: "web/*" ignores all manifests [empty]` + remove},
		},
		"OtherFilesStay": {
			why:   "a text is nothing that is deployed",
			tree:  map[string]string{"d/a.yaml": configMap, "d/README.md": "x", "d/.fleetignore": "a.yaml\n"},
			found: []string{`d/.fleetignore:1:1: warning: nothing is left to deploy: "a.yaml" ignores all manifests [empty]` + remove},
		},
		"Templates": {
			why:   "a chart without templates deploys nothing",
			tree:  map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/values.yaml": "a: 1", "d/templates/a.yaml": configMap, "d/.fleetignore": "templates\n"},
			found: []string{`d/.fleetignore:1:1: warning: nothing is left to deploy: "templates" ignores all manifests [empty]` + remove},
		},
		"SeveralLines": {
			tree: map[string]string{"d/a.yaml": configMap, "d/web/b.yaml": configMap, "d/c.json": "{}", "d/.fleetignore": "a.yaml\n*.md\n*.json\n", "d/web/.fleetignore": "b.yaml\n", "d/x.md": ""},
			found: []string{
				`d/.fleetignore:1:1: warning: nothing is left to deploy: "a.yaml" ignores the manifests, and so do d/.fleetignore:3 and d/web/.fleetignore:1 [empty]` + remove,
			},
		},
		"SomeAreLeft": {tree: map[string]string{"d/a.yaml": configMap, "d/b.yaml": configMap, "d/.fleetignore": "b.yaml\n"}},
		"OnlyTexts": {
			why:   "no manifest is ignored",
			tree:  map[string]string{"d/fleet.yaml": "", "d/README.md": "x", "d/.fleetignore": "*.md\n"},
			found: []string{"d:1:1: warning: there is nothing to deploy in this directory [empty] ()"},
		},
		"Packaged": {
			why:  "a chart may deploy its dependencies alone",
			tree: map[string]string{"d/Chart.yaml": "name: c\nversion: 1.0.0", "d/charts/x.tgz": "x", "d/ci/a.yaml": configMap, "d/.fleetignore": "ci\n"},
		},
	}
	checkSilent(t, cases)
}

func TestEmptiedNamesTheIgnoreFile(t *testing.T) {
	r := Assemble(files(map[string]string{"d/a.yaml": configMap, "d/.fleetignore": "# all\n*\n"}), Dir{Path: "d"}, Options{Repo: "repo"})
	if !r.Empty {
		t.Fatalf("want an empty result, got %v", r.Findings)
	}
	want := finding.Finding{
		Path: "d/.fleetignore", Line: 2, Severity: finding.Error, Rule: finding.RuleEmpty,
		Message: `the directory has become empty: "*" ignores all manifests; bundle "repo-d" stays as it was`,
		Hint:    "remove the line, or remove the directory to remove the bundle",
	}
	if diff := cmp.Diff(want, r.EmptyFinding()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A directory that has become empty keeps its bundle while its fleet.yaml is there or a path
// names it. Any other is found no more, as if it were removed.
func TestWhatStaysOfAnEmptyDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		paths   []string
		options bool
		stays   bool
	}{
		"NeitherNamedNorOptions": {},
		"Below":                  {paths: []string{"apps"}},
		"Options":                {options: true, stays: true},
		"OptionsBelow":           {paths: []string{"apps"}, options: true, stays: true},
		"Named":                  {paths: []string{"apps/db"}, stays: true},
		"NamedByAPattern":        {paths: []string{"apps/*"}, stays: true},
	} {
		tree := map[string]string{"apps/db/.gitkeep": "", "apps/web/fleet.yaml": "namespace: a\n", "apps/web/a.yaml": configMap}
		if c.options {
			tree["apps/db/fleet.yaml"] = "namespace: a\n"
		}
		set := Read(files(tree), c.paths, nil, Options{Repo: "repo"})
		i := slices.IndexFunc(set.Results, func(r Result) bool { return r.Name == "repo-apps-db" })
		if stays := i >= 0 && set.Results[i].Empty; stays != c.stays || !stays && i >= 0 {
			t.Errorf("%s: want it to stay %t, got %v", name, c.stays, set.Results)
		}
	}
}

// A silent case is a tree in which something is not done, and what is found of it.
type silent struct {
	why   string
	tree  map[string]string
	found []string
}

func checkSilent(t *testing.T, cases map[string]silent) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo"})
			if diff := cmp.Diff(c.found, withHints(r.Findings)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestFilesBesideAnUndecodableFleetYAML(t *testing.T) {
	const bad = "a: b\n\tc: d\n"
	const helm = "d/fleet.yaml:1:7: error: helm must be a mapping, not a single value [type] ()"
	const inside = ":2:1: error: YAML: a tab where spaces indent [yaml] ()"
	checkSilent(t, map[string]silent{
		"Manifests": {
			tree: map[string]string{
				"d/fleet.yaml": "helm: web\n", "d/a.yaml": bad, "d/web/b.json": "{", "d/c/Chart.yaml": bad, "d/c/x.yaml": bad, "d/templates/x.yaml": bad, "d/overlays/x/a_patch.yaml": bad,
				"d/e/fleet.yaml": "", "d/e/x.yaml": bad, "d/out": "-> ../f", "f": "x",
			},
			found: []string{
				"d/a.yaml" + inside, "d/c/Chart.yaml" + inside, helm, "d/out:1:1: error: symbolic link leads out of the bundle, to f [outside] ()",
				"d/web/b.json:1:1: error: YAML: probably a bracket is opened and not closed, or closed and not opened (did not find expected node content) [yaml] ()",
			},
		},
		"NoYAML": {
			tree:  map[string]string{"d/fleet.yaml": bad, "d/a.yaml": bad, "d/b.yaml": configMap},
			found: []string{"d/a.yaml" + inside, "d/fleet.yaml" + inside},
		},
		"Chart": {
			why:   "whether dependencies are updated is not known",
			tree:  map[string]string{"d/fleet.yaml": "helm: web\n", "d/Chart.yaml": "name: c\nversion: 1.0.0\ndependencies: [{name: x, version: 1.0.0, repository: 'file://../x'}]\n", "d/values.yaml": bad, "d/templates/a.yaml": bad, "d/ci.yaml": bad},
			found: []string{helm, "d/values.yaml" + inside},
		},
		"Kustomization": {
			tree:  map[string]string{"d/fleet.yaml": "helm: web\n", "d/kustomization.yaml": "resources: [a.yaml, gone.yaml]\n", "d/a.yaml": bad, "d/b.yaml": bad},
			found: []string{"d/a.yaml" + inside, helm, `d/kustomization.yaml:1:1: error: "gone.yaml" is not in the bundle [file] ()`},
		},
	})
}

func TestNothingHasAKind(t *testing.T) {
	const (
		noKind = "warning: the document has no kind, so it is not deployed [manifest]"
		alone  = " (add what is missing, or list the file in .fleetignore)"
		atAll  = " (add what is missing: a .fleetignore that leaves nothing to deploy is an error)"
		among  = " (add what is missing, or remove the document: .fleetignore would leave out the other documents of the file, too)"
		empty  = "warning: nothing is left to deploy: no document of the bundle has a kind [empty] (add what is missing, or remove the directory to remove the bundle)"
		none   = "apiVersion: v1\nmetadata: {name: a}\n"
	)
	checkSilent(t, map[string]silent{
		"Only": {
			tree:  map[string]string{"d/fleet.yaml": "namespace: a\n", "d/a.yaml": "# a\n" + none},
			found: []string{"d/a.yaml:2:1: " + empty, "d/a.yaml:2:1: " + noKind + atAll},
		},
		"Several": {
			why:  "the first of them is the place",
			tree: map[string]string{"d/a.yaml": "{}\n---\n" + none + "---\n" + none, "d/b.json": `{"metadata":{}}`, "d/README.md": "x"},
			found: []string{
				"d/a.yaml:3:1: " + empty, "d/a.yaml:3:1: " + noKind + atAll, "d/a.yaml:6:1: " + noKind + atAll,
				"d/b.json:1:1: warning: the document has neither apiVersion nor kind, so it is not deployed [manifest]" + atAll,
			},
		},
		"AnotherFile": {tree: map[string]string{"d/a.yaml": none, "d/b.yaml": configMap}, found: []string{"d/a.yaml:1:1: " + noKind + alone}},
		"OneFile": {
			why:   "a .fleetignore leaves out whole files",
			tree:  map[string]string{"d/a.yaml": configMap + "---\n" + none, "d/b.yaml": none},
			found: []string{"d/a.yaml:5:1: " + noKind + among, "d/b.yaml:1:1: " + noKind + alone},
		},
		"Templates": {
			why:   "they are rendered",
			tree:  map[string]string{"d/a.yaml": none, "d/templates/a.yaml": configMap},
			found: []string{"d/a.yaml:1:1: " + noKind + alone},
		},
		"Overlay": {
			why:   "it may add objects",
			tree:  map[string]string{"d/a.yaml": none, "d/overlays/x/b.yaml": configMap, "d/fleet.yaml": "yaml: {overlays: [x]}\n"},
			found: []string{"d/a.yaml:1:1: " + noKind + alone},
		},
		"ABrokenFile": {
			why:   "what it holds is not known",
			tree:  map[string]string{"d/a.yaml": none, "d/b.yaml": "a:\n\tb: c\n"},
			found: []string{"d/a.yaml:1:1: " + noKind + alone, "d/b.yaml:2:1: error: YAML: a tab where spaces indent [yaml] ()"},
		},
	})
}

func TestNoDocumentHasContent(t *testing.T) {
	const (
		blank = "warning: nothing is left to deploy: the documents of the bundle are empty [empty] (add what is missing, or remove the directory to remove the bundle)"
		empty = "---\n---\n# nothing\n---\n"
	)
	checkSilent(t, map[string]silent{
		"Comments": {
			tree:  map[string]string{"d/fleet.yaml": "namespace: a\n", "d/cm.yaml": empty},
			found: []string{"d/cm.yaml:1:1: " + blank},
		},
		"Several": {
			why:   "the first of them is the place",
			tree:  map[string]string{"d/a.yaml": "", "d/b.yml": "# a: b\n", "d/c.yaml": "{}\n", "d/README.md": "x"},
			found: []string{"d/a.yaml:1:1: " + blank},
		},
		"AnotherFile": {tree: map[string]string{"d/a.yaml": empty, "d/b.yaml": configMap}},
		"Templates":   {why: "they are rendered", tree: map[string]string{"d/a.yaml": empty, "d/templates/a.yaml": configMap}},
		"Overlay": {
			why:  "it may add objects",
			tree: map[string]string{"d/a.yaml": empty, "d/overlays/x/b.yaml": configMap, "d/fleet.yaml": "yaml: {overlays: [x]}\n"},
		},
		"Options": {
			why:  "a file of options of another bundle is no manifest",
			tree: map[string]string{"d/a.yaml": empty, "d/prod.yaml": "namespace: a\n"},
		},
	})
}

func TestSchemaOfAChartIsNoJSON(t *testing.T) {
	const meta = "name: c\nversion: 1.0.0\n"
	with := func(text, options string) map[string]string {
		return map[string]string{"d/Chart.yaml": meta, "d/templates/a.yaml": configMap, "d/values.schema.json": text, "d/fleet.yaml": options}
	}
	checkSilent(t, map[string]silent{
		"NotClosed": {
			tree:  with("{\"type\":\"object\"\n\n", ""),
			found: []string{"d/values.schema.json:1:17: error: JSON: it ends before a quote or a bracket is closed [yaml] ()"},
		},
		"CommaAtTheEnd": {
			tree:  with("{\n  \"type\": \"object\",\n}\n", ""),
			found: []string{"d/values.schema.json:3:1: error: JSON: a comma may not stand before } [yaml] ()"},
		},
		"Comment": {
			tree:  with("{\n  // all\n}\n", ""),
			found: []string{"d/values.schema.json:2:3: error: JSON: comments are not possible [yaml] ()"},
		},
		"Twice": {
			tree:  with("{}\n{}\n", ""),
			found: []string{"d/values.schema.json:2:1: error: JSON: invalid character '{' after top-level value [yaml] ()"},
		},
		"Empty": {
			why:   "Helm refuses it, too",
			tree:  with("", ""),
			found: []string{"d/values.schema.json:1:1: error: JSON: the file is empty [yaml] ()"},
		},
		"Skipped": {
			why:   "Helm does not read it then",
			tree:  with("{", "helm: {skipSchemaValidation: true}\n"),
			found: []string{"d/values.schema.json:1:2: warning: JSON: it ends before a quote or a bracket is closed [yaml] (helm.skipSchemaValidation is set, so nothing reads it)"},
		},
		"Named": {
			tree:  map[string]string{"d/w/Chart.yaml": meta, "d/w/values.schema.json": "[", "d/w/templates/a.yaml": configMap, "d/fleet.yaml": "helm: {chart: ./w}\n"},
			found: []string{"d/w/values.schema.json:1:2: error: JSON: it ends before a quote or a bracket is closed [yaml] ()"},
		},
		"OfAnotherChart": {
			why: "a chart of the chart may be switched off",
			tree: map[string]string{
				"d/Chart.yaml": meta, "d/templates/a.yaml": configMap, "d/charts/x/Chart.yaml": meta, "d/charts/x/values.schema.json": "[",
				"d/charts/x/templates/a.yaml": configMap,
			},
		},
		"Fine": {tree: with("{}\n", "")},
	})
}
