package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// maxReportBytes bounds what a remote may answer to a push.
const maxReportBytes = 1 << 20

// ErrMoved says that the branch has another head than the commit that a new commit was
// made on: another client has pushed. The caller makes its commit again on the new head.
var ErrMoved = errors.New("has moved while a commit for it was made")

// A Signature says who made a commit, and when.
type Signature struct {
	Name, Email string
	Time        time.Time
}

// A Change is a commit that is to be made: files of its parent with other content. The
// author is the committer too.
type Change struct {
	// Files are the new contents by path. Each path is that of a file of the parent, not of
	// a symbolic link and not below one; its mode stays.
	Files   map[string][]byte
	Message string
	Author  Signature
}

// Head returns the files of the newest commit of a branch, without those of submodules;
// an empty branch is DefaultBranch. The caller closes the Tree. Errors are those of
// Resolve and Fetch.
func (r *Remotes) Head(ctx context.Context, src Source, branch string) (*Tree, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limits.Time)
	defer cancel()
	ref := Reference{Branch: branch}
	commit, err := r.Resolve(ctx, src, ref)
	if err != nil {
		return nil, err
	}
	return r.fetchTree(ctx, src, ref, commit, wholeTree)
}

// Push makes one commit on top of base, which is the head of a branch, and sends it there.
// It sends the new objects alone: the remote has all others. It never forces: the remote
// compares its branch with base, and takes the commit only if they are the same.
//
// Errors are those of Resolve, and reconcile.RequeueAfter, BranchMoved, which wraps
// ErrMoved; reconcile.Terminal, PushRefused: the credentials do not allow to write, or the
// branch is protected, with what the remote says. After any other error the commit may be on
// the branch nevertheless; the next head shows it.
func (r *Remotes) Push(ctx context.Context, src Source, branch string, base *Tree, change Change) (Commit, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Limits.Time)
	defer cancel()
	ref := Reference{Branch: branch}
	if err := ref.Validate(); err != nil {
		return "", err
	}
	ep, err := parseURL(src.URL)
	if err != nil {
		return "", err
	}
	e, err := r.entryFor(src, ep)
	if err != nil {
		return "", err
	}
	made, err := base.makeCommit(change)
	if err != nil {
		return "", e.explain(ctx, err)
	}
	refused, err := e.push(ctx, ref, base.commit, made)
	if err != nil {
		return "", e.explain(ctx, err)
	}
	if refused == "" {
		return Commit(made.commit.String()), nil
	}
	// A branch that has moved and one that is protected differ in the remote's words
	// alone, and each server has its own. The head says which of them it is.
	head, err := r.Resolve(ctx, src, ref)
	if err == nil && head != base.commit {
		err = movedError(ref)
	}
	if err != nil {
		return "", err
	}
	return "", permanentf(ReasonPushRefused, "git host %q does not take a commit to branch %q of %q: it says %s",
		ep.display(), ref.String(), strings.Trim(ep.path, "/"), refused)
}

func movedError(ref Reference) error {
	return reconcile.RequeueError(ReasonBranchMoved, retryAfter, fmt.Errorf("branch %q %w", ref.String(), ErrMoved))
}

// maxTries is how often a commit is made for a branch that moves meanwhile.
const maxTries = 5

// Update commits to the newest head of a branch. change returns what to commit to the
// files of that head; no files are no commit, and then Update returns no Commit. If
// another client pushes first, Update calls change again with the files of the new head, up
// to five times in all. Errors are those of change, Head and Push.
func (r *Remotes) Update(ctx context.Context, src Source, branch string, change func(fs.FS) (Change, error)) (Commit, error) {
	for try := 1; ; try++ {
		commit, err := r.tryUpdate(ctx, src, branch, change)
		if try == maxTries || !errors.Is(err, ErrMoved) {
			return commit, err
		}
	}
}

// tryUpdate is Update without another try.
func (r *Remotes) tryUpdate(ctx context.Context, src Source, branch string, change func(fs.FS) (Change, error)) (Commit, error) {
	tree, err := r.Head(ctx, src, branch)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	c, err := change(tree)
	if err != nil || len(c.Files) == 0 {
		return "", err
	}
	return r.Push(ctx, src, branch, tree, c)
}

