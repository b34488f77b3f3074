package agent

import (
	"context"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// renewalLimit limits what is done about a credential between two check-ins.
const renewalLimit = 40 * time.Second

// observeOffer accepts the credential that the manager offers, or renews the present
// one. The other work continues meanwhile.
func (s *session) observeOffer(ans checkin.Answer) {
	ctx, cancel := context.WithTimeout(context.Background(), renewalLimit)
	defer cancel()
	if s.rotator.Observe(ctx, ans.Credential, s.mode.next(s.cred.Cluster.String(), time.Now())) {
		s.soon() // the manager waits for it
	}
}

// recovered fetches another token where the present one has ended. The next
// attempt to check in shows it. The error says why there is none.
func (s *session) recovered() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), renewalLimit)
	defer cancel()
	done, err := s.rotator.Recover(ctx)
	if err != nil {
		s.log.WithField("error", err.Error()).Warn("credential not renewed")
	}
	return done, err
}

// ended is the trouble of a credential that is refused, and its cause: another one
// where it has ended and the manager no longer renews it, or admission denies that.
// renewal is why there is no other credential.
func (s *session) ended(t trouble, err, renewal error) (trouble, error) {
	switch {
	case kube.IsDenied(renewal):
		return troubleOf(renewal, s.cfg.Namespace), renewal
	case !s.rotator.Ended():
		return t, err
	}
	return trouble{
		reasonEnded, "refuses the credential, which has ended, and gives no other one: this agent was away for longer than credentialGrace there, or its rights were revoked",
		joinHint(s.cfg.Namespace),
	}, err
}
