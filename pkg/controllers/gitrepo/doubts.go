package gitrepo

import (
	"crypto/sha256"
	"io/fs"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
)

// A hashed is a tree that knows a hash of each file and directory in it.
type hashed interface {
	fs.FS
	Hash(name string) (hash string, ok bool)
}

// A doubt is what is legal in a bundle and still not meant.
type doubt struct {
	of    [sha256.Size]byte // the files that it was found in
	found []finding.Finding
}

// doubts adds to the results of a reading the warnings of package lint, with the text
// that fleet lint prints. They block nothing. doubts reuses what was found before in
// the same files, and returns the memory for the next reading.
//
// Errors of package lint are left out: pkg/plan/gitrepo reports those about empty
// directories, because it knows what was there before.
func doubts(tree hashed, set bundle.Set, before map[bundle.Dir]doubt) map[bundle.Dir]doubt {
	after := make(map[bundle.Dir]doubt, len(set.Results))
	for i := range set.Results {
		r := &set.Results[i]
		d := doubt{of: filesOf(tree, *r)}
		if known, ok := before[r.Dir]; ok && known.of == d.of {
			d = known
		} else {
			d.found = slices.DeleteFunc(lint.Check(tree, *r), func(f finding.Finding) bool { return f.Severity != finding.Warning })
		}
		after[r.Dir] = d
		r.Findings = slices.Concat(r.Findings, d.found)
	}
	return after
}

// filesOf is a digest of all files that a result depends on, and of whether it
// is a bundle.
func filesOf(tree hashed, r bundle.Result) [sha256.Size]byte {
	text := make([]byte, 0, 256)
	for _, name := range r.Inputs.Paths() {
		hash, _ := tree.Hash(name) // none: it is not there
		text = append(text, name+"\x00"+hash+"\x00"...)
	}
	if r.Bundle != nil {
		text = append(text, r.Bundle.Name...)
	}
	return sha256.Sum256(text)
}
