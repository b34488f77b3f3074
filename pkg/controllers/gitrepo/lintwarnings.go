package gitrepo

import (
	"crypto/sha256"
	"io/fs"
	"slices"

	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
)

// A hashedTree is a file tree that knows a hash of each file and directory.
type hashedTree interface {
	fs.FS
	Hash(name string) (hash string, ok bool)
}

// lintWarnings are the warnings of package lint about one bundle.
type lintWarnings struct {
	// files is the digest of the files that the warnings are about.
	files [sha256.Size]byte
	found []finding.Finding
}

// addLintWarnings adds the warnings of package lint to the results of reading a commit,
// with the text that fleet lint prints. Warnings block nothing. It reuses before, the
// warnings of the previous commit, for bundles with the same files, and returns those
// of this commit.
//
// It omits errors of package lint: package plan/gitrepo reports those about empty
// directories, because it knows what the previous commit contained.
func addLintWarnings(tree hashedTree, set bundle.Set, before map[bundle.Dir]lintWarnings) map[bundle.Dir]lintWarnings {
	after := make(map[bundle.Dir]lintWarnings, len(set.Results))
	for i := range set.Results {
		r := &set.Results[i]
		d := lintWarnings{files: digestOfFiles(tree, *r)}
		if known, ok := before[r.Dir]; ok && known.files == d.files {
			d = known
		} else {
			d.found = slices.DeleteFunc(lint.Check(tree, *r), func(f finding.Finding) bool { return f.Severity != finding.Warning })
		}
		after[r.Dir] = d
		r.Findings = slices.Concat(r.Findings, d.found)
	}
	return after
}

// digestOfFiles returns a digest of all files that a result depends on, and of whether
// it is a bundle.
func digestOfFiles(tree hashedTree, r bundle.Result) [sha256.Size]byte {
	text := make([]byte, 0, 256)
	for _, name := range r.Inputs.Paths() {
		hash, _ := tree.Hash(name) // empty: the file does not exist
		text = append(text, name+"\x00"+hash+"\x00"...)
	}
	if r.Bundle != nil {
		text = append(text, r.Bundle.Name...)
	}
	return sha256.Sum256(text)
}
