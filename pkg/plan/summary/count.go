package summary

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// maxDetails is how many changed, and how many unready, objects of one
// deployment stand in a message.
const maxDetails = 4

// Words for what a list of deployments is listed by, as they stand in
// messages.
const (
	ByCluster = "Cluster"
	ByBundle  = "Bundle"
)

// Name returns what a deployment is called in a list by cluster or by bundle.
func Name(word string, d *Deployment) string {
	if word == ByCluster {
		return d.Cluster
	}
	return d.Bundle
}

// Count adds up deployments, in the order in which they are given. At most 10 that are not
// ready are listed; each state that occurs keeps at least its first. Each entry is bounded,
// see NonReadyResource.
func Count(word string, list []*Deployment) fleet.BundleSummary { return countInOrder(word, list, nil) }

// countInOrder is Count in an order that need not be that of the list.
func countInOrder(word string, list []*Deployment, before deploymentOrder) fleet.BundleSummary {
	s, c := countStates(list, before)
	s.NonReadyResources = c.resources(word)
	return s
}

// countStates counts deployments and chooses which are listed, in an order that need
// not be that of the list.
func countStates(list []*Deployment, before deploymentOrder) (fleet.BundleSummary, *listedDeployments) {
	s := fleet.BundleSummary{DesiredReady: len(list)}
	c := &listedDeployments{before: before}
	for _, d := range list {
		*counter(&s, d.State)++
		if d.State != fleet.Ready {
			c.consider(d)
		}
	}
	return s, c
}

// counter is the field of a summary that counts a state.
func counter(s *fleet.BundleSummary, state fleet.BundleState) *int {
	switch state {
	case fleet.Ready:
		return &s.Ready
	case fleet.NotReady:
		return &s.NotReady
	case fleet.WaitApplied:
		return &s.WaitApplied
	case fleet.ErrApplied:
		return &s.ErrApplied
	case fleet.OutOfSync:
		return &s.OutOfSync
	case fleet.Modified:
		return &s.Modified
	}
	return &s.Pending
}

// Add adds the counters of one summary to another and appends to its list up
// to 10 entries.
func Add(to *fleet.BundleSummary, s fleet.BundleSummary) {
	to.DesiredReady += s.DesiredReady
	for _, state := range fleet.States {
		*counter(to, state) += *counter(&s, state)
	}
	room := max(0, fleet.StatusListLimit-len(to.NonReadyResources))
	list := s.NonReadyResources
	to.NonReadyResources = append(to.NonReadyResources, list[:min(room, len(list))]...)
}

// AddCounts adds counts of objects to others.
func AddCounts(to *fleet.ResourceCounts, c fleet.ResourceCounts) {
	to.Ready += c.Ready
	to.DesiredReady += c.DesiredReady
	to.WaitApplied += c.WaitApplied
	to.Modified += c.Modified
	to.Orphaned += c.Orphaned
	to.Missing += c.Missing
	to.Unknown += c.Unknown
	to.NotReady += c.NotReady
}

// WorstState returns the worst state in a summary; Ready if there is nothing worse.
func WorstState(s *fleet.BundleSummary) fleet.BundleState {
	for _, state := range fleet.States {
		if *counter(s, state) > 0 {
			return state
		}
	}
	return fleet.Ready
}

// DisplayState returns the worst state as it stands in display fields: empty where
// everything is ready.
func DisplayState(s *fleet.BundleSummary) string {
	if worst := WorstState(s); worst != fleet.Ready {
		return string(worst)
	}
	return ""
}

// ReadyMessage returns the message of the Ready condition: one entry for each state that
// occurs, with its first deployment and that one's objects. It is empty where everything is
// ready.
func ReadyMessage(word string, s *fleet.BundleSummary) string {
	var texts []string
	for _, state := range fleet.States {
		n := *counter(s, state)
		if state == fleet.Ready || n <= 0 {
			continue
		}
		i := slices.IndexFunc(s.NonReadyResources, func(r fleet.NonReadyResource) bool { return r.State == state })
		if i < 0 {
			texts = append(texts, fmt.Sprintf("%s(%d)", state, n))
			continue
		}
		texts = append(texts, entryText(word, state, n, &s.NonReadyResources[i])...)
	}
	sort.Strings(texts)
	return strings.Join(texts, "; ")
}

// bare is an object in a text of the API, with an error and without the first bracket.
var bare = regexp.MustCompile(`(^|; )([a-z0-9.-]+ [^ ;]+ )error\]`)

// Readable returns a text of the API for people: with the bracket that the API leaves out
// before an error.
func Readable(text string) string { return bare.ReplaceAllString(text, "${1}${2}[error]") }

func entryText(word string, state fleet.BundleState, n int, r *fleet.NonReadyResource) []string {
	first := fmt.Sprintf("%s(%d) [%s %s]", state, n, word, r.Name)
	if r.Message != "" {
		first = fmt.Sprintf("%s(%d) [%s %s: %s]", state, n, word, r.Name, r.Message)
	}
	texts := []string{first}
	for _, m := range r.ModifiedStatus[:min(maxDetails, len(r.ModifiedStatus))] {
		texts = append(texts, m.String())
	}
	for _, m := range r.NonReadyStatus[:min(maxDetails, len(r.NonReadyStatus))] {
		texts = append(texts, m.String())
	}
	return texts
}

// Ready returns the Ready condition of a summary: True with neither reason nor message, or
// False with the worst state as reason.
func Ready(word string, s *fleet.BundleSummary, generation int64) fleet.Condition {
	worst := WorstState(s)
	if worst == fleet.Ready {
		return fleet.Condition{Type: fleet.ConditionReady, Status: corev1.ConditionTrue, ObservedGeneration: generation}
	}
	return NotReady(string(worst), ReadyMessage(word, s), generation)
}

// NotReady returns a Ready condition that is False, for a reason of its own.
func NotReady(reason, message string, generation int64) fleet.Condition {
	return fleet.Condition{
		Type: fleet.ConditionReady, Status: corev1.ConditionFalse, ObservedGeneration: generation,
		Reason: reason, Message: condition.Message(message),
	}
}

// ratioText is "ready/desired".
func ratioText(ready, desired int) string { return fmt.Sprintf("%d/%d", ready, desired) }