// push sends a commit. refused is what the remote says if it does not take the commit; in
// quotes.
func (e *sourceEntry) push(ctx context.Context, ref Reference, base Commit, made *newObjects) (refused string, err error) {
	s, err := e.connectTo(ctx, serviceReceive)
	if err != nil {
		return "", err
	}
	defer s.close()
	refs, err := s.advertised(ctx, refFilter([]Reference{ref}))
	if err != nil {
		return "", err
	}
	head, err := findCommit(refs, ref)
	if err != nil {
		return "", err
	}
	if head != base {
		return "", movedError(ref)
	}
	if !refs.Capabilities.Supports(capability.ReportStatus) {
		return "", permanentf(ReasonPushRefused, "git host %q does not report what becomes of a commit, so none is sent", e.ep.display())
	}
	req, err := pushRequest(refs, ref, base, made)
	if err != nil {
		return "", err
	}
	body, err := s.receivePack(ctx, req.bytes)
	if err != nil {
		return "", err
	}
	defer body.Close()
	return e.readReport(req, ref, io.LimitReader(body, maxReportBytes))
}

// A pushMessage is the request of a push.
type pushMessage struct {
	bytes    []byte
	sideband sideband.Type
	framed   bool // the answer comes in the frames of sideband
}

// pushRequest returns the request that moves a branch from base to a new commit.
func pushRequest(refs *packp.AdvRefs, ref Reference, base Commit, made *newObjects) (*pushMessage, error) {
	req := packp.NewReferenceUpdateRequest()
	m := &pushMessage{}
	use := []capability.Capability{capability.ReportStatus}
	switch {
	case refs.Capabilities.Supports(capability.Sideband64k):
		m.sideband, m.framed = sideband.Sideband64k, true
		use = append(use, capability.Sideband64k)
	case refs.Capabilities.Supports(capability.Sideband):
		m.sideband, m.framed = sideband.Sideband, true
		use = append(use, capability.Sideband)
	}
	for _, c := range use {
		if err := req.Capabilities.Set(c); err != nil {
			return nil, fmt.Errorf("ask for %s: %w", c, err)
		}
	}
	req.Commands = []*packp.Command{{
		Name: plumbing.NewBranchReferenceName(ref.String()), Old: plumbing.NewHash(string(base)), New: made.commit,
	}}
	var buf bytes.Buffer
	if err := req.Encode(&buf); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	if _, err := packfile.NewEncoder(&buf, made.storage, false).Encode(made.hashes, 0); err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	m.bytes = buf.Bytes()
	return m, nil
}

// readReport reads what a remote answers to a push. refused is empty if it has taken the
// commit; otherwise it is what the remote says, in quotes.
func (e *sourceEntry) readReport(req *pushMessage, ref Reference, answer io.Reader) (refused string, err error) {
	said := &cappedBuffer{}
	if req.framed {
		frames := sideband.NewDemuxer(req.sideband, answer)
		frames.Progress = said
		answer = frames
	}
	report := packp.NewReportStatus()
	if err := report.Decode(answer); err != nil {
		if words := strings.TrimSpace(said.String()); words != "" {
			return e.quote(words), nil
		}
		return "", answered(fmt.Errorf("read report: %w", err))
	}
	_, _ = io.Copy(io.Discard, answer) // hooks that run afterwards change nothing
	why := ""
	switch status := statusOf(report, ref); {
	case report.UnpackStatus != "ok":
		why = report.UnpackStatus
	case status == "":
		why = "nothing about the branch"
	case status != "ok":
		why = status
	default:
		return "", nil
	}
	if words := strings.TrimSpace(said.String()); words != "" {
		why += ": " + words
	}
	return e.quote(why), nil
}

// statusOf is what a report says about a branch, or nothing.
func statusOf(report *packp.ReportStatus, ref Reference) string {
	name := plumbing.NewBranchReferenceName(ref.String())
	i := slices.IndexFunc(report.CommandStatuses, func(s *packp.CommandStatus) bool { return s.ReferenceName == name })
	if i < 0 {
		return ""
	}
	return report.CommandStatuses[i].Status
}

// cleanIdentity removes from a name or an address what git's format of a commit does not
// allow in it.
func cleanIdentity(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.TrimSpace(s)
}

// cleanMessage ends a message with a line break, as git does, and removes NUL bytes.
func cleanMessage(s string) string {
	s = strings.TrimRight(strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", ""), " \t\r\n")
	return s + "\n"
}

// splitPath returns the first part of a path, and the rest; the rest of a single part is
// empty.
func splitPath(p string) (first, rest string) {
	first, rest, _ = strings.Cut(path.Clean(p), "/")
	return first, rest
}
