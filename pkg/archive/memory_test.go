package archive_test

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fleetworkspace/fleet/pkg/archive"
)

// large makes an archive of 100 MiB in files of 1 MiB that do not compress,
// without ever holding it.
func large(t *testing.T, compress func(io.Writer) io.WriteCloser) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	z := compress(f)
	w := tar.NewWriter(z)
	noise := rand.NewChaCha8([32]byte{})
	for i := range 100 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d/%d", i), Typeflag: tar.TypeReg, Size: 1 << 20, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(w, noise, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// peak runs f and returns how much the heap grew at most.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // GOGC must not change what is measured
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, highest := m.HeapInuse, uint64(0)
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			highest = max(highest, m.HeapInuse)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return highest - min(highest, before)
}

// Memory does not grow with the archive: 100 MiB pass through less than 16.
func TestUnpackMemory(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("writes 400 MiB")
	}
	for name, compress := range map[string]func(io.Writer) io.WriteCloser{
		"tgz": func(w io.Writer) io.WriteCloser {
			z, _ := gzip.NewWriterLevel(w, gzip.HuffmanOnly)
			return z
		},
		"tar.zst": func(w io.Writer) io.WriteCloser {
			z, _ := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
			return z
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := large(t, compress)
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			p := newPlace(t)
			var stats archive.Stats
			grown := peak(func() {
				stats, err = archive.Unpack(t.Context(), f, info.Size(), archive.Options{Format: name}, p.root)
			})
			if err != nil || stats.Bytes != 100<<20 || stats.Files != 100 {
				t.Fatalf("%+v, %v", stats, err)
			}
			if grown > 16<<20 {
				t.Errorf("the heap grew by %d MiB", grown>>20)
			}
			t.Logf("the heap grew by %d KiB", grown>>10)
		})
	}
}

// What an attacker makes the decoders allocate is bounded too.
func TestRefusalMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates too")
	}
	all := evils()
	maps.Copy(all, bombs())
	for _, name := range []string{"greedy-xz", "bomb-gz", "bomb-zst", "bomb-zip", "sparse-gnu", "sparse-pax"} {
		e := all[name]
		p := newPlace(t)
		grown := peak(func() { _, _ = p.unpack(e.data, archive.Options{Format: e.format}) })
		if grown > 24<<20 {
			t.Errorf("%s: the heap grew by %d MiB", name, grown>>20)
		}
	}
	// A zip whose list of files is far longer than what is allowed.
	many := make([]part, 40_000)
	for i := range many {
		many[i] = file(fmt.Sprintf("%01000d", i), "")
	}
	data := zipOf(many...)
	p := newPlace(t)
	grown := peak(func() {
		if _, err := p.unpack(data, archive.Options{Format: "zip"}); err == nil {
			t.Error("a zip with 40 MiB of names was unpacked")
		}
	})
	if len(p.tree(t)) > 0 || grown > 100<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}
