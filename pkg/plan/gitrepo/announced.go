package gitrepo

import (
	"fmt"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Times of webhooks.
const (
	// AnnouncedInterval is how often a repository is asked that does not show an announced
	// commit yet.
	AnnouncedInterval = 2 * time.Second
	// announcedFor is for how long after the webhook.
	announcedFor = 30 * time.Second
	// announcedPolling is how often a repository without a pollingInterval is asked while
	// webhooks announce its commits.
	announcedPolling = time.Hour
)

// Announcement returns what identifies the last webhook of a GitRepo; empty if there was
// none. A head that was asked for with it is newer than the webhook.
func Announcement(s fleet.GitRepoStatus) string {
	if s.WebhookCommit == "" {
		return ""
	}
	return s.WebhookCommit + " " + s.LastWebhookTime.UTC().Format(time.RFC3339)
}

// isUnseen reports whether the manager has not found the commit that a webhook announced.
func isUnseen(s fleet.GitRepoStatus) bool {
	return s.WebhookCommit != "" && s.WebhookCommit != s.Commit && s.WebhookCommit != s.PollingCommit
}

// AwaitedCommit returns the commit that a webhook announced, and for how long the manager
// goes on asking for it; nothing if the commit was found, or the time is over.
func AwaitedCommit(s fleet.GitRepoStatus, now time.Time) (commit string, left time.Duration) {
	left = s.LastWebhookTime.Add(announcedFor).Sub(now)
	if !isUnseen(s) || left <= 0 {
		return "", 0
	}
	return s.WebhookCommit, min(left, announcedFor)
}

// giveUp returns the value of webhookCommit: that of commit if the announced one was not
// found in time, while the head stayed what it was. A head that has moved since may have
// left the announced commit behind; then webhookCommit stays, so that the same webhook has
// no effect again.
func giveUp(s fleet.GitRepoStatus, f Facts, now time.Time) string {
	_, left := AwaitedCommit(s, now)
	asked := f.Head != nil && f.Head.Err == nil && f.Head.Announcement == Announcement(s)
	if !isUnseen(s) || left > 0 || !asked || !s.LastPollingTime.Before(&s.LastWebhookTime) {
		return s.WebhookCommit
	}
	return s.Commit
}

// notVisible returns the notice of a webhook whose commit was given up.
func notVisible(old, changed fleet.GitRepoStatus) []Notice {
	if old.WebhookCommit == changed.WebhookCommit || changed.WebhookCommit != changed.Commit || old.Commit != changed.Commit {
		return nil
	}
	return []Notice{{Warning: true, Reason: fleet.EventWebhookCommitNotVisible, Message: fmt.Sprintf(
		"the repository does not show commit %.7s %s after a webhook announced it", old.WebhookCommit, announcedFor)}}
}

// Interval returns how often a repository is asked whose head is this commit, which is
// empty if it is not known: 15s where nothing is set, never less than a second, and 0 where
// polling is disabled. If nothing is set and webhooks are verified, it is an hour as long
// as a webhook has announced the head: the next commit is announced too. A head that only
// polling has found ends that.
func Interval(repo *fleet.GitRepo, head string, verified bool) time.Duration {
	spec := repo.Spec
	switch {
	case spec.DisablePolling:
		return 0
	case spec.PollingInterval != nil && spec.PollingInterval.Duration > 0:
		return max(spec.PollingInterval.Duration, MinInterval)
	case verified && head != "" && head == repo.Status.WebhookCommit:
		return announcedPolling
	}
	return fleet.DefaultPollingInterval
}
