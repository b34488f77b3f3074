package agent

import (
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// What a person has confirmed counts for this manager, in this epoch, since this
// restore, and for nothing that comes later.
func TestConfirmation(t *testing.T) {
	mark := registration.Mark{ID: "m", Epoch: 1}
	said := confirmation(mark, "2026-08-24T14:00:00Z")
	for name, other := range map[string]string{
		"NextRestore":    confirmation(mark, "2026-08-25T14:00:00Z"),
		"NeverRestored":  confirmation(mark, ""),
		"NextEpoch":      confirmation(registration.Mark{ID: "m", Epoch: 2}, "2026-08-24T14:00:00Z"),
		"AnotherManager": confirmation(registration.Mark{ID: "n", Epoch: 1}, "2026-08-24T14:00:00Z"),
	} {
		if other == said {
			t.Errorf("%s: %q counts as well", name, said)
		}
	}
}
