package bundle

import "testing"

func TestMisspeltOptions(t *testing.T) {
	const rename = " (rename it to fleet.yaml)"
	misspelt := func(name string) []string {
		return []string{"d/" + name + ":1:1: warning: " + name + " looks like a misspelt fleet.yaml: it is not read [not-read]" + rename}
	}
	cases := map[string]silent{
		"Nested": {
			tree:  map[string]string{"d/a.yaml": configMap, "d/web/flet.yaml": "namespace: a\n", "d/web/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"},
			found: []string{"d/web/flet.yaml:1:1: warning: flet.yaml looks like a misspelt fleet.yaml: it is not read [not-read]" + rename},
		},
		"OtherKeys": {
			why:   "what is misspelt in the name may be in the keys",
			tree:  map[string]string{"d/a.yaml": configMap, "d/flet.yaml": "namespace: a\nhlm: {}\n"},
			found: misspelt("flet.yaml"),
		},
		"Beside":   {why: "it may be for another bundle of the directory", tree: map[string]string{"d/a.yaml": configMap, "d/fleet.yaml": "namespace: a\n", "d/fleets.yaml": "namespace: b\n"}},
		"Options":  {why: "a name of its own", tree: map[string]string{"d/a.yaml": configMap, "d/fleet-prod.yaml": "namespace: b\n", "d/fleet2.yaml": "namespace: b\n"}},
		"Manifest": {tree: map[string]string{"d/flet.yaml": configMap}},
		"Text":     {tree: map[string]string{"d/a.yaml": configMap, "d/fleet.txt": "we have a fleet\n", "d/fleet.yaml.txt": "we have a fleet\n"}},
	}
	for _, name := range []string{"flet.yaml", "fleets.yaml", "fleet.yalm", "fleet.yml.txt", "fleet.yaml.txt", "fleet.json", "fleet.yaml.yaml"} {
		cases[name] = silent{tree: map[string]string{"d/a.yaml": configMap, "d/" + name: `{"namespace": "a"}`}, found: misspelt(name)}
	}
	checkSilent(t, cases)
}
