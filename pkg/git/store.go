package git

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

const (
	// maxPacks is how many fetches one store takes before it is begun again: every
	// lookup asks every pack.
	maxPacks = 40
	// objectCacheBytes is kept of unpacked objects for each open tree, and
	// moduleCacheBytes for each of its submodules.
	objectCacheBytes = 4 << 20
	moduleCacheBytes = 512 << 10
)

// An entry is what is kept for one source: connections and a store.
type sourceEntry struct {
	src       Source
	ep        endpoint
	dir       string
	userAgent string
	limits    Limits
	addresses address.Policy
	// unknownHost is Config.UnknownHost.
	unknownHost func(host, fingerprint string)

	transport *http.Transport
	apps      *appTokens
	used      time.Time // guarded by Remotes.mu
	recent    recentRefs

	// lock is held while a fetch into the store runs. It is a channel so that waiting
	// ends with a context.
	lock chan struct{}
	// gen, number and noHaves are guarded by lock.
	gen     *storeGeneration
	number  int
	noHaves bool // this remote is better asked for whole commits
}

func newEntry(dir string, src Source, ep endpoint, cfg Config, apps *appTokens) (*sourceEntry, error) {
	transport, err := newTransport(src, cfg)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cacheFault(err)
	}
	return &sourceEntry{
		src: src, ep: ep, dir: dir, userAgent: cfg.UserAgent, limits: cfg.Limits, addresses: cfg.Addresses, unknownHost: cfg.UnknownHost,
		transport: transport, apps: apps, lock: make(chan struct{}, 1),
	}, nil
}

func (e *sourceEntry) acquire(ctx context.Context) error {
	select {
	case e.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *sourceEntry) tryLock() bool {
	select {
	case e.lock <- struct{}{}:
		return true
	default:
		return false
	}
}

func (e *sourceEntry) unlock() { <-e.lock }

func (e *sourceEntry) closeConnections() { e.transport.CloseIdleConnections() }

// dropStore forgets the store and its connections. The caller holds the lock.
func (e *sourceEntry) dropStore() {
	e.closeConnections()
	if e.gen != nil {
		e.gen.release()
		e.gen = nil
	}
	_ = os.Remove(e.dir) // goes only if no tree is being read any more
}

// generation returns the present store, created on first use and again when it has
// grown beyond its bounds. The caller holds the lock.
func (e *sourceEntry) generation() (*storeGeneration, error) {
	if g := e.gen; g != nil && (g.bytes > e.limits.StoreBytes || g.packs >= maxPacks) {
		e.renewStore()
	}
	if e.gen != nil {
		return e.gen, nil
	}
	e.number++
	g := &storeGeneration{dir: filepath.Join(e.dir, strconv.Itoa(e.number)), users: 1, commits: map[Commit]bool{}, trees: map[plumbing.Hash]treeSize{}}
	if err := g.open().Init(); err != nil {
		return nil, fmt.Errorf("%w: %w", errCache, err)
	}
	e.gen = g
	return g, nil
}

// renewStore releases the present store; open trees keep it until they are closed. The
// caller holds the lock.
func (e *sourceEntry) renewStore() {
	if e.gen != nil {
		e.gen.release()
		e.gen = nil
	}
}

// A storeGeneration is a bare store on disk. It is removed when its last user has released
// it.
type storeGeneration struct {
	dir     string
	commits map[Commit]bool            // fetched and checked
	trees   map[plumbing.Hash]treeSize // checked, with all below
	bytes   int64
	packs   int
	files   int // on disk, after the last fetch

	mu    sync.Mutex
	users int
}

// open is a view of the store with an index and a cache of its own: the
// library's views are not safe for several goroutines.
func (g *storeGeneration) open() *filesystem.Storage {
	return g.storage(objectCacheBytes, filesystem.Options{})
}

// openFrozen is a view that does not see what comes later. It keeps files open
// and knows what is there, so that it costs a fraction of the other to read.
func (g *storeGeneration) openFrozen(cacheBytes cache.FileSize) *filesystem.Storage {
	return g.storage(cacheBytes, filesystem.Options{ExclusiveAccess: true, KeepDescriptors: true})
}

func (g *storeGeneration) storage(cacheBytes cache.FileSize, o filesystem.Options) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(g.dir), cache.NewObjectLRU(cacheBytes), o)
}

// objectFiles is how many files hold the objects of the store.
func (g *storeGeneration) objectFiles() int {
	n := 0
	_ = filepath.WalkDir(filepath.Join(g.dir, "objects"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil // an unreadable file is missing in the sum
	})
	return n
}

// forgetChecked forgets what was checked if files have gone since, as programs that
// clean up temporary directories do.
func (g *storeGeneration) forgetChecked() {
	if len(g.trees) > 0 && g.objectFiles() != g.files {
		clear(g.trees)
	}
}

func (g *storeGeneration) retain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
}

func (g *storeGeneration) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users--; g.users == 0 {
		_ = os.RemoveAll(g.dir)
	}
}
