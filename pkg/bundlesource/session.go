package bundlesource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// A session is one reading. It asks for everything only once, so that all bundles of a
// reading see the same versions.
type session struct {
	r       *Reader
	access  chart.Access
	context context.Context // of all its downloads together
	end     context.CancelFunc

	mu      sync.Mutex
	parcels map[download]*payload
	indexes map[claim]*catalogue
	trees   map[claim]*checkout
	blobs   []*blob // in use until the end

	reading sync.Mutex
	parsed  []*catalogue // those whose index is in memory, by use
}

// A download is one request on behalf of one set of credentials.
type download struct {
	request chart.Request
	tenant  *tenant
}

// sourceName names the source of a download, as it may stand in messages.
func (d download) sourceName() string {
	if d.request.Repo != "" {
		return chart.Redact(d.request.Repo)
	}
	return chart.Redact(d.request.Chart)
}

// A tenant is the directories that ask with the same credentials.
type tenant struct {
	credentials chart.Credentials
}

// A payload is what came of a download: all but the bytes.
type payload struct {
	once sync.Mutex
	done bool
	artifact
}

type artifact struct {
	fetched chart.Fetched   // without Files and Archive
	blob    *blob           // of charts that were downloaded
	options archive.Options // how blob is unpacked
	tree    fs.FS           // of charts from git
	subdir  string          // the part of blob or tree to use
	source  string          // where it came from, for messages
}

// errLate is why downloads of a reading end that has taken too long.
var errLate = errors.New("downloads took too long")

// newSession begins a reading, which ends with ctx. The caller closes it.
func (r *Reader) newSession(ctx context.Context, access chart.Access) *session {
	s := &session{r: r, access: access, parcels: map[download]*payload{}, indexes: map[claim]*catalogue{}, trees: map[claim]*checkout{}}
	s.context, s.end = context.WithTimeoutCause(ctx, r.cfg.Limits.Time, errLate)
	return s
}

func (s *session) close() {
	s.end()
	for _, b := range s.blobs {
		s.r.store.release(b)
	}
	for _, t := range s.trees {
		if t.tree != nil {
			_ = t.tree.Close()
		}
	}
}

// holdBlob keeps a blob in use until the session is closed.
func (s *session) holdBlob(b *blob) *blob {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs = append(s.blobs, b)
	return b
}

// getOrCreate is the entry of a map, made on first use.
func getOrCreate[K comparable, V any](s *session, m map[K]*V, key K) *V {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// fetchAll runs download, some at a time. A failed download, or one that exceeds the
// time limit of one reading, is part of the payload; the error is that of ctx only.
func (s *session) fetchAll(ctx context.Context, list []download) error {
	var group errgroup.Group
	group.SetLimit(s.r.cfg.Parallel)
	for _, e := range list {
		group.Go(func() error {
			p := getOrCreate(s, s.parcels, e)
			p.once.Lock()
			defer p.once.Unlock()
			if p.done {
				return nil
			}
			if err := s.fetch(s.context, e, p); err != nil {
				if ctx.Err() != nil || errors.Is(err, context.Canceled) {
					return context.Canceled
				}
				if errors.Is(context.Cause(s.context), errLate) && !reconcile.IsTerminal(err) {
					err = reconcile.RequeueError(reasonUnreachable, 0, fmt.Errorf("%q is not there: the downloads of this repository took more than %s", e.sourceName(), s.r.cfg.Limits.Time))
				}
				p.artifact = artifact{fetched: chart.Fetched{Err: transientError(err)}}
			}
			p.done = true
			return nil
		})
	}
	return group.Wait()
}

// label is the result of a request, without bytes: enough to see whether it has
// changed.
func (s *session) label(e download) chart.Fetched { return getOrCreate(s, s.parcels, e).fetched }

// open returns the result of a request, with its files, or with its bytes if
// there are at most limit. closing ends the use of files.
func (s *session) open(ctx context.Context, e download, limit int64) (f chart.Fetched, closing func()) {
	p := getOrCreate(s, s.parcels, e)
	f, closing = p.fetched, func() {}
	if f.Err != nil {
		return f, closing
	}
	var err error
	switch {
	case e.request.Archive && p.tree != nil:
		f.Archive, err = packed(p.tree, p.subdir, e.request.Chart)
	case e.request.Archive:
		f.Archive, err = s.r.store.read(p.blob, limit)
	default:
		f.Files, closing, err = s.files(ctx, p)
	}
	if err != nil {
		return chart.Fetched{Err: transientError(fmt.Errorf("unpack %q: %w", p.source, err))}, closing
	}
	return f, closing
}

// files are those of a chart.
func (s *session) files(ctx context.Context, p *payload) (tree fs.FS, closing func(), err error) {
	tree, closing = p.tree, func() {}
	if p.blob != nil {
		dir, err := s.r.store.unpack(ctx, p.blob, p.options)
		if err != nil {
			return nil, closing, err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, closing, diskFault(err)
		}
		tree, closing = root.FS(), func() { _ = root.Close() }
	}
	tree, err = subdirectory(tree, p.subdir)
	return tree, closing, err
}

// subdirectory is a directory of a tree, which must be there.
func subdirectory(tree fs.FS, dir string) (fs.FS, error) {
	if dir == "" || dir == "." {
		return tree, nil
	}
	info, err := fs.Stat(tree, dir)
	if err != nil || !info.IsDir() {
		return nil, permanentf(reasonSource, "it has no directory %q; name one that is there after //", dir)
	}
	return fs.Sub(tree, dir)
}

func packed(tree fs.FS, dir, name string) ([]byte, error) {
	tree, err := subdirectory(tree, dir)
	if err != nil {
		return nil, err
	}
	return archive.Pack(tree, name)
}

// webCredentials returns the part of credentials that is sent to an HTTP server.
func webCredentials(c chart.Credentials) web.Credentials {
	return web.Credentials{Username: c.Username, Password: c.Password, CABundle: c.CABundle, InsecureSkipVerify: c.InsecureSkipVerify}
}

// gitSource is a git repository as package git knows it.
func gitSource(l chart.Location, c chart.Credentials) git.Source {
	src := git.Source{
		URL: l.URL, CABundle: c.CABundle, InsecureSkipTLSVerify: c.InsecureSkipVerify,
		Credentials: git.Credentials{Username: c.Username, Password: c.Password, SSHPrivateKey: c.SSHPrivateKey, KnownHosts: c.KnownHosts},
	}
	if len(l.SSHKey) > 0 {
		src.Credentials.SSHPrivateKey = l.SSHKey
	}
	return src
}
