package agent

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonOtherCluster is the reason of the event about a credential of another
// cluster.
const reasonOtherCluster = "OtherCluster"

// identityCheck is whether the agent may act for the Cluster of its credential.
type identityCheck struct {
	instance string // of this process, for the manager

	mu     sync.Mutex
	judge  registration.IdentityCheck
	claim  bool // it is said with the next check-in
	joined bool // the agent has registered, and not said so yet
	warned bool
}

// claims reports whether check-ins carry the UID of the agent's cluster.
func (s *identityCheck) claims() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim
}

// hasJoined notes that the agent has registered: its credential is no copy.
func (s *identityCheck) hasJoined() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = true
}

// answered handles an answer of the manager. claim is true when the manager must learn
// something that it does not know yet, warn when the agent has just found out that its
// credential is another cluster's.
func (s *identityCheck) answered(ans checkin.Answer, now time.Time) (act, claim, warn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.claim
	act, s.claim = s.judge.Judge(registration.IdentityAnswer{
		Known: ans.ClusterUID, Rival: ans.Rival, Joined: s.joined, Interval: ans.Interval,
	}, now)
	if act && !s.claim {
		s.joined = false
	}
	warn, s.warned = !act && !s.warned, !act
	return act, s.claim && !before, warn
}

// doubts reports whether the agent has found the UID of another cluster.
func (s *identityCheck) doubts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warned
}

// unanswered handles a failed check-in. A manager that answers without the Cluster, for
// example after its deletion, gives nothing to compare with. The agent waits for a
// manager that cannot be reached. It also waits if admission denies the check-in: the
// Cluster exists, and the agent may read its deployments.
func (s *session) unanswered(err error) {
	if !kube.IsDenied(err) && (kube.IsGone(err) || kube.IsForbidden(err) || kube.IsUnauthorized(err)) && !s.identity.doubts() {
		s.alone.set()
	}
}

// clusterUID is the UID of the namespace kube-system of the agent's own cluster;
// empty where the agent may not read it.
func clusterUID(ctx context.Context, down *kube.Client) (string, error) {
	ns, err := kube.StoreOf[*corev1.Namespace](down).Get(ctx, kube.Key{Name: metav1.NamespaceSystem})
	if kube.IsForbidden(err) || kube.IsGone(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(ns.UID), nil
}

// mayAct handles an answer that says whether the agent may act for its Cluster, and
// reports if it may not. If it may, the session is connected with the deploy loop.
func (s *session) mayAct(ans checkin.Answer) bool {
	act, claim, warn := s.identity.answered(ans, time.Now())
	if claim {
		s.soon()
	}
	if act {
		s.alone.set()
	}
	if warn {
		text := "the credential of this agent is that of Cluster " + s.cred.Cluster.String() + ", which works in another cluster: was the Secret copied, or the cluster built anew? " +
			"Nothing of that Cluster is deployed here until nothing was seen of the other agent for five minutes; to have a Cluster of its own, " + joinHint(s.cfg.Namespace) + " and clientID"
		s.log.WithFields(logrus.Fields{"cluster": s.cred.Cluster.String(), "reason": reasonOtherCluster}).Warn(text)
		s.events.record(kube.Warning, reasonOtherCluster, text)
	}
	return act
}
