package release

import "testing"

func TestMissing(t *testing.T) {
	for message, want := range map[string]Absence{
		MissingValues("Secret", "web", "creds", `does not exist; its key "values.yaml" is wanted`): {Kind: "Secret", Namespace: "web", Name: "creds"},
		MissingValues("ConfigMap", "web", "more", `has no key "a.yaml"`):                           {Kind: "ConfigMap", Namespace: "web", Name: "more", Exists: true},
		MissingNamespace("web"): {Kind: "Namespace", Name: "web"},
		"helm.valuesFrom: Secret \"creds\", key \"a\": not a YAML map": {},
		"the agent has not applied it yet":                             {},
	} {
		if got, found := ParseAbsence(message); got != want || found != (want.Kind != "") {
			t.Errorf("%s: want %+v, got %+v", message, want, got)
		}
	}
}
