package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// addStuck adds a row for what of a Bundle waits, in one state, for what does not come by
// itself, and returns what present does without it.
func (ac *attentionCollector) addStuck(b *fleet.Bundle, state fleet.BundleState) (int, []*fleet.NonReadyResource) {
	n, found := ac.countPresent(b, state)
	row := Attention{State: state, Kind: "Bundle", Name: keyOf(b).String(), Reason: string(state)}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionReady); c != nil && c.Status == corev1.ConditionFalse {
		row.Since = utcPointer(changedAt(c))
	}
	var rest []*fleet.NonReadyResource
	var rows []Attention
	at := map[string]int{} // rows by message
	for _, r := range found {
		text := cmp.Or(zeroLimitMessage(b, r.Message), ac.missingObjectMessage(row.Since, r.Message))
		if text == "" {
			rest = append(rest, r)
			continue
		}
		i, known := at[text]
		if !known {
			i = len(rows)
			at[text] = i
			row.Message = text
			rows = append(rows, row)
		}
		rows[i].Clusters.Count++
		rows[i].Clusters.Sample = append(rows[i].Clusters.Sample, r.Name)
		n--
	}
	if len(rows) > 0 && len(rest) == 0 { // those that the summary does not name wait for the same
		rows[len(rows)-1].Clusters.Count += n
		n = 0
	}
	ac.list = append(ac.list, rows...)
	return n, rest
}

// maxErrors is how many rows the errors of one Bundle have.
const maxErrors = 3

// errorRows are copies of a row, one for each error of n clusters of which found, at least
// one, are known; first errors after which the agent does not try again. The last of
// maxErrors rows is for all other errors. Clusters that are not known count to the error
// that most have.
func errorRows(row Attention, n int, found []*fleet.NonReadyResource) []Attention {
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b *fleet.NonReadyResource) int {
		return givenUpFirst(a) - givenUpFirst(b)
	})
	var texts []string // of all errors
	var rows []Attention
	for _, r := range found {
		text := resourceMessage(r)
		at := slices.Index(texts, text)
		if at < 0 {
			at = len(texts)
			texts = append(texts, text)
		}
		at = min(at, maxErrors-1)
		if at == len(rows) {
			row.Message = text
			rows = append(rows, row)
		}
		rows[at].Clusters.Count++
		rows[at].Clusters.Sample = append(rows[at].Clusters.Sample, r.Name)
	}
	if len(texts) > maxErrors {
		last := &rows[maxErrors-1]
		last.Message = fmt.Sprintf("%d other errors, the first: %s", len(texts)-maxErrors+1, last.Message)
	}
	most := 0
	for i := range rows {
		if rows[i].Clusters.Count > rows[most].Clusters.Count {
			most = i
		}
	}
	rows[most].Clusters.Count += n - len(found)
	return rows
}

// givenUpFirst orders errors after which the agent does not try again before others.
func givenUpFirst(r *fleet.NonReadyResource) int {
	if summary.GivenUp(r.Message) {
		return 0
	}
	return 1
}

// missingObjectMessage returns the message of a cluster that waits for a Secret, ConfigMap or namespace
// that a user has to create there. since is when the wait began, nil if unknown. absent is
// empty for every other message, and for a short time after since.
func (ac *attentionCollector) missingObjectMessage(since *time.Time, message string) string {
	if _, found := release.ParseAbsence(message); !found || since != nil && ac.now.Sub(*since) < unreadyGrace {
		return ""
	}
	return message
}

// addDependencyWaits moves those of found that wait to what moves: for a dependency that is not Ready,
// or, since a moment (nil: unknown) and for a short time, for what a user may be about to
// make. It returns the others and what is left of their number.
func (ac *attentionCollector) addDependencyWaits(b *fleet.Bundle, since *time.Time, n int, found []*fleet.NonReadyResource) (int, []*fleet.NonReadyResource) {
	young := since != nil && ac.now.Sub(*since) < unreadyGrace
	var rest []*fleet.NonReadyResource
	for _, r := range found {
		if !dependency.IsUnreadyMessage(r.Message) && (!young || !isMissingObject(r.Message)) {
			rest = append(rest, r)
			continue
		}
		ac.addMoving(b, resourceMessage(r))
		n--
	}
	if len(found) > 0 && len(rest) == 0 {
		n = 0 // those that the summary does not name wait for the same
	}
	return n, rest
}

// isMissingObject reports whether a message is about something that is not on the cluster, and that
// the agent waits for: a dependency, a namespace, or an object with values.
func isMissingObject(message string) bool {
	_, found := release.ParseAbsence(message)
	return found || dependency.IsMissingMessage(message)
}

// zeroLimitMessage is the message of a cluster that the rollout strategy of a Bundle lets through
// only after a change, with the limit that is 0: the cluster is in no partition, a limit is
// 0, or an earlier partition waits for such a limit. It is empty for every other message.
func zeroLimitMessage(b *fleet.Bundle, message string) string {
	queued := rollout.Queued(message)
	switch {
	case message == rollout.ReasonOutside, rollout.ZeroLimit(message) != "" && strings.HasSuffix(message, " is 0"):
		return message
	case rollout.ZeroLimit(message) != "":
		return message + "; maxUnavailable is 0"
	case queued != "" && frozenPartition(b, queued):
		return message + ", whose clusters are not updated: maxUnavailable is 0"
	}
	return ""
}

// frozenPartition reports whether clusters of a partition wait for a limit that is 0.
func frozenPartition(b *fleet.Bundle, name string) bool {
	for i := range b.Status.PartitionStatus {
		p := &b.Status.PartitionStatus[i]
		if p.Name == name && slices.ContainsFunc(p.Summary.NonReadyResources, func(r fleet.NonReadyResource) bool {
			return rollout.ZeroLimit(r.Message) != ""
		}) {
			return true
		}
	}
	return false
}
