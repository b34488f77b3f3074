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

// restores report that the manager was restored from a backup, or into another cluster,
// and keep what shows that.
type restores struct {
	log     *logrus.Entry
	contact *contact
	events  *events
}

// report says that the manager's list of deployments is older than one that
// was seen before.
func (r *restores) report() {
	text := "the manager has become older than it was, as after a restore from a backup: what it orders to remove is held for " +
		release.BehindLimit.String() + ", and nothing is removed because it is missing"
	r.log.WithFields(logrus.Fields{"reason": release.ReasonManagerBehind}).Warn(text)
	r.events.record(kube.Warning, release.ReasonManagerBehind, text)
	if err := r.contact.restored(); err != nil {
		r.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
}

// keepVersion notes how new the manager's objects were when something was removed.
func (r *restores) keepVersion(text string) {
	if err := r.contact.keepVersion(text); err != nil {
		r.log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
}

// reportCopy reports that the manager's objects have turned up in another cluster,
// when the agent first sees that.
func (r *restores) reportCopy(m registration.Mark) {
	was, known := r.contact.manager()
	if !known || was.ID != m.ID || was.Epoch >= m.Epoch {
		return
	}
	text := "the manager was restored into another cluster (" + m.String() + ", before " + was.String() + "): what it asks for first, if that is not what it asked for before, is held for " +
		release.BehindLimit.String() + ", and nothing is removed because it is missing"
	r.log.WithFields(logrus.Fields{"reason": release.ReasonManagerBehind}).Warn(text)
	r.events.record(kube.Warning, release.ReasonManagerBehind, text)
}

// restored reports whether the Cluster has become older since the last check-in. The
// session is begun again then, and its first list is judged by the deploy loop.
func (s *session) restored(version string) bool {
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

// restored notes when the manager was found to be older than it was.
func (c *contact) restored() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := maps.Clone(c.data)
	want[keyRestored] = c.stamp()
	return c.keep(want)
}

// versionPace is how often the version of the manager's objects is written at most.
const versionPace = 10 * time.Second

// keepVersion notes the version of the manager's objects.
func (c *contact) keepVersion(text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.versioned) >= versionPace {
		c.versioned = now
		want := maps.Clone(c.data)
		want[keyVersion] = text
		return c.keep(want)
	}
	return nil
}

// version is what keepVersion has noted last.
func (c *contact) version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data[keyVersion]
}

// isRefused reports whether the manager answered the last check-in by refusing the
// credential.
func (c *contact) isRefused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current && c.data[keyReached] == "false" && c.data[keyRefused] == "true"
}

// isReached reports whether the manager answered the last check-in.
func (c *contact) isReached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current && c.data[keyReached] == "true"
}

// word reads what a person has said about orphans, and when the manager was
// restored.
func (c *contact) word(ctx context.Context) (word, restored string, err error) {
	cm, err := c.maps.Get(ctx, kube.KeyOf(c.object()))
	if err != nil && !kube.IsGone(err) {
		return "", "", err
	}
	if err == nil {
		word = cm.Annotations[annotationCollect]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return word, c.data[keyRestored], nil
}

// markOf returns the mark of the manager at a URL: the present one, or the former one
// if the Cluster has lost the mark. Only a manager that never gave a mark is taken as
// one that gives no orders.
func (c *contact) markOf(url string, m registration.Mark) registration.Mark {
	if m.ID != "" {
		return m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, err := registration.ParseMark(c.data[keyManager]); err == nil && c.data[keyURL] == url {
		return before
	}
	return m
}
