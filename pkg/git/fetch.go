package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// maxHaves is how many commits the client names to the remote as present.
const maxHaves = 8

// errDamaged says that what came does not hold together, so that a store is worth
// beginning again.
var errDamaged = errors.New("store is incomplete")

// Fetch gets one commit, without its history, into the store of its remote
// and returns its files, those of submodules included. A commit that is there already
// costs no request. ref says how the commit was found. The caller closes the Tree.
//
// Errors are those of Resolve, and reconcile.Terminal, TooLarge and InvalidSubmodule.
func (r *Remotes) Fetch(ctx context.Context, src Source, ref Reference, commit Commit) (*Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limits.Time)
	defer cancel()
	tree, err := r.fetchTree(ctx, src, ref, commit, wholeTree)
	if err != nil || tree.size.modules == 0 {
		return tree, err
	}
	m := moduleReader{remotes: r, entries: tree.size.entries, packed: tree.packed}
	if err := m.read(ctx, src, tree, 0); err != nil {
		_ = tree.Close() // the first fault is returned
		return nil, err
	}
	return tree, nil
}

// fetchTree is Fetch without submodules.
func (r *Remotes) fetchTree(ctx context.Context, src Source, ref Reference, commit Commit, kind treeKind) (*Tree, error) {
	ep, err := parseURL(src.URL)
	if err != nil {
		return nil, err
	}
	if !isHash(string(commit)) {
		return nil, permanentf(ReasonInvalidReference, "commit %q is not a full hash", string(commit))
	}
	e, err := r.entryFor(src, ep)
	if err != nil {
		return nil, err
	}
	if err := e.acquire(ctx); err != nil {
		return nil, e.explain(ctx, err)
	}
	defer e.unlock()
	commit = Commit(strings.ToLower(string(commit)))
	tree, err := e.tree(ctx, ref, commit, kind)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	return tree, nil
}

// tree opens a commit, after fetching it where needed. A damaged store is replaced by a
// new one, once. The caller holds the lock.
func (e *sourceEntry) tree(ctx context.Context, ref Reference, commit Commit, kind treeKind) (*Tree, error) {
	for again := false; ; again = true {
		g, err := e.generation()
		if err != nil {
			return nil, err
		}
		haves, bytes := len(g.commits) > 0 && !e.noHaves, g.bytes
		if !g.commits[commit] {
			g.forgetChecked()
			err = e.fetch(ctx, g, ref, commit)
		}
		var tree *Tree
		if err == nil {
			tree, err = openTree(g, ref, commit, kind, e.limits)
		}
		if err == nil {
			g.commits[commit], tree.packed = true, g.bytes-bytes
			return tree, nil
		}
		if local := disk.Fault(err); local != nil {
			e.renewStore() // what it left takes room on disk
			return nil, local
		}
		if again || !haves || ctx.Err() != nil || reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
			return nil, err
		}
		e.noHaves = true
		e.renewStore()
	}
}

// fetch adds one commit to a store. If the remote has just named the commit, fetch asks
// for it at once; if that fails for any reason, the remote is asked for its references
// first.
func (e *sourceEntry) fetch(ctx context.Context, g *storeGeneration, ref Reference, commit Commit) error {
	if s, refs := e.recent.takeSession(ctx, e, commit); s != nil {
		if pack, err := e.fetchCommit(ctx, g, s, refs, ref, commit); err == nil {
			defer pack.close()
			return answered(e.receive(g, pack, pack.thin))
		}
	}
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	refs, err := s.advertised(ctx, neededReferences(ref))
	if err != nil {
		return err
	}
	pack, err := e.fetchCommit(ctx, g, s, refs, ref, commit)
	if err != nil {
		return err
	}
	defer pack.close()
	return answered(e.receive(g, pack, pack.thin))
}

// An incomingPack is a pack on its way.
type incomingPack struct {
	io.Reader
	body io.Closer
	thin bool // it builds on what we have
}

func (p *incomingPack) close() { _ = p.body.Close() } // all that matters of it was read

// fetchCommit asks for one commit and returns the pack that comes.
func (e *sourceEntry) fetchCommit(ctx context.Context, g *storeGeneration, s session, refs *packp.AdvRefs, ref Reference, commit Commit) (*incomingPack, error) {
	req, err := e.request(g, refs, ref, commit)
	if err != nil {
		return nil, err
	}
	body, err := s.uploadPack(ctx, req)
	if err != nil {
		return nil, err
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(body); err != nil {
		_ = body.Close() // the first fault is returned
		if isHash(ref.Revision) && refusesCommit(err, commit) {
			return nil, noCommit(commit)
		}
		return nil, answered(fmt.Errorf("read answer: %w", err))
	}
	p := &incomingPack{Reader: res, body: body, thin: len(req.Haves) > 0}
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		p.Reader = sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		p.Reader = sideband.NewDemuxer(sideband.Sideband, res)
	}
	return p, nil
}

// refusesCommit reports whether a remote that can be asked for any commit answers that
// it does not have this one. The words are those of git's upload-pack.
func refusesCommit(err error, commit Commit) bool {
	var line *pktline.ErrorLine
	return errors.As(err, &line) && strings.Contains(line.Text, "not our ref "+string(commit))
}

