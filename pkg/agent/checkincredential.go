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
// one, in the background.
func (s *session) observeOffer(ans checkin.Answer) {
	ctx, cancel := context.WithTimeout(context.Background(), renewalLimit)
	defer cancel()
	if s.rotator.Observe(ctx, ans.Credential, s.mode.next(s.cred.Cluster.String(), time.Now())) {
		s.soon() // the manager waits for this check-in
	}
}

// recoverCredential fetches another token if the present one has expired; the next
// check-in uses it. The error is why there is none.
func (s *session) recoverCredential() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), renewalLimit)
	defer cancel()
	done, err := s.rotator.Recover(ctx)
	if err != nil {
		s.log.WithField("error", err.Error()).Warn("credential not renewed")
	}
	return done, err
}

// expiredTrouble returns the trouble of a refused credential, and its cause. If the
// credential has expired, the trouble is that the manager does not renew it, or that
// admission denies the renewal. renewal is the error of the renewal.
func (s *session) expiredTrouble(t trouble, err, renewal error) (trouble, error) {
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
