package store

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names are valid, and different for what is different.
func TestChunkName(t *testing.T) {
	long := string(bytes.Repeat([]byte("long-name-"), 20))
	seen := map[string]Key{}
	for _, k := range []Key{{"m", "web"}, {"n", "web"}, {"", "web"}, {"m", "web-1"}, {"m", long}, {"m", long + "x"}, {"m", "a.b"}} {
		for i := range 3 {
			name := chunkName(k, i)
			if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
				t.Errorf("%q: %v", name, errs)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%v and %v have the same name %q", k, other, name)
			}
			seen[name] = k
		}
	}
}
