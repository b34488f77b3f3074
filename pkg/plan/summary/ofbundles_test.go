package summary

import "testing"

func TestOfBundles(t *testing.T) {
	for name, c := range map[string]struct {
		texts map[string]string
		want  string
	}{
		"None":  {},
		"One":   {map[string]string{"web": "no cluster"}, "bundle web: no cluster"},
		"Three": {map[string]string{"web": "x", "app": "no cluster", "db": "y"}, "bundle app: no cluster (and 2 more)"},
	} {
		if got := OfBundles(c.texts); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}
