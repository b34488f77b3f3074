package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A condition of a GitRepo has room for the first thing that is wrong in a commit, and
// says how many more there are. The manager emits an event for each of them.

// ReportedFindings are the events about GitRepos that report findings in a commit.
type ReportedFindings map[view.Key][]*corev1.Event

// Findings reads the findings that were reported of the GitRepos in a namespace; empty:
// in all. It returns nothing where the user may not read events.
func (s *Session) Findings(ctx context.Context, namespace string) ReportedFindings {
	items, _, err := s.Listed(ctx, Subject{Namespace: namespace, Kind: cli.MustKind("repos").Kind}.Query())
	if err != nil {
		return nil
	}
	events, err := AllAs[corev1.Event](items)
	if err != nil {
		return nil
	}
	reported := ReportedFindings{}
	for _, e := range events {
		key := view.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}
		reported[key] = append(reported[key], e)
	}
	return reported
}

// ForRepo are the findings about files of the commit that a GitRepo shows, each once and
// sorted. The API server drops events after a time, so that some may be missing.
func (rf ReportedFindings) ForRepo(r *fleet.GitRepo) []string {
	events := rf[view.Key{Namespace: r.Namespace, Name: r.Name}]
	var since time.Time // when the commit was new
	for _, e := range events {
		if e.Reason == fleet.EventGotNewCommit && e.Message == "commit "+r.Status.Commit && EventTime(e).After(since) {
			since = EventTime(e)
		}
	}
	var out []string
	for _, e := range events {
		_, others := view.SplitOthers(e.Message)
		if e.Type == corev1.EventTypeWarning && others == 0 && !EventTime(e).Before(since) && explain.PathOf(e.Message) != "" {
			out = append(out, e.Message)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Unlisted are the findings about files of the commit that a GitRepo shows, where its
// condition has no room for each.
func (s *Session) Unlisted(ctx context.Context, r *fleet.GitRepo) []string {
	if r == nil || !explain.Unlisted(r) {
		return nil
	}
	return s.Findings(ctx, r.Namespace).ForRepo(r)
}

// Full returns a message about files of a GitRepo, followed by all other findings that
// were reported for them. What was not reported remains a number.
func (rf ReportedFindings) Full(r *fleet.GitRepo, message string) string {
	first, more := view.SplitOthers(message)
	begin, _ := strings.CutSuffix(first, "…")
	others := slices.DeleteFunc(rf.ForRepo(r), func(text string) bool { return strings.HasPrefix(text, begin) || strings.Contains(first, text) })
	if len(others) == 0 {
		return message
	}
	text := strings.Join(append([]string{first}, others...), "; ")
	if left := more - len(others); left > 0 {
		text += fmt.Sprintf(" (and %d more)", left)
	}
	return text
}
