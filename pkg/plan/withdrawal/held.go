package withdrawal

import (
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// namesLimit is how long a message may get by the names of what is removed, in
// characters: fleet approve lists them all.
const namesLimit = 200

// Message returns a held removal as a condition says it: how much, some of what, and the
// command that approves it. Names are left out where there is no room.
func (v Verdict) Message(approve string) string {
	tail := "; to go on: " + approve
	// The command is never cut.
	head := condition.Cut(v.Summary, max(condition.MessageLimit-len([]rune(tail)), 1))
	room := namesLimit - len([]rune(head)) - len([]rune(tail)) - len(": ")
	if names := fitList(v.List, room); names != "" {
		head += ": " + names
	}
	return condition.Message(head + tail)
}

// fitList is as much of a list as fits into room characters, and how much is left.
func fitList(list []string, room int) string {
	for n := min(len(list), max(room, 0)); n > 0; n-- {
		text := strings.Join(list[:n], ", ")
		if n < len(list) {
			text += fmt.Sprintf(" and %d more", len(list)-n)
		}
		if len([]rune(text)) <= room {
			return text
		}
	}
	return ""
}

// How much of a list is written out: an annotation is kept by every watcher.
const (
	listLines = 200
	listBytes = 16 << 10
)

// Text returns a held removal as AnnotationDeletionHeld keeps it: a line with the hash and
// the summary, then one line for each thing, at most 200 of them and 16 KiB, and how many
// more there are.
func (v Verdict) Text() string {
	var out strings.Builder
	out.WriteString(v.Hash + " " + v.Summary + "\n")
	for i, line := range v.List {
		if i == listLines || out.Len()+len(line) > listBytes {
			fmt.Fprintf(&out, "and %d more\n", len(v.List)-i)
			break
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// ReadText reads what Text wrote: the hash, the summary, and the lines. The hash
// is empty where nothing is held.
func ReadText(text string) (hash, summary string, lines []string) {
	first, rest, _ := strings.Cut(text, "\n")
	hash, summary, _ = strings.Cut(first, " ")
	for _, line := range strings.Split(rest, "\n") {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return hash, summary, lines
}
