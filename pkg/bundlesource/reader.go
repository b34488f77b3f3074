// Package bundlesource makes the Bundles of a tree of files, and downloads the charts
// and dependencies that they need: package bundle of pkg/plan says what is missing, the
// reader fetches it, and asks again.
//
// Downloads are kept on disk by digest and shared by all repositories. A caller gets
// only what the source gave, or confirmed, to the caller's own credentials: see
// docs/decisions/0023. Results are kept in memory, and reused if a commit cannot have
// changed them: 0022.
package bundlesource

import (
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// Limits bound what a Reader may cost. A zero field has the default.
type Limits struct {
	StoreBytes      int64          // downloads kept on disk, besides those in use; 2 GiB
	ArchiveBytes    int64          // one downloaded archive or chart; 512 MiB
	DependencyBytes int64          // all packaged dependencies of one bundle, which go into it as they are; 64 MiB
	Unpacked        archive.Limits // limits for an unpacked archive
	MemoryBytes     int64          // results kept in memory, of all repositories; 64 MiB
	ReadingBytes    int64          // all bundles of one reading; 160 MiB
	Rounds          int            // how often one bundle may ask for something more; 10
	Time            time.Duration  // all downloads of one reading; 15 minutes
}

func (l Limits) withDefaults() Limits {
	set := func(field *int64, value int64) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.StoreBytes, 2<<30)
	set(&l.ArchiveBytes, 512<<20)
	set(&l.DependencyBytes, 64<<20)
	set(&l.MemoryBytes, 64<<20)
	set(&l.ReadingBytes, 160<<20)
	if l.Rounds <= 0 {
		l.Rounds = 10
	}
	if l.Time <= 0 {
		l.Time = 15 * time.Minute
	}
	return l
}

// parallel is how many downloads of one reading run at once.
const parallel = 4

// Config configures a Reader. The zero Config works, without git.
type Config struct {
	// Dir is where a private directory for downloads is made; the system's
	// temporary directory where empty.
	Dir string
	// UserAgent is sent with every request.
	UserAgent string
	// Proxy chooses the proxy of an HTTP request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Addresses says which reserved addresses are dialled; none by default.
	Addresses address.Policy
	// Git reads charts from git. The caller closes it.
	Git    *git.Remotes
	Limits Limits
	// Parallel is how many downloads of one reading run at once; 4 where 0.
	Parallel int
	// Offline downloads nothing: a file that is missing in the tree is a finding.
	Offline bool
}

// A Reader reads trees. It may be used by several goroutines.
type Reader struct {
	cfg      Config
	web      *web.Client
	oci      *oci.Client
	store    *store
	answers  answerCache
	flights  singleflight.Group
	memory   memoryLimit
	listings listings

	context context.Context // of downloads, which several readings may wait for
	stop    context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// New makes a Reader with an empty store. The caller closes it.
func New(cfg Config) (*Reader, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Parallel < 1 {
		cfg.Parallel = parallel
	}
	s, err := newStore(cfg.Dir, cfg.Limits.StoreBytes)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		cfg: cfg, store: s, memory: memoryLimit{limit: cfg.Limits.MemoryBytes},
		web: web.New(web.Config{UserAgent: cfg.UserAgent, Proxy: cfg.Proxy, Addresses: cfg.Addresses}),
		oci: oci.New(oci.Config{UserAgent: cfg.UserAgent, Proxy: cfg.Proxy, Addresses: cfg.Addresses}),
	}
	r.context, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// beginDownload notes that a download begins, unless the reader is closed.
func (r *Reader) beginDownload() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Add(1)
	}
	return !r.closed
}

// Close ends downloads and removes what was downloaded. No Read may run or follow.
func (r *Reader) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.running.Wait()
	r.web.Close()
	return r.store.close()
}

// An Input is one tree and what to make of it.
type Input struct {
	Tree    fs.FS
	Paths   []string           // shell patterns; none: the root
	Entries []fleet.BundlePath // if any, they are the bundles
	Options bundle.Options
	// Access says which credentials are sent where.
	Access chart.Access
	// Previous, if not nil, is what an earlier Read of the same repository
	// remembered. It is used up.
	Previous *Memory
}

// Read returns the bundles of a tree, and what the next reading may use of this one.
//
// What is wrong with one bundle, also that something of it cannot be downloaded, is a
// finding of its Result. An error is that of ctx, or reconcile.Terminal, TooLarge, if
// the bundles are too much together.
func (r *Reader) Read(ctx context.Context, in Input) (bundle.Set, *Memory, error) {
	s := r.newSession(ctx, in.Access)
	defer s.close()
	m := r.memory.memoryFor(in)
	dirs, found := m.discovery.Dirs(in.Tree, in.Paths, in.Entries)
	w := newWork(s, in, dirs)
	if err := w.reuseResults(ctx, m); err != nil {
		return bundle.Set{}, nil, err
	}
	if err := w.assemble(ctx); err != nil {
		return bundle.Set{}, nil, err
	}
	r.memory.keepResults(m, w.results)
	set := bundle.NewSet(w.results, found)
	set.Absent = m.discovery.Absent()
	return set, m, nil
}

// Forget releases what was remembered of a repository.
func (r *Reader) Forget(m *Memory) { r.memory.release(m) }
