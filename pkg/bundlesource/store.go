package bundlesource

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/archive"
)

// A store keeps what was downloaded on disk, by the digest of its bytes, and next to it
// what was unpacked of it. When it grows beyond its limit, it removes what was unused
// for longest. What is in use stays.
//
// What a program has deleted that cleans up temporary directories is fetched again. The
// store does not decide which caller may have what: see answerCache.
type store struct {
	dir   string
	lock  *os.File
	limit int64

	mu    sync.Mutex
	blobs map[digest]*blob
	bytes int64 // of all blobs, packed and unpacked
	turn  uint64
}

// A digest is "sha256:" and 64 hex digits.
type digest string

func (d digest) hex() string { return strings.TrimPrefix(string(d), "sha256:") }

// A blob is one downloaded file.
type blob struct {
	digest digest
	dir    string // of its own; the file is "blob" in it
	packed int64

	// guarded by store.mu
	bytes int64 // packed and unpacked
	users int
	used  uint64 // number of the last use
	trees map[string]*tree
}

// A tree is what was unpacked of a blob in one way.
type tree struct {
	once  sync.Mutex
	ready bool
	dir   string
}

func newStore(dir string, limit int64) (*store, error) {
	root, lock, err := privateDir(dir)
	if err != nil {
		return nil, err
	}
	return &store{dir: root, lock: lock, limit: limit, blobs: map[digest]*blob{}}, nil
}

func (s *store) close() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// A draft is a file that is being downloaded: an io.Writer. It becomes a blob by
// keep; discard, which must follow in any case, ends it.
type partialBlob struct {
	file  *os.File
	sum   hash.Hash
	bytes int64
	store *store
}

func (s *store) newPartialBlob() (*partialBlob, error) {
	f, err := os.CreateTemp(s.dir, "draft-*")
	if errors.Is(err, os.ErrNotExist) && os.MkdirAll(s.dir, 0o700) == nil {
		f, err = os.CreateTemp(s.dir, "draft-*")
	}
	if err != nil {
		return nil, diskFault(err)
	}
	return &partialBlob{file: f, sum: sha256.New(), store: s}, nil
}

// Write implements io.Writer.
func (pb *partialBlob) Write(p []byte) (int, error) {
	n, err := pb.file.Write(p)
	pb.sum.Write(p[:n])
	pb.bytes += int64(n)
	if err != nil {
		err = diskFault(err)
	}
	return n, err
}

func (pb *partialBlob) discard() {
	_ = pb.file.Close()
	_ = os.Remove(pb.file.Name())
}

// keep makes a blob of the file, for one user.
func (pb *partialBlob) keep() (*blob, error) {
	sum := digest("sha256:" + hex.EncodeToString(pb.sum.Sum(nil)))
	s := pb.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.there(sum); b != nil {
		return s.retain(b), nil
	}
	b := &blob{digest: sum, dir: filepath.Join(s.dir, sum.hex()), packed: pb.bytes, bytes: pb.bytes, trees: map[string]*tree{}}
	if err := os.Mkdir(b.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, diskFault(err)
	}
	if err := os.Rename(pb.file.Name(), b.file()); err != nil {
		return nil, diskFault(err)
	}
	s.blobs[sum] = b
	s.bytes += pb.bytes
	s.retain(b)
	s.evict()
	return b, nil
}

func (b *blob) file() string { return filepath.Join(b.dir, "blob") }

// acquire returns the blob of a digest for one user more, or nil.
func (s *store) acquire(sum digest) *blob {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.there(sum)
	if b == nil {
		return nil
	}
	return s.retain(b)
}

// there is the blob of a digest if its file is there. The caller holds the lock.
func (s *store) there(sum digest) *blob {
	b := s.blobs[sum]
	if b == nil {
		return nil
	}
	if _, err := os.Stat(b.file()); err != nil {
		delete(s.blobs, sum) // who still uses it will see
		s.bytes -= b.bytes
		return nil
	}
	return b
}

func (s *store) retain(b *blob) *blob {
	s.turn++
	b.users++
	b.used = s.turn
	return b
}

// release ends one use of a blob.
func (s *store) release(b *blob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	s.evict()
}

// evict removes what was not used for longest until the rest is within the limit. The
// caller holds the lock.
func (s *store) evict() {
	if s.bytes <= s.limit {
		return
	}
	idle := make([]*blob, 0, len(s.blobs))
	for _, b := range s.blobs {
		if b.users == 0 {
			idle = append(idle, b)
		}
	}
	slices.SortFunc(idle, func(a, b *blob) int { return cmp.Compare(a.used, b.used) })
	for _, b := range idle {
		if s.bytes <= s.limit {
			return
		}
		delete(s.blobs, b.digest)
		s.bytes -= b.bytes
		_ = os.RemoveAll(b.dir)
	}
}

// read is the bytes of a blob, which must be in use.
func (s *store) read(b *blob, limit int64) ([]byte, error) {
	if b.packed > limit {
		return nil, permanentf(reasonTooLarge, "it has %d KiB, and %d KiB are left of what may be read of such files", b.packed>>10, limit>>10)
	}
	data, err := os.ReadFile(b.file())
	if err != nil {
		return nil, diskFault(err)
	}
	return data, nil
}

// unpack is the directory that holds what is in a blob, which must be in use:
// unpacked once, and again only if that failed.
func (s *store) unpack(ctx context.Context, b *blob, o archive.Options) (string, error) {
	way := fmt.Sprintf("%s\x00%s", o.Format, filepath.Base(o.Name))
	s.mu.Lock()
	t := b.trees[way]
	if t == nil {
		t = &tree{dir: filepath.Join(b.dir, fmt.Sprintf("tree-%d", len(b.trees)))}
		b.trees[way] = t
	}
	s.mu.Unlock()
	t.once.Lock()
	defer t.once.Unlock()
	if _, err := os.Stat(t.dir); t.ready && err == nil {
		return t.dir, nil
	}
	stats, err := unpackInto(ctx, b, o, t.dir)
	if err != nil {
		_ = os.RemoveAll(t.dir)
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.ready && s.blobs[b.digest] == b {
		b.bytes += stats.Bytes
		s.bytes += stats.Bytes
		s.evict()
	}
	t.ready = true
	return t.dir, nil
}

func unpackInto(ctx context.Context, b *blob, o archive.Options, dir string) (archive.Stats, error) {
	_ = os.RemoveAll(dir) // what is left of another time
	if err := os.Mkdir(dir, 0o700); err != nil {
		return archive.Stats{}, diskFault(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return archive.Stats{}, diskFault(err)
	}
	defer root.Close()
	f, err := os.Open(b.file())
	if err != nil {
		return archive.Stats{}, diskFault(err)
	}
	defer f.Close()
	return archive.Unpack(ctx, f, b.packed, o, root)
}
