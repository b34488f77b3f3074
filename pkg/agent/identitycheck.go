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

// An identityCheck decides whether the agent may act for the Cluster of its credential:
// the credential may be a copy from another cluster.
type identityCheck struct {
	instance string // of this process, for the manager

	mu     sync.Mutex
	judge  registration.IdentityCheck
	claim  bool // the next check-in contains the UID of the cluster
	joined bool // the agent has registered, and no check-in has reported that yet
	warned bool
}

// claimsCluster reports whether check-ins contain the UID of the agent's cluster.
func (i *identityCheck) claimsCluster() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.claim
}

// hasJoined records that the agent has registered itself: its credential is no copy.
func (i *identityCheck) hasJoined() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.joined = true
}

// onAnswer handles an answer of the manager. act: the agent may act for the Cluster.
// claim: the agent must check in again at once, with the UID of its cluster. warn: the
// agent has just found out that its credential belongs to another cluster.
func (i *identityCheck) onAnswer(ans checkin.Answer, now time.Time) (act, claim, warn bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.claim
	act, i.claim = i.judge.Observe(registration.IdentityAnswer{
		Known: ans.ClusterUID, Rival: ans.Rival, Joined: i.joined, Interval: ans.Interval,
	}, now)
	if act && !i.claim {
		i.joined = false
	}
	warn, i.warned = !act && !i.warned, !act
	return act, i.claim && !before, warn
}

// hasFoundOther reports whether the credential belongs to another cluster.
func (i *identityCheck) hasFoundOther() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.warned
}

// onFailedCheckIn handles a failed check-in. If the manager answers that the Cluster
// does not exist, or that the agent has no right, there is no UID to compare with, and
// the agent goes on. If the manager does not answer, or admission denies the check-in,
// the agent waits: the Cluster exists, and may be another cluster's.
func (s *session) onFailedCheckIn(err error) {
	if !kube.IsDenied(err) && (kube.IsGone(err) || kube.IsForbidden(err) || kube.IsUnauthorized(err)) && !s.identity.hasFoundOther() {
		s.identityChecked.set()
	}
}

// clusterUID returns the UID of the namespace kube-system of the agent's cluster; empty
// if the agent may not read the namespace.
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

// mayAct reports whether the agent may act for its Cluster, by an answer of the
// manager. If it may, the deploy controller gets the session; if not, mayAct reports
// that.
func (s *session) mayAct(ans checkin.Answer) bool {
	act, claim, warn := s.identity.onAnswer(ans, time.Now())
	if claim {
		s.soon()
	}
	if act {
		s.identityChecked.set()
	}
	if warn {
		text := "the credential of this agent is that of Cluster " + s.cred.Cluster.String() + ", which works in another cluster: was the Secret copied, or the cluster built anew? " +
			"Nothing of that Cluster is deployed here until nothing was seen of the other agent for five minutes; to have a Cluster of its own, " + joinHint(s.cfg.Namespace) + " and clientID"
		s.log.WithFields(logrus.Fields{"cluster": s.cred.Cluster.String(), "reason": reasonOtherCluster}).Warn(text)
		s.events.record(kube.Warning, reasonOtherCluster, text)
	}
	return act
}
