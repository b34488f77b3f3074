package explain

import (
	"fmt"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Headline returns the whole answer in one line.
func (e *Explanation) Headline(now time.Time) string {
	b, c, since := e.Bundle.Name, e.Cluster.Name, e.sinceText(now)
	switch e.StoppedAt {
	case "":
		return e.readyHeadline(now)
	case Source:
		from := "its repository"
		if e.repo != "" {
			from = "repo " + e.repo
		}
		switch {
		case e.State == fleet.Ready && e.stopVerdict() == Wait:
			return fmt.Sprintf("%s is Ready on %s, and waits for %s%s: %s", b, c, from, since, e.Message)
		case e.State == fleet.Ready:
			return fmt.Sprintf("%s is Ready on %s, but gets nothing new from %s%s: %s", b, c, from, since, e.Message)
		case e.stopVerdict() == Wait:
			return fmt.Sprintf("%s on %s waits for %s%s: %s", b, c, from, since, e.Message)
		}
		return fmt.Sprintf("%s on %s gets nothing new from %s%s: %s", b, c, from, since, e.Message)
	case Bundle:
		if e.Reason == ReasonLeaving {
			return fmt.Sprintf("%s leaves %s%s: %s", b, c, since, e.Message)
		}
		if e.State == fleet.Ready {
			return fmt.Sprintf("%s on %s stays at what it was%s: %s", b, c, since, e.Message)
		}
		return fmt.Sprintf("%s cannot be rolled out%s: %s", b, since, e.Message)
	case Target:
		return e.noDeploymentHeadline(since)
	case Policy, Pause:
		return fmt.Sprintf("%s is held back on %s%s: %s", b, c, since, e.Message)
	case Rollout:
		return e.queued(since)
	case Delivered:
		return e.undelivered(now)
	case Depends, Applied:
		if e.stopVerdict() == Wait {
			return fmt.Sprintf("%s waits on %s%s: %s", b, c, since, e.Message)
		}
		return fmt.Sprintf("%s fails on %s%s: %s", b, c, since, e.Message)
	}
	if e.State == fleet.Modified {
		return fmt.Sprintf("%s is Modified on %s%s: %s", b, c, since, e.Message)
	}
	return fmt.Sprintf("%s is NotReady on %s%s: %s", b, c, since, e.Message)
}

// stopVerdict is that of the link that stops.
func (e *Explanation) stopVerdict() Verdict {
	if e.StoppedAt == "" {
		return OK
	}
	return e.Link(e.StoppedAt).Verdict
}

func (e *Explanation) sinceText(now time.Time) string {
	if e.Since == nil || now.Sub(*e.Since) < time.Second {
		return ""
	}
	return " since " + view.Ago(*e.Since, now)
}

// readyHeadline is the headline where nothing stops.
func (e *Explanation) readyHeadline(now time.Time) string {
	if e.State != fleet.Ready {
		return fmt.Sprintf("whether %s is Ready on %s is not known: it is not yours to see", e.Bundle.Name, e.Cluster.Name)
	}
	text := fmt.Sprintf("%s is Ready on %s: %s", e.Bundle.Name, e.Cluster.Name, e.content)
	if e.commit != "" {
		text += ", commit " + e.commit
	}
	if e.offline {
		return fmt.Sprintf("%s, as of %s (%s is Offline)", text, view.Clock(e.lastSeen, now), e.Cluster.Name)
	}
	if e.Since != nil {
		text += ", for " + view.Ago(*e.Since, now)
	}
	return text
}

// noDeploymentHeadline is the headline where the Bundle is not meant for the cluster, or
// cannot be worked out for it.
func (e *Explanation) noDeploymentHeadline(since string) string {
	b, c := e.Bundle.Name, e.Cluster.Name
	switch e.Reason {
	case ReasonNotTargeted, ReasonDoNotDeploy:
		return fmt.Sprintf("%s is not meant for %s: %s", b, c, e.Message)
	case ReasonLeaving:
		return fmt.Sprintf("%s does not go to %s any more: %s", b, c, e.Message)
	}
	return fmt.Sprintf("%s cannot be worked out for %s%s: %s", b, c, since, e.Message)
}

// queued is the headline where the rollout holds it back.
func (e *Explanation) queued(since string) string {
	b, c := e.Bundle.Name, e.Cluster.Name
	switch {
	case e.Reason == ReasonNoPartition && e.State == fleet.Pending:
		return fmt.Sprintf("%s never gets to %s: %s", b, c, e.Message)
	case e.Reason == ReasonNoPartition:
		return fmt.Sprintf("%s on %s stays at what it was: %s", b, c, e.Message)
	case strings.HasPrefix(e.Message, "waits "):
		return fmt.Sprintf("%s on %s %s%s", b, c, e.Message, since)
	}
	return fmt.Sprintf("%s is held back on %s%s: %s", b, c, since, e.Message)
}

// undelivered is the headline where the agent does not have it.
func (e *Explanation) undelivered(now time.Time) string {
	b, c := e.Bundle.Name, e.Cluster.Name
	if e.Reason == fleet.ReasonOffline && e.offline {
		how := b + " on " + c + " is behind"
		if release, _ := e.Link(Healthy).Evidence["release"].(string); release == "" {
			how = b + " is not on " + c + " yet"
		}
		if e.lastSeen.IsZero() {
			return fmt.Sprintf("%s: %s is Offline", how, c)
		}
		return fmt.Sprintf("%s: %s is Offline, last seen %s (%s ago)", how, c, view.Clock(e.lastSeen, now), view.Ago(e.lastSeen, now))
	}
	if e.stopVerdict() == Stop {
		return fmt.Sprintf("%s cannot get to %s%s: %s", b, c, e.sinceText(now), e.Message)
	}
	return fmt.Sprintf("%s waits on %s%s: %s", b, c, e.sinceText(now), e.Message)
}

// anonymous is the answer without names of bundle and cluster and without times, so
// that clusters with the same answer have the same text.
func (e *Explanation) anonymous() string {
	switch e.StoppedAt {
	case "":
		if e.State == "" {
			return "not yours to see"
		}
		if e.offline {
			return string(e.State) + " when it was last seen: Offline"
		}
		if e.Paused != "" {
			return string(e.State) + "; " + e.Paused
		}
		return string(e.State)
	case Target:
		switch e.Reason {
		case ReasonNotTargeted, ReasonDoNotDeploy:
			if e.State != "" {
				return "not meant for it any more: being withdrawn"
			}
			return "not meant for it"
		case ReasonLeaving:
			return e.Message
		}
		return "cannot be worked out: " + e.Message
	case Policy, Pause:
		return "held back: " + e.Message
	case Rollout:
		return e.Message
	case Delivered:
		if e.Reason == fleet.ReasonOffline && e.offline {
			return "deferred: Offline"
		}
		if e.stopVerdict() == Stop {
			return "cannot be delivered: " + e.Message
		}
		return "waits: " + e.Message
	case Healthy:
		return fmt.Sprintf("%s: %s", e.State, e.Message)
	}
	if e.stopVerdict() == Wait {
		return "waits: " + e.Message
	}
	return "fails: " + e.Message
}
