package helm

import (
	"errors"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

func TestCheckKustomizations(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		files map[string]string
		dir   string
		want  error
	}{
		"Plain":     {"no kustomization", map[string]string{"cm.yaml": "a: b"}, "", nil},
		"Own":       {"all of it is in the bundle", map[string]string{"kustomization.yaml": "resources: [cm.yaml]", "cm.yaml": "a: b"}, "", nil},
		"Remote":    {"it downloads", map[string]string{"kustomization.yaml": "resources: ['https://h.example/a.yaml']"}, "", ErrRemote},
		"Program":   {"it starts helm", map[string]string{"kustomization.yaml": "helmCharts: [{name: a}]"}, "", ErrProgram},
		"Dir":       {"another directory is meant", map[string]string{"x/kustomization.yaml": "resources: ['https://h.example/a.yaml']"}, "x", ErrRemote},
		"Elsewhere": {"that directory is not meant", map[string]string{"x/kustomization.yaml": "resources: ['https://h.example/a.yaml']"}, "", nil},
		"Broken":    {"agents report it in other words", map[string]string{"kustomization.yaml": "resources: [gone.yaml]"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var m content.Manifest
			for file, text := range c.files {
				m.Resources = append(m.Resources, fleet.BundleResource{Name: file, Content: text})
			}
			if err := CheckKustomizations(m, &fleet.KustomizeOptions{Dir: c.dir}); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: got %v, want %v", c.why, err, c.want)
			}
		})
	}
}
