package dump

// Why something is not in the archive.
const (
	causeFilter  = "filter"  // the flags leave it out
	causeLimit   = "limit"   // there is too much of it
	causeRight   = "right"   // the user may not read it
	causeFailure = "failure" // the server could not give it
	causeSecret  = "secret"  // it may hold credentials
)

// maxMissing is how many parts that are missing the manifest lists, and of how many there is a file.
const maxMissing = 1000

// manifest is the file of this name in the archive.
type manifest struct {
	Created   string   `json:"created"` // RFC 3339, UTC
	Server    string   `json:"server"`
	Namespace string   `json:"namespace,omitempty"` // the workspace; empty: all
	Filter    string   `json:"filter,omitempty"`    // "gitrepos/web"
	Versions  versions `json:"versions"`

	// Files is how many files of each kind the archive has.
	Files map[string]int `json:"files"`
	// Missing is how many parts could not be read, or only in part.
	Missing int       `json:"missing"`
	LeftOut []leftOut `json:"leftOut"`
}

type versions struct {
	CLI     string `json:"cli"`
	Commit  string `json:"commit"`
	Manager string `json:"manager,omitempty"` // empty: not found
}

// leftOut is what the archive does not have, and why.
type leftOut struct {
	What  string `json:"what"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
}

// leave notes what the flags leave out.
func (m *manifest) leave(what, cause, text string) {
	m.LeftOut = append(m.LeftOut, leftOut{what, cause, text})
}

// miss notes a part that is missing, and reports whether it is one of those that are listed.
func (m *manifest) miss(what, cause, text string) bool {
	m.Missing++
	switch {
	case m.Missing < maxMissing:
		m.leave(what, cause, text)
	case m.Missing == maxMissing:
		m.leave("more", causeLimit, "further parts are missing; only their number is known")
	}
	return m.Missing < maxMissing
}
