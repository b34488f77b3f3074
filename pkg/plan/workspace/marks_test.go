package workspace

import "testing"

// marks are those of Rancher's sets.
func marks(set, namespace, owner string) map[string]string {
	return map[string]string{
		"objectset.rio.cattle.io/id": set, "objectset.rio.cattle.io/owner-namespace": namespace, "objectset.rio.cattle.io/owner-name": owner,
	}
}

func TestRancherly(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		mode Mode
		of   map[string]string
		want bool
	}{
		"cluster":      {why: "Rancher goes on with it when it is back", mode: Auto, of: marks("fleet-cluster", "fleet-default", "c1"), want: true},
		"namespace":    {why: "it goes with its workspace by Rancher's hand", mode: Auto, of: marks("workspace", "", "team-a"), want: true},
		"provisioning": {why: "it was made of a management Cluster", mode: Auto, of: marks("provisioning-cluster-create", "", "c-12345"), want: true},
		"by mode":      {why: "a user has said that Rancher does not come back", mode: Standalone, of: marks("fleet-cluster", "fleet-default", "c1")},
		"unmarked":     {why: "no other controller keeps it", mode: Auto},
		"bootstrap":    {why: "that is a manager of Fleet's, not Rancher", mode: Auto, of: marks("fleet-bootstrap", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsRancherManaged(c.mode, c.of); got != c.want {
				t.Errorf("%s: got %t", c.why, got)
			}
		})
	}
}

func TestRancherMapped(t *testing.T) {
	for want, of := range map[string]map[string]string{
		"fleet-default/c1": marks("fleet-cluster", "fleet-default", "c1"),
		"":                 marks("workspace", "", "team-a"),
	} {
		if got := RancherMapped(of); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := RancherMapped(nil); got != "" {
		t.Errorf("got %q of no marks", got)
	}
}
