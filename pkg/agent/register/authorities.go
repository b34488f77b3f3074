package register

import (
	"context"
	"net/http"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// modeStrict trusts the configured authority and no other.
const modeStrict = "strict"

// authorities is the authority that the manager's certificate is checked
// against. In mode system-store a manager that the system's own authorities
// vouch for needs no other, so that its certificate may change; else, and in
// mode strict, it is the configured one.
func authorities(ctx context.Context, mode string, b registration.Bootstrapping) []byte {
	if mode == modeStrict || len(b.APIServerCA) == 0 {
		return b.APIServerCA
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.APIServerURL, nil)
	if err != nil {
		return b.APIServerCA
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return b.APIServerCA
	}
	answer.Body.Close()
	return nil
}
