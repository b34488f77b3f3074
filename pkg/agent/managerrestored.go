package agent

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// errRestored ends a session because the manager's API server was restored from a
// backup: a watch that resumes where it was would not show that.
var errRestored = errors.New("the manager was restored from a backup")

// restores reports that the manager was restored from a backup or copied to another
// cluster, and stores what proves it.
type restores struct {
	log     *logrus.Entry
	contact *managerState
	events  *events
}

// reportRestore reports that the manager was restored from a backup: its list of
// deployments is older than one that the agent has seen.
func (r *restores) reportRestore() {
	text := "the manager has become older than it was, as after a restore from a backup: what it orders to remove is held for " +
		release.BehindLimit.String() + ", and nothing is removed because it is missing"
	r.log.WithFields(logrus.Fields{"reason": release.ReasonManagerBehind}).Warn(text)
	r.events.record(kube.Warning, release.ReasonManagerBehind, text)
	logNotStored(r.log, r.contact.setRestored())
}

// keepVersion stores the manager's highest resourceVersion when a record was removed.
func (r *restores) keepVersion(text string) {
	logNotStored(r.log, r.contact.keepVersion(text))
}

// reportCopy reports once that the manager's objects were copied to another cluster.
func (r *restores) reportCopy(m registration.Mark) {
	was, known := r.contact.lastManager()
	if !known || was.ID != m.ID || was.Epoch >= m.Epoch {
		return
	}
	text := "the manager was restored into another cluster (" + m.String() + ", before " + was.String() + "): what it asks for first, if that is not what it asked for before, is held for " +
		release.BehindLimit.String() + ", and nothing is removed because it is missing"
	r.log.WithFields(logrus.Fields{"reason": release.ReasonManagerBehind}).Warn(text)
	r.events.record(kube.Warning, release.ReasonManagerBehind, text)
}

// isManagerRestored reports whether the resourceVersion of the Cluster is lower than at
// the last check-in. It then restarts the session, and the deploy controller compares
// the new list.
func (s *session) isManagerRestored(version string) bool {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return false
	}
	older := n < s.version
	s.version = n
	if older {
		s.relist()
	}
	return older
}

// setRestored records that the manager was restored from a backup.
func (ms *managerState) setRestored() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	want := maps.Clone(ms.data)
	want[keyRestored] = ms.timestamp()
	return ms.writeConfigMap(want)
}

// versionPace is how often the version of the manager's objects is written at most.
const versionPace = 10 * time.Second

// keepVersion records the highest resourceVersion of the manager, at most once per
// versionPace.
func (ms *managerState) keepVersion(text string) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if now := ms.now(); now.Sub(ms.versioned) >= versionPace {
		ms.versioned = now
		want := maps.Clone(ms.data)
		want[keyVersion] = text
		return ms.writeConfigMap(want)
	}
	return nil
}

// managerVersion returns what keepVersion recorded last.
func (ms *managerState) managerVersion() string {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.data[keyVersion]
}

// isRefused reports whether the manager answered the last check-in by refusing the
// credential.
func (ms *managerState) isRefused() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.current && ms.data[keyReached] == "false" && ms.data[keyRefused] == "true"
}

// isReached reports whether the manager answered the last check-in.
func (ms *managerState) isReached() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.current && ms.data[keyReached] == "true"
}

// orphanApproval reads which removal of orphans a user has approved, and when the
// manager was restored.
func (ms *managerState) orphanApproval(ctx context.Context) (orphanApproval, restored string, err error) {
	cm, err := ms.maps.Get(ctx, kube.KeyOf(ms.object()))
	if err != nil && !kube.IsGone(err) {
		return "", "", err
	}
	if err == nil {
		orphanApproval = cm.Annotations[annotationCollect]
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return orphanApproval, ms.data[keyRestored], nil
}

// markOf returns the mark of the manager at a URL: mark m of its last answer, or the
// former mark if the Cluster has lost it. Only a manager that never had a mark counts
// as one that gives no orders.
func (ms *managerState) markOf(url string, m registration.Mark) registration.Mark {
	if m.ID != "" {
		return m
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if before, err := registration.ParseMark(ms.data[keyManager]); err == nil && ms.data[keyURL] == url {
		return before
	}
	return m
}
