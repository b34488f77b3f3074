package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

func TestPayload(t *testing.T) {
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "a: 1"}}}
	packed := content.Compress(content.Encode(m))
	copies := []helm.Copy{{Kind: helm.CopySecret, Name: "s", Type: "Opaque", Data: map[string][]byte{"k": {0, 1, 2}}}}
	cases := map[string]struct {
		why  string
		id   string // of the deployment id
		in   versionPayload
		same bool // kept as it always was
	}{
		"Plain":  {"earlier versions read it", content.ID(m), versionPayload{id: content.ID(m), content: packed, values: []byte("{}")}, true},
		"Chart":  {"the deployment id names no content", "", versionPayload{id: content.ID(m), content: packed}, false},
		"Copies": {"what goes along is kept beside it", content.ID(m), versionPayload{id: content.ID(m), content: packed, copies: copies}, false},
		"Both":   {"", "", versionPayload{id: content.ID(m), content: packed, copies: copies, values: []byte("{}")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			kept, err := c.in.pack(c.id)
			if err != nil {
				t.Fatal(err)
			}
			if same := string(kept.Content) == string(packed); same != c.same {
				t.Errorf("%s: kept as before: %t", c.why, same)
			}
			got, err := unpack(c.id, kept)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.in, got, cmp.AllowUnexported(versionPayload{})); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			for _, at := range []int{1, len(kept.Content) - 45, len(kept.Content) - 9} {
				bad := append([]byte(nil), kept.Content...)
				bad[at] ^= 0x40
				if _, err := unpack(c.id, store.Payload{Content: bad}); err == nil {
					t.Errorf("byte %d is another, and nobody notices", at)
				}
			}
		})
	}
	kept, err := versionPayload{id: content.ID(m), content: packed}.pack("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack("s-another", kept); err == nil {
		t.Error("a chart's parcel must not pass for the content of another deployment")
	}
}
