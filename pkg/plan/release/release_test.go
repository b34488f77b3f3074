package release

import "testing"

func TestParseID(t *testing.T) {
	for text, want := range map[string]ID{
		"shop/web:3": {Namespace: "shop", Name: "web"}, "shop/web": {Namespace: "shop", Name: "web"},
		"": {}, "web:3": {}, "/web:3": {}, "shop/:3": {},
	} {
		if got := ParseID(text); got != want {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
