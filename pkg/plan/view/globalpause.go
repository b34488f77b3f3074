package view

import "time"

// Keys of the ConfigMap fleet-brake, which keeps the global pause (fleet suspend --all).
const (
	keySuspended = "suspended"
	keyReason    = "reason"
	keyBy        = "by"
	keySince     = "since"
)

// A GlobalPause holds back everything new in a fleet while it is on.
type GlobalPause struct {
	// On reports whether it is.
	On bool `json:"on"`
	// Reason is why, in the words of who put it on.
	Reason string `json:"reason,omitempty"`
	// By is the user who put it on.
	By string `json:"by,omitempty"`
	// Since is when.
	Since *time.Time `json:"since,omitempty"`
}

// ParseGlobalPause reads the data of ConfigMap fleet-brake. No data is a global pause that
// is off. A time that cannot be read is left out.
func ParseGlobalPause(data map[string]string) GlobalPause {
	if data[keySuspended] != "true" {
		return GlobalPause{}
	}
	b := GlobalPause{On: true, Reason: data[keyReason], By: data[keyBy]}
	if t, err := time.Parse(time.RFC3339, data[keySince]); err == nil {
		b.Since = &t
	}
	return b
}

// Data returns what ParseGlobalPause reads.
func (g GlobalPause) Data() map[string]string {
	data := map[string]string{keySuspended: "false", keyReason: g.Reason, keyBy: g.By}
	if g.On {
		data[keySuspended] = "true"
	}
	if g.Since != nil {
		data[keySince] = g.Since.UTC().Format(time.RFC3339)
	}
	return data
}

// HoldReason returns why everything new is held back, by the data of ConfigMap fleet-brake;
// empty if the global pause is off. It does not say since when: messages of conditions
// contain no times.
func HoldReason(data map[string]string) string {
	g := ParseGlobalPause(data)
	if !g.On {
		return ""
	}
	g.Since = nil
	return g.Text(time.Time{})
}

// Text says since when, by whom and why the global pause is on.
func (g GlobalPause) Text(now time.Time) string {
	text := "suspended"
	if g.Since != nil {
		text += " since " + Clock(*g.Since, now)
	}
	if g.By != "" {
		text += " by " + g.By
	}
	if g.Reason != "" {
		text += ": " + g.Reason
	}
	return text
}
