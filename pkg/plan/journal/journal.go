// Package journal keeps the last decisions of an agent as lines for users: what was done
// about which deployment, when, and why.
//
// A journal is bounded, however busy the agent is: it holds 50 lines, a line has at most
// 300 bytes, and a decision that is made again and again stays one line, with a count. It
// holds names, words and texts of errors; the caller that adds an entry has taken secrets
// out of its message.
package journal

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of a journal.
const (
	MaxLines   = 50
	maxMessage = 200 // bytes
	maxWord    = 64  // bytes of a name, a verb or a reason: names in Kubernetes are no longer
)

// An Entry is one decision.
type Entry struct {
	// At is when it was made last, in whole seconds.
	At time.Time `json:"at"`
	// First is when it was made first; the same as At if it was made once.
	First time.Time `json:"first"`
	// Times is how often it was made, 1 or more.
	Times int `json:"times"`
	// Deployment is the name of the BundleDeployment; empty for what concerns
	// the agent as a whole.
	Deployment string `json:"deployment,omitempty"`
	// Verb is what was done, or was not: install, hold, correct and so on.
	Verb string `json:"verb"`
	// Reason is one CamelCase word.
	Reason string `json:"reason,omitempty"`
	// Message says more, in one line.
	Message string `json:"message,omitempty"`
}

// sameDecision reports whether two entries are the same decision.
func (e Entry) sameDecision(o Entry) bool {
	return e.Deployment == o.Deployment && e.Verb == o.Verb && e.Reason == o.Reason && e.Message == o.Message
}

// sanitized is an entry within the limits, in characters that a terminal shows as
// they are.
func (e Entry) sanitized() Entry {
	e.At = e.At.UTC().Truncate(time.Second)
	if e.First = e.First.UTC().Truncate(time.Second); e.First.IsZero() || e.First.After(e.At) {
		e.First = e.At
	}
	e.Times = max(e.Times, 1)
	e.Deployment, e.Verb, e.Reason = withoutBlanks(e.Deployment), withoutBlanks(e.Verb), withoutBlanks(e.Reason)
	e.Message = line(e.Message, maxMessage)
	return e
}

// withoutBlanks is a text without blanks; the sign for nothing is nothing.
func withoutBlanks(text string) string {
	if text = strings.ReplaceAll(line(text, maxWord), " ", "_"); text == none {
		return ""
	}
	return text
}

// line is a text as one line of printable characters, at most so many bytes
// long.
func line(text string, limit int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)), " ")
	if len(text) <= limit {
		return text
	}
	const more = "…"
	at := limit - len(more)
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return text[:at] + more
}

// A Journal is the last decisions, the newest last. The zero Journal is empty.
// It is not safe for use by several goroutines.
type Journal struct{ entries []Entry }

// Add adds a decision. If the journal has it already, Add counts it there, makes it the
// newest, and returns false. It ignores First and Times of e.
func (j *Journal) Add(e Entry) (changes bool) {
	e.First, e.Times = time.Time{}, 1
	e = e.sanitized()
	i := slices.IndexFunc(j.entries, e.sameDecision)
	if i >= 0 {
		before := j.entries[i]
		e.First, e.Times = before.First, before.Times+1
		if before.At.After(e.At) {
			e.At = before.At // the clock was set back
		}
		j.entries = slices.Delete(j.entries, i, i+1)
	}
	j.append(e)
	return i < 0
}

func (j *Journal) append(e Entry) {
	if len(j.entries) == MaxLines {
		j.entries = slices.Delete(j.entries, 0, 1)
	}
	j.entries = append(j.entries, e)
}

// Entries returns all decisions, the newest last. They are a copy.
func (j *Journal) Entries() []Entry { return slices.Clone(j.entries) }

// Restore puts entries that were kept before into an empty journal.
func (j *Journal) Restore(entries []Entry) {
	for _, e := range entries[max(0, len(entries)-MaxLines):] {
		j.append(e.sanitized())
	}
}
