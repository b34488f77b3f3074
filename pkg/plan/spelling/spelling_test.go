package spelling

import "testing"

func TestNearest(t *testing.T) {
	cases := map[string]struct {
		why   string
		name  string
		known []string
		want  string
	}{
		"Swapped":   {"neighbours change places", "exmaples-web", []string{"examples-web", "examples-db"}, "examples-web"},
		"Dropped":   {"a letter is missing", "bundls", []string{"bundles", "clusters"}, "bundles"},
		"TooFar":    {"a suggestion that fits nothing is worse than none", "settings", []string{"web", "db"}, ""},
		"TooShort":  {"of two letters none may be wrong", "c9", []string{"c1", "c2"}, ""},
		"FirstWins": {"of two as near the first in order", "store-3", []string{"store-2", "store-1"}, "store-1"},
		"Nothing":   {"nothing is known", "web", nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Nearest(c.name, c.known); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

func TestNearestPath(t *testing.T) {
	values := []string{"values.yaml", "values/production.yaml", "values/staging.yaml"}
	cases := map[string]struct {
		why   string
		name  string
		known []string
		want  string
	}{
		"Abbreviation":   {"prod is short for production", "values/prod.yaml", values, "values/production.yaml"},
		"OtherSeparator": {"- stands for a directory", "values-staging.yaml", values, "values/staging.yaml"},
		"OtherEnd":       {"yml is yaml", "values.yml", values, "values.yaml"},
		"OtherDirectory": {"the directory is missing", "production.yaml", values, "values/production.yaml"},
		"Misspelt":       {"letters change places", "vlaues.yaml", values, "values.yaml"},
		"MisspeltBelow":  {"the directory is misspelt", "vaules/staging.yaml", values, "values/staging.yaml"},
		"OneLetter":      {"a letter is missing in the same directory", "values-prod.yaml", append([]string{"values-prd.yaml"}, values...), "values-prd.yaml"},
		"NotTheDefault":  {"values.yaml is not near what is named after something", "values-prod.yaml", values[:1], ""},
		"SameDirectory":  {"the nearest directory wins", "b/prod.yaml", []string{"a/prod-x.yaml", "a/production.yaml", "b/production.yaml"}, "b/production.yaml"},
		"Directory":      {"a chart is in a directory of charts", "web", []string{"charts/db", "charts/web"}, "charts/web"},
		"LetterTooMany":  {"one name begins another", "charts/appxx", []string{"charts/app", "charts/appx"}, "charts/appx"},
		"NoDirectory":    {"the very name is in a directory", "appx", []string{"charts/app", "charts/appx"}, "charts/appx"},
		"OtherFolder":    {"the directory is misspelt, and one name begins another", "chart/appx", []string{"charts/app", "charts/appx"}, "charts/appx"},
		"VeryName":       {"the end of the file is the same too", "prodx.yaml", []string{"values/prod.yaml", "values/prodx.yaml"}, "values/prodx.yaml"},
		"Nothing":        {"nothing is known", "web", nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NearestPath(c.name, c.known); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("bundels", "bundles")
	f.Add("", "é")
	f.Fuzz(func(t *testing.T, a, b string) {
		if d := editDistance(a, b); d != editDistance(b, a) || d < 0 || d > max(len(a), len(b)) {
			t.Errorf("distance of %q and %q is %d one way and %d the other", a, b, d, editDistance(b, a))
		}
	})
}
