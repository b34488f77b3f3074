package spelling

import "testing"

func TestSlip(t *testing.T) {
	for name, c := range map[string]struct {
		name  string
		known []string
		want  string
	}{
		"Dropped":          {"web-confg", []string{"web-config", "db-config"}, "web-config"},
		"Swapped":          {"image-tga", []string{"image-tag"}, "image-tag"},
		"SwappedShort":     {"wbe", []string{"web"}, "web"},
		"Case":             {"replicacount", []string{"replicaCount"}, "replicaCount"},
		"FirstCase":        {"Replicas", []string{"replicas"}, "replicas"},
		"Separator":        {"replica_count", []string{"replicaCount"}, "replicaCount"},
		"Dot":              {"a.lables", []string{"a.labels"}, "a.labels"},
		"Known":            {"web", []string{"web", "wbe"}, ""},
		"TwoNear":          {"confg", []string{"config", "confog"}, ""},
		"TwoSlips":         {"wbe-confg", []string{"web-config"}, ""},
		"ShortWords":       {"web-api", []string{"web-app"}, ""},
		"OneLetter":        {"team-a", []string{"team-b"}, ""},
		"Abbreviation":     {"db-prd", []string{"db-prod"}, ""},
		"FirstLetter":      {"rest-config", []string{"test-config"}, ""},
		"Digit":            {"worker-1", []string{"worker-2"}, ""},
		"DigitInWord":      {"redis", []string{"redis2"}, ""},
		"AnotherWord":      {"config", []string{"web-config"}, ""},
		"Empty":            {"", []string{"a"}, ""},
		"OnlySeparators":   {"--", []string{"-", "a"}, ""},
		"EndIsNoExtension": {"app.confg", []string{"app.conf"}, "app.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SingleTypo(c.name, c.known); got != c.want {
				t.Errorf("Slip(%q) = %q, want %q", c.name, got, c.want)
			}
		})
	}
}
