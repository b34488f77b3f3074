package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A Hasher is a tree of files that can report whether something in it changed without
// reading it, such as the tree of a git commit.
type Hasher interface {
	// Hash names what stands at a path: two things with one hash are equal in
	// kind and content, directories with all that is below them. Symbolic links
	// are not followed, neither at the end nor on the way. ok is false if there
	// is nothing.
	Hash(name string) (hash string, ok bool)
}

// Inputs are all that a Result was made of: Assemble, called with the same
// Dir, gives the same Result as long as none of them changes.
type Inputs struct {
	// seen holds, for each path of the tree that was looked at, what look said
	// of it. Below a directory that is in it nothing else is noted.
	seen map[string]string
	// fetched holds what came in for each request, by its digest.
	fetched map[chart.Request]string
	options string // digest of the options
	partial bool   // the tree or something fetched has no hash
}

// Requests returns what the result needs that does not stand in the tree, in a fixed order.
func (in Inputs) Requests() []chart.Request {
	return slices.SortedFunc(maps.Keys(in.fetched), compareRequests)
}

// Paths returns what the result depends on in the tree, sorted: the bundle's directory with
// all below it, and what was looked at elsewhere.
func (in Inputs) Paths() []string { return slices.Sorted(maps.Keys(in.seen)) }

// SameSource reports whether two results were made of the same files and
// downloads, so that at most the options differ. It is false where that is not
// known.
func (in Inputs) SameSource(other Inputs) bool {
	return !in.partial && !other.partial && in.seen != nil && maps.Equal(in.seen, other.seen) && maps.Equal(in.fetched, other.fetched)
}

// A Comparison reports what can be taken over from an earlier reading.
type Comparison struct {
	tree    fs.FS
	hasher  Hasher
	o       Options
	options string
	looked  map[string]string
}

// Compare prepares taking results over for a tree and options. Options.Fetched
// must hold what came in for Inputs.Requests of the results that are asked for.
func Compare(tree fs.FS, o Options) *Comparison {
	hasher, _ := tree.(Hasher)
	o.Limits = o.Limits.withDefaults()
	return &Comparison{tree: tree, hasher: hasher, o: o, options: optionsDigest(o), looked: map[string]string{}}
}

// Reuse returns a result of an earlier reading as Assemble would make it now. It returns
// false unless it is certain that nothing but the commit can have changed. It costs a few
// look-ups of hashes and reads no file. The Bundle shares its spec with that of r.
//
// r must be what Assemble returned, not an element of a Set, where bundles of
// one name were refused.
func (c *Comparison) Reuse(r Result) (Result, bool) {
	in := r.Inputs
	if c.hasher == nil || in.partial || in.seen == nil || in.options != c.options || len(r.Missing) > 0 {
		return Result{}, false
	}
	for p, was := range in.seen {
		now, ok := c.looked[p]
		if !ok {
			now = describePath(c.tree, c.hasher, p)
			c.looked[p] = now
		}
		if now != was {
			return Result{}, false
		}
	}
	for request, was := range in.fetched {
		f, ok := c.o.Fetched[request]
		if now, known := fetchedDigest(f); !ok || !known || now != was {
			return Result{}, false
		}
	}
	return r.withCommit(c.o.Labels[fleet.LabelCommit]), true
}

// withCommit is r with another commit in its labels.
func (r Result) withCommit(commit string) Result {
	if r.Bundle == nil || r.Bundle.Labels[fleet.LabelCommit] == commit {
		return r
	}
	b := *r.Bundle
	b.Labels = maps.Clone(b.Labels)
	b.Labels[fleet.LabelCommit] = commit
	r.Bundle = &b
	scans := r.Scans
	r.Scans = nil
	for _, s := range scans {
		again := *s
		again.Labels = maps.Clone(b.Labels)
		r.Scans = append(r.Scans, &again)
	}
	return r
}

// optionsDigest covers all options but what was fetched, which is compared by request, and
// the commit, which is put in again. The length of the commit is covered, because it is
// part of the bundle's size.
func optionsDigest(o Options) string {
	o.Fetched = nil
	if commit, ok := o.Labels[fleet.LabelCommit]; ok {
		o.Labels = maps.Clone(o.Labels)
		o.Labels[fleet.LabelCommit] = strings.Repeat("0", len(commit))
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return "" // values without JSON; such options are never equal
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// fetchedDigest returns a digest of what was fetched; known is false if there is none.
func fetchedDigest(f chart.Fetched) (digest string, known bool) {
	if f.Err != nil {
		var wait *reconcile.RequeueAfter
		kind := "error:"
		if errors.As(f.Err, &wait) {
			kind = "wait:"
		}
		return kind + f.Err.Error(), true
	}
	if f.Digest == "" && f.Archive != nil && f.Files == nil {
		sum := sha256.Sum256(f.Archive)
		return "archive:" + f.Name + ":" + f.Version + ":" + hex.EncodeToString(sum[:]), true
	}
	return "fetched:" + f.Name + ":" + f.Version + ":" + f.Digest, f.Digest != ""
}

// describePath says what is at a path. For a path that does not exist it says where the existing
// part ends, since a link there would lead somewhere else.
func describePath(tree fs.FS, h Hasher, p string) string {
	if hash, ok := h.Hash(p); ok {
		return hash
	}
	for p != "." {
		p = path.Dir(p)
		hash, ok := h.Hash(p)
		if !ok {
			continue
		}
		if info, err := fs.Lstat(tree, p); err == nil && info.IsDir() {
			return "nothing below " + p
		}
		return "nothing below " + p + " " + hash
	}
	return "nothing"
}