// noCommit is the fault of a revision that names a commit that the remote does not have.
func noCommit(commit Commit) error {
	return permanentf(ReasonRevisionNotFound, "commit %q is not in the repository", string(commit))
}

// maxPinnedRefs is how many references are looked at for a commit that is named
// by its hash alone.
const maxPinnedRefs = 50_000

// neededReferences reports which references of a remote's list say how a commit can be asked
// for: memory does not grow with the list.
func neededReferences(ref Reference) func(name []byte) bool {
	if !isHash(ref.Revision) {
		return refFilter([]Reference{ref})
	}
	n := 0
	return func([]byte) bool {
		n++
		return n <= maxPinnedRefs
	}
}

// request asks for one commit without history where the remote can do that,
// and for all branches and tags where it gives nothing else: then the commit
// is looked for in their history.
func (e *sourceEntry) request(g *storeGeneration, refs *packp.AdvRefs, ref Reference, commit Commit) (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	// Only a thin pack leaves out what a shallow commit shares with another.
	thin := refs.Capabilities.Supports(capability.ThinPack)
	req.Capabilities.Delete(capability.ThinPack)
	want, known := advertisedAs(refs, plumbing.NewHash(string(commit)))
	anyCommit := refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) ||
		refs.Capabilities.Supports(capability.Capability("allow-any-sha1-in-want"))
	switch {
	case known, anyCommit:
		req.Wants = []plumbing.Hash{want}
	case !isHash(ref.Revision):
		return nil, failingf("git host %q has moved %q to another commit meanwhile", e.ep.display(), ref.String())
	default:
		for _, hash := range refs.References {
			req.Wants = append(req.Wants, hash)
		}
		return req, nil
	}
	if !refs.Capabilities.Supports(capability.Shallow) {
		return req, nil
	}
	if err := req.Capabilities.Set(capability.Shallow); err != nil {
		return nil, fmt.Errorf("ask for a shallow commit: %w", err)
	}
	req.Depth = packp.DepthCommits(1)
	if !e.noHaves && thin && len(g.commits) > 0 {
		req.Haves = knownCommits(g)
		req.Shallows = slices.Clone(req.Haves)
		req.Capabilities.Delete(capability.MultiACK) // the library reads plain answers only
		req.Capabilities.Delete(capability.MultiACKDetailed)
		if err := req.Capabilities.Set(capability.ThinPack); err != nil {
			return nil, fmt.Errorf("ask for a difference: %w", err)
		}
	}
	return req, nil
}

// advertisedAs returns the hash by which to request a commit that a branch or
// tag is at: an annotated tag is requested by its own hash.
func advertisedAs(refs *packp.AdvRefs, commit plumbing.Hash) (want plumbing.Hash, known bool) {
	for name, peeled := range refs.Peeled {
		if peeled == commit {
			want, known = refs.References[name], true
		}
	}
	if refs.Head != nil && *refs.Head == commit {
		return commit, true
	}
	for _, hash := range refs.References {
		if hash == commit {
			return commit, true
		}
	}
	if known {
		return want, true
	}
	return commit, false
}

func knownCommits(g *storeGeneration) []plumbing.Hash {
	var list []plumbing.Hash
	for c := range g.commits {
		list = append(list, plumbing.NewHash(string(c)))
	}
	plumbing.HashesSort(list)
	return list[:min(len(list), maxHaves)]
}

// receive reads a pack within the limits and adds it to a store. A thin pack
// builds on objects that the store has; its own are then kept one by one.
func (e *sourceEntry) receive(g *storeGeneration, pack io.Reader, thin bool) error {
	file, err := os.CreateTemp(e.dir, "pack")
	if err != nil {
		return fmt.Errorf("%w: %w", errCache, err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	limits, full := e.packLimits()
	n, err := receivePack(pack, file, limits, full)
	if err != nil {
		if errors.Is(err, packfile.ErrEmptyPackfile) {
			return errDamaged
		}
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%w: %w", errCache, err)
	}
	storage := g.open()
	defer storage.Close()
	if err := index(storage, file, thin); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	g.bytes += n
	g.packs++
	g.files = g.objectFiles()
	return nil
}

// roomShare is the part of the free space of a disk that one pack may take. It is
// on disk twice for a moment, and as much has to be left for other repositories.
const roomShare = 3

// packLimits returns the limits of one pack, and the error for a pack that is too large.
func (e *sourceEntry) packLimits() (Limits, error) {
	limits := e.limits
	free, known := disk.FreeBytes(e.dir)
	if share := free / roomShare; known && share < limits.PackBytes {
		limits.PackBytes = share
		return limits, disk.NoRoom(fmt.Sprintf("the pack of the commit takes more than a third of the space that is left (%s)", formatSize(free)))
	}
	return limits, tooLarge("the pack of the commit", limits.PackBytes)
}

func index(storage *filesystem.Storage, pack io.Reader, thin bool) error {
	if !thin {
		return packfile.UpdateObjectStorage(storage, pack)
	}
	// As a plain storer: otherwise the library keeps a file open per object.
	plain := struct{ storer.EncodedObjectStorer }{storage}
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(pack), plain)
	if err != nil {
		return err
	}
	_, err = parser.Parse()
	return err
}
