// Package git reads remote repositories over HTTP(S) and SSH: it resolves a
// branch, tag or commit to a commit, and fetches the files of one commit. Push adds one
// commit to a branch; nothing else writes to a remote. The package starts no process,
// reads no environment, and keeps nothing between runs.
//
// Each remote (URL and credentials) has a bare store of its own, shared by all
// who read that remote; commits are fetched without history and files are read
// from the store, never from a work tree. Submodules are read with it; LFS is not.
//
// Errors are reconcile.Terminal (wait for another spec, secret or commit) or
// reconcile.RequeueAfter (the host may answer later). Their texts are stable from one try
// to the next and never hold a credential.
package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// DefaultBranch is read where a Reference names nothing, as in rancher/fleet
// implementation. It is deliberately not the remote's own default.
const DefaultBranch = "master"

// RemoteHead is the Revision that means the remote's own default branch, unless
// there is a tag or branch of that name.
const RemoteHead = "HEAD"

// A Commit is the full hash of a commit, 40 or 64 hex digits.
type Commit string

// Short returns the first seven digits, as people write commits.
func (c Commit) Short() string { return string(c[:min(len(c), 7)]) }

// A Reference says which commit of a remote is meant. Revision is a tag, a
// branch or a full hash and wins over Branch; if both are empty, DefaultBranch
// is meant.
type Reference struct {
	Branch   string
	Revision string
}

// A Source is a remote and how to talk to it.
type Source struct {
	URL         string // https, http, ssh or user@host:path
	Credentials Credentials
	// CABundle holds PEM certificates that are trusted besides the system's.
	CABundle []byte
	// InsecureSkipTLSVerify accepts any certificate.
	InsecureSkipTLSVerify bool
}

// ID returns what identifies a source: the same ID is the same remote, read with the
// same rights. It is a digest and reveals no credential.
func (s Source) ID() string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("git: source without JSON form: %v", err)) // strings, bytes and a bool
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Limits bound what one fetch may cost. A zero field has the default.
type Limits struct {
	PackBytes     int64         // bytes on the wire; 1 GiB
	InflatedBytes int64         // all new objects together, unpacked; 4 GiB
	FileBytes     int64         // one file, unpacked; 100 MiB
	Files         int           // entries in the tree; 100,000
	Depth         int           // nested directories; 64
	Time          time.Duration // one fetch; 5 minutes
	StoreBytes    int64         // a store that has grown beyond is begun again; 512 MiB
}

func (l Limits) withDefaults() Limits {
	set := func(field *int64, value int64) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.PackBytes, 1<<30)
	set(&l.InflatedBytes, 4<<30)
	set(&l.FileBytes, 100<<20)
	set(&l.StoreBytes, 512<<20)
	if l.Files <= 0 {
		l.Files = 100_000
	}
	if l.Depth <= 0 {
		l.Depth = 64
	}
	if l.Time <= 0 {
		l.Time = 5 * time.Minute
	}
	return l
}

// Config configures the package.
type Config struct {
	// Dir is where each process keeps a cache of its own, and removes what killed
	// ones have left; the system's temporary directory where empty.
	Dir string
	// Timeout is how long a remote may take to list its references; 30s where 0.
	Timeout time.Duration
	// UserAgent is sent with every request.
	UserAgent string
	// Proxy chooses the proxy of an HTTP request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses says which reserved addresses are dialled; none by default.
	Addresses address.Policy
	// UnknownHost, where not nil, is called for an SSH host whose key is not known, with the
	// key's SHA-256 fingerprint; the host is then accepted. Without it such a host is
	// refused. A host that shows another key than the known one is refused in any case.
	UnknownHost func(host, fingerprint string)
	Limits      Limits
}

// Remotes reads remotes. It may be used by several goroutines; a remote is
// fetched from by one at a time.
type Remotes struct {
	cfg  Config
	root string
	lock *os.File
	apps *appTokens

	mu      sync.Mutex
	entries map[string]*sourceEntry
}

// idle is how long the store of a remote is kept without a request.
const idle = time.Hour

// New makes Remotes with an empty cache. The caller closes it.
func New(cfg Config) (*Remotes, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "fleet"
	}
	cfg.Limits = cfg.Limits.withDefaults()
	root, lock, err := makeCache(cfg.Dir)
	if err != nil {
		return nil, err
	}
	return &Remotes{cfg: cfg, root: root, lock: lock, apps: newAppTokens(), entries: map[string]*sourceEntry{}}, nil
}

// Close removes the cache. Trees that are still open become unreadable.
func (r *Remotes) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.entries {
		e.closeConnections()
		delete(r.entries, id)
	}
	return errors.Join(os.RemoveAll(r.root), r.lock.Close())
}

// entryFor returns the state kept for a source, made on first use. Entries that have
// been idle are dropped on the way.
func (r *Remotes) entryFor(src Source, ep endpoint) (*sourceEntry, error) {
	id, now := src.ID(), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, e := range r.entries {
		if other != id && now.Sub(e.used) > idle && e.tryLock() {
			e.dropStore()
			delete(r.entries, other)
			e.unlock()
		}
	}
	if e := r.entries[id]; e != nil {
		e.used = now
		return e, nil
	}
	e, err := newEntry(filepath.Join(r.root, id), src, ep, r.cfg, r.apps)
	if err != nil {
		return nil, err
	}
	e.used = now
	r.entries[id] = e
	return e, nil
}

// An Answer is what one Reference means now, or why that is unknown.
type Answer struct {
	Commit Commit
	Err    error
}

// Resolve asks the remote which commit a reference means now. A full hash is
// returned as it is, without asking.
//
// Terminal reasons: InvalidURL, InvalidReference, InvalidCredentials,
// AuthenticationRefused, RepositoryNotFound, EmptyRepository, BranchNotFound,
// RevisionNotFound, CertificateRefused, HostKeyRefused, NotGit, TooLarge. RequeueAfter:
// Unreachable, RemoteFailing.
func (r *Remotes) Resolve(ctx context.Context, src Source, ref Reference) (Commit, error) {
	answer := r.ResolveAll(ctx, src, []Reference{ref})[0]
	return answer.Commit, answer.Err
}

// ResolveAll is Resolve for several references of one remote, in one
// conversation. The answers are in the order of refs; errors are those of
// Resolve.
func (r *Remotes) ResolveAll(ctx context.Context, src Source, refs []Reference) []Answer {
	answers := make([]Answer, len(refs))
	var open []int
	for i, ref := range refs {
		switch err := ref.Validate(); {
		case err != nil:
			answers[i].Err = err
		case isHash(ref.Revision):
			answers[i].Commit = Commit(ref.Revision)
		default:
			open = append(open, i)
		}
	}
	ep, err := parseURL(src.URL)
	if err == nil && len(open) == 0 {
		return answers
	}
	var list *packp.AdvRefs
	if err == nil {
		list, err = r.list(ctx, src, ep, refFilter(refs))
	}
	for i := range answers {
		if err != nil {
			answers[i] = Answer{Err: err}
		}
	}
	if err != nil {
		return answers
	}
	for _, i := range open {
		answers[i].Commit, answers[i].Err = findCommit(list, refs[i])
	}
	return answers
}

// list is the references of a remote that keep wants.
func (r *Remotes) list(ctx context.Context, src Source, ep endpoint, keep func(name []byte) bool) (*packp.AdvRefs, error) {
	e, err := r.entryFor(src, ep)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	s, err := e.connect(ctx)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	defer s.close()
	refs, err := s.advertised(ctx, keep)
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	e.recent.storeRefs(s, refs)
	return refs, nil
}
