package view

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// stuck adds a row for what of a Bundle waits, in one state, for what does not come by
// itself, and returns what present does without it.
func (s *sighting) stuck(b *fleet.Bundle, state fleet.BundleState) (int, []*fleet.NonReadyResource) {
	n, found := s.present(b, state)
	row := Attention{State: state, Kind: "Bundle", Name: keyOf(b).String(), Reason: string(state)}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionReady); c != nil && c.Status == corev1.ConditionFalse {
		row.Since = moment(changed(c))
	}
	var rest []*fleet.NonReadyResource
	var rows []Attention
	at := map[string]int{} // rows by message
	for _, r := range found {
		if !neverLetThrough(r.Message) {
			rest = append(rest, r)
			continue
		}
		i, known := at[r.Message]
		if !known {
			i = len(rows)
			at[r.Message] = i
			row.Message = endlessText(r.Message)
			rows = append(rows, row)
		}
		rows[i].Clusters.Count++
		rows[i].Clusters.Sample = append(rows[i].Clusters.Sample, r.Name)
		n--
	}
	if len(rows) == 1 && len(rest) == 0 { // those that the summary does not name wait for the same
		rows[0].Clusters.Count += n
		n = 0
	}
	s.list = append(s.list, rows...)
	return n, rest
}

// coming moves those of found that have lacked a dependency for a short time, since a moment
// (nil: unknown), to what moves: it may be on its way. It returns the others and what is left
// of their number.
func (s *sighting) coming(b *fleet.Bundle, since *time.Time, n int, found []*fleet.NonReadyResource) (int, []*fleet.NonReadyResource) {
	if since == nil || s.now.Sub(*since) >= unreadyGrace {
		return n, found
	}
	var rest []*fleet.NonReadyResource
	for _, r := range found {
		if !dependency.Missing(r.Message) {
			rest = append(rest, r)
			continue
		}
		s.move(b, r.Message)
		n--
	}
	if len(found) > 0 && len(rest) == 0 {
		n = 0 // those that the summary does not name lack the same
	}
	return n, rest
}

// neverLetThrough reports whether a message says that a rollout strategy lets a cluster
// through only after a change: it is in no partition, or a limit is 0.
func neverLetThrough(message string) bool {
	return message == rollout.ReasonOutside || rollout.Frozen(message) != ""
}

// endlessText is a message that neverLetThrough is true of, with the limit that is 0.
func endlessText(message string) string {
	if rollout.Frozen(message) != "" && !strings.HasSuffix(message, " is 0") {
		message += "; maxUnavailable is 0"
	}
	return message
}
