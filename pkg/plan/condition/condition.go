// Package condition keeps lists of conditions: one per type, with times that
// move only when something changed, so that writing the same state twice is
// writing it once.
package condition

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// MessageLimit is the longest message of a condition, in characters.
const MessageLimit = 1024

// Set returns list with c in the place of the condition of the same type, or at
// the end. The times in c are ignored: if nothing else differs from what was
// there, its times stay; LastTransitionTime moves to now only if the status
// does. list itself is left as it is.
func Set(list []fleet.Condition, c fleet.Condition, now time.Time) []fleet.Condition {
	out := slices.Clone(list)
	stamp := now.UTC().Format(time.RFC3339)
	c.LastUpdateTime, c.LastTransitionTime = stamp, stamp
	for i, old := range out {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && old.LastTransitionTime != "" {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if sameState(old, c) && old.LastUpdateTime != "" {
			c.LastUpdateTime = old.LastUpdateTime
		}
		out[i] = c
		return out
	}
	return append(out, c)
}

func sameState(a, b fleet.Condition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration
}

// Find returns a copy of the condition of the given type, or nil.
func Find(list []fleet.Condition, conditionType string) *fleet.Condition {
	for _, c := range list {
		if c.Type == conditionType {
			return &c
		}
	}
	return nil
}

// Turned returns the condition of the given type if it has this status now, and had another
// status, reason or message before; nil if not.
func Turned(old, now []fleet.Condition, conditionType string, status corev1.ConditionStatus) *fleet.Condition {
	before, after := Find(old, conditionType), Find(now, conditionType)
	if after == nil || after.Status != status {
		return nil
	}
	if before != nil && before.Status == status && before.Reason == after.Reason && before.Message == after.Message {
		return nil
	}
	return after
}

// IsTrue reports whether the condition is there and True.
func IsTrue(list []fleet.Condition, conditionType string) bool {
	c := Find(list, conditionType)
	return c != nil && c.Status == corev1.ConditionTrue
}

// IsFalse reports whether the condition is there and False.
func IsFalse(list []fleet.Condition, conditionType string) bool {
	c := Find(list, conditionType)
	return c != nil && c.Status == corev1.ConditionFalse
}

// Remove returns list without the condition of the given type. list itself is
// left as it is.
func Remove(list []fleet.Condition, conditionType string) []fleet.Condition {
	return slices.DeleteFunc(slices.Clone(list), func(c fleet.Condition) bool {
		return c.Type == conditionType
	})
}

// Message makes text fit for a condition: valid, in one line, single blanks,
// control and format characters as escapes, and cut to MessageLimit characters.
func Message(text string) string {
	return Cut(printable.Line(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")), MessageLimit)
}

// Cut returns text with at most limit characters. A longer text is cut at a space and ends
// with "…"; a word is cut only if it takes half of what fits.
func Cut(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	end := max(limit-1, 0)
	for at := end; at >= end/2 && at > 0; at-- {
		if runes[at] == ' ' {
			end = at
			break
		}
	}
	return strings.TrimRight(string(runes[:end]), " ,;:") + "…"
}
