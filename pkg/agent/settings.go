package agent

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonCheckIn is the reason of the event about an invalid order how to stay
// connected.
const reasonCheckIn = "CheckInRefused"

// settings are those that the agent reads from its ConfigMap while it runs.
type settings struct {
	*base
	mode   *connectionMode
	before atomic.Pointer[string] // namespace of the agent that this one takes over from
}

// load reads the agent's ConfigMap.
func (s *settings) load(ctx context.Context) error {
	cm, err := kube.StoreOf[*corev1.ConfigMap](s.down).Get(ctx, kube.Key{Namespace: s.cfg.Namespace, Name: fleet.ConfigMapAgent})
	if err != nil && !kube.IsGone(err) {
		return err
	}
	if err == nil {
		s.apply(cm)
	}
	return nil
}

// watch returns a cache of the agent's ConfigMap, in which the manager or a user sets
// how the agent connects. Deleting the ConfigMap changes nothing.
func (s *settings) watch() *kube.Cache[*corev1.ConfigMap] {
	c := kube.NewCache[*corev1.ConfigMap](s.down.Loop("settings"), kube.Watch{
		Namespace: s.cfg.Namespace, Fields: "metadata.name=" + fleet.ConfigMapAgent,
	}, nil)
	c.OnError(func(error) {}) // the cache tries again
	c.OnChange(func(_, cm *corev1.ConfigMap) {
		if cm != nil {
			s.apply(cm)
		}
	})
	return c
}

// apply applies the content of the agent's ConfigMap. Invalid content changes nothing.
func (s *settings) apply(cm *corev1.ConfigMap) {
	s.setPredecessor(cm)
	c, err := heartbeat.Decode(cm.Data[heartbeat.KeyCheckIn])
	changed := false
	if err == nil {
		changed, err = s.mode.setSchedule(c, time.Now())
	}
	switch {
	case err != nil:
		text := "spec.checkIn of the Cluster is not carried out: " + err.Error() + "; the agent " + s.mode.String()
		s.log.WithField("reason", reasonCheckIn).Warn(text)
		s.events.record(kube.Warning, reasonCheckIn, text)
	case changed:
		s.log.WithField("reason", "key "+heartbeat.KeyCheckIn+" of the ConfigMap "+fleet.ConfigMapAgent).Info("the agent now " + s.mode.String())
	}
}

// setPredecessor reads from the agent's ConfigMap which agent this one replaces. It
// ignores the agent's own namespace.
func (s *settings) setPredecessor(cm *corev1.ConfigMap) {
	from := cm.Data[registration.KeyAdoptFrom]
	if from == s.cfg.Namespace {
		from = ""
	}
	if old := s.before.Swap(&from); from != "" && (old == nil || *old != from) {
		s.log.WithField("reason", "key "+registration.KeyAdoptFrom+" of the ConfigMap "+cm.Name).
			Infof("takes over what the agent in namespace %s has deployed, once that agent is gone", from)
	}
}

// predecessor returns the namespace of the agent that this one replaces; empty if there
// is none.
func (s *settings) predecessor() string {
	if p := s.before.Load(); p != nil {
		return *p
	}
	return ""
}
