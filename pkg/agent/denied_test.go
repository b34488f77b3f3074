package agent

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// An answer to a check-in says whether the credential is refused, and whether the agent
// may act although nothing was said of its Cluster. A denial by admission says neither.
func TestFailedCheckIn(t *testing.T) {
	clusters := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusters"}
	cases := map[string]struct {
		why            string
		err            error
		reason         string
		refused, alone bool
	}{
		"Refused":   {"the credential was revoked", apierrors.NewUnauthorized("Unauthorized"), reasonCredential, true, true},
		"NoRights":  {"its rights were taken away", apierrors.NewForbidden(clusters, "c", errors.New("no")), reasonRights, true, true},
		"Removed":   {"the Cluster was deleted", kube.ErrGone, reasonUnknown, false, true},
		"Denied401": {"Rancher's webhook", apierrors.NewUnauthorized(kubetest.DeniedText), reasonDenied, false, false},
		"Denied403": {"a policy", apierrors.NewForbidden(clusters, "c", errors.New("ValidatingAdmissionPolicy 'p' denied request: no")), reasonDenied, false, false},
		"Away":      {"no connection", errors.New("connection refused"), reasonAway, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("check in: %w", c.err)
			if got := troubleOf(err, "ns"); got.reason != c.reason || got.refused() != c.refused || got.hint == "" {
				t.Errorf("%s: got %+v", c.why, got)
			}
			s := &session{sessions: &sessions{identity: &identityCheck{}}, identityChecked: newSignal()}
			s.onFailedCheckIn(err)
			if got := s.isAlone(); got != c.alone {
				t.Errorf("%s: it may act: %t", c.why, got)
			}
		})
	}
}

// A credential that has ended, and that admission does not let the agent renew, is told
// as a denial in the words of the webhook; the agent need not register again.
func TestRenewalDenied(t *testing.T) {
	s := &session{sessions: &sessions{base: &base{}}}
	refused := apierrors.NewUnauthorized("Unauthorized")
	for name, c := range map[string]struct {
		renewal, cause error
		reason         string
	}{
		"Denied": {apierrors.NewUnauthorized(kubetest.DeniedText), apierrors.NewUnauthorized(kubetest.DeniedText), reasonDenied},
		"Away":   {errors.New("connection refused"), refused, reasonCredential},
		"None":   {nil, refused, reasonCredential},
	} {
		t.Run(name, func(t *testing.T) {
			got, cause := s.expiredTrouble(troubleOf(refused, "ns"), refused, c.renewal)
			if got.reason != c.reason || cause.Error() != c.cause.Error() {
				t.Errorf("got %+v, %v", got, cause)
			}
		})
	}
}
