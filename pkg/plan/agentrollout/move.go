package agentrollout

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Move is the change of one agent from one Build to another, with how things
// were before it. It is kept on the Bundle until the next one.
type Move struct {
	Image    string    `json:"image"` // moved to
	From     string    `json:"from,omitempty"`
	At       time.Time `json:"at"`
	Version  string    `json:"version,omitempty"`  // of the agent before
	Instance string    `json:"instance,omitempty"` // of the agent before
	NotReady int       `json:"notReady,omitempty"` // deployments that were not Ready before
	Settled  bool      `json:"settled,omitempty"`  // it has gone well

	// Due is when the agent meant to check in next, where that was not soon.
	Due *time.Time `json:"due,omitempty"`
}

// String returns the Move as it stands in AnnotationMove.
func (m Move) String() string {
	m.At = m.At.UTC().Truncate(time.Second)
	text, err := json.Marshal(m)
	if err != nil { // these types always can be
		return ""
	}
	return string(text)
}

// ParseMove reads what String returns. For any other text it returns nil.
func ParseMove(s string) *Move {
	var m Move
	if s == "" || json.Unmarshal([]byte(s), &m) != nil || m.At.IsZero() {
		return nil
	}
	return &m
}

// Timeout is how long an agent that was moved may take until it has checked in
// and its deployments are as before; for one that checks in seldom, counted from
// its next check-in.
const Timeout = 10 * time.Minute

// A Verdict is the outcome of a move.
type Verdict int

// Verdicts.
const (
	Waiting Verdict = iota
	Well
	Failed
)

// moveOutcome says what became of the last move of a member, with the reason.
func (m Member) moveOutcome(now time.Time) (Verdict, string) {
	missing := m.missingForSuccess()
	switch {
	case missing == "":
		return Well, "checked in, and its deployments are as before"
	case now.Before(m.deadline()):
		return Waiting, missing
	}
	return Failed, missing
}

// missingForSuccess says what is missing until a move has gone well; empty: nothing.
func (m Member) missingForSuccess() string {
	switch more := m.NotReady - m.Move.NotReady; {
	case !m.Applied && m.Trouble != "":
		return "its bundle is not deployed: " + m.Trouble
	case !m.Applied:
		return "its bundle is not deployed yet"
	case m.Move.Image != m.Move.From && m.stale():
		return fmt.Sprintf("the new agent has not checked in; the last one to do so is %s", orElse(m.Version, "of an unknown version"))
	case more == 1:
		return "1 deployment that was Ready before is not"
	case more > 1:
		return fmt.Sprintf("%d deployments that were Ready before are not", more)
	}
	return ""
}

// stale reports whether the agent that checked in last is the one from before the move.
// Where image tags are agent versions, it compares the version; otherwise it compares the
// agent's instance.
func (m Member) stale() bool {
	if want := tag(m.Move.Image); want != "" && m.Version == want {
		return false
	}
	if was := tag(m.Move.From); was != "" && was == m.Move.Version && tag(m.Move.Image) != "" {
		return true
	}
	return m.Instance == m.Move.Instance
}

// deadline is when a move that has not gone well has failed.
func (m Member) deadline() time.Time {
	if m.Move.Due != nil {
		return m.Move.Due.Add(Timeout)
	}
	return m.Move.At.Add(Timeout)
}

// checksInRarely reports whether an agent is not expected for a while.
func (m Member) checksInRarely(now time.Time) bool { return m.Next.Sub(now) > Timeout }

// versionTag is how an image is tagged that says which version it is.
var versionTag = regexp.MustCompile(`^v?[0-9]+\.[0-9]+`)

// tag is the tag of an image if that is a version, and else empty.
func tag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	image = image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(image, ":")
	if !versionTag.MatchString(tag) {
		return ""
	}
	return tag
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
