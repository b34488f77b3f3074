package archive_test

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// small is for tests of limits.
var small = archive.Limits{Files: 4, Depth: 6, Bytes: 100, FileBytes: 70, PathBytes: 50}

// A place is a directory to unpack into, between files that must not change.
type place struct {
	above string
	root  *os.Root
}

func newPlace(t testing.TB) place {
	above := t.TempDir()
	for _, name := range []string{"escaped", "before"} {
		if err := os.WriteFile(filepath.Join(above, name), []byte("outside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(above, "into"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(above, "into"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return place{above, root}
}

// tree lists what is in the directory.
func (p place) tree(t testing.TB) map[string]string {
	got := map[string]string{}
	err := fs.WalkDir(os.DirFS(filepath.Join(p.above, "into")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			got[name] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(filepath.Join(p.above, "into", name))
			if err != nil {
				return err
			}
			got[name] = "-> " + target
		default:
			got[name] = fmt.Sprint(info.Mode(), " ", info.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// untouched fails if anything outside of the directory has changed, or if
// something in it leads out.
func (p place) untouched(t testing.TB) {
	t.Helper()
	list, err := os.ReadDir(p.above)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	if !slices.Equal(names, []string{"before", "escaped", "into"}) {
		t.Errorf("beside the directory: %q", names)
	}
	for _, name := range []string{"escaped", "before"} {
		data, err := os.ReadFile(filepath.Join(p.above, name))
		if err != nil || string(data) != "outside" {
			t.Errorf("%s has become %q (%v)", name, data, err)
		}
	}
	inside, err := filepath.EvalSymlinks(filepath.Join(p.above, "into"))
	if err != nil {
		t.Fatal(err)
	}
	for name, what := range p.tree(t) {
		if what == "directory" || strings.HasPrefix(what, "-> ") || strings.HasPrefix(what, "-rw-r--r-- ") || strings.HasPrefix(what, "-rwxr-xr-x ") {
			if at, err := filepath.EvalSymlinks(filepath.Join(inside, name)); err == nil && at != inside && !strings.HasPrefix(at, inside+"/") {
				t.Errorf("%s leads to %s", name, at)
			}
			continue
		}
		t.Errorf("%s is %s", name, what)
	}
}

func (p place) unpack(data []byte, o archive.Options) (archive.Stats, error) {
	return archive.Unpack(context.Background(), bytes.NewReader(data), int64(len(data)), o, p.root)
}

func TestUnpackFormats(t *testing.T) {
	plain := tarOf(sound()...)
	tests := map[string]struct {
		o    archive.Options
		data []byte
	}{
		"Tar":            {archive.Options{Name: "/charts/app.tar"}, plain},
		"TarGz":          {archive.Options{Name: "/charts/app-1.0.0.tar.gz"}, gz(plain)},
		"Tgz":            {archive.Options{Name: "APP.TGZ"}, gz(plain)},
		"TarZst":         {archive.Options{Name: "app.tar.zst"}, zst(plain)},
		"TarZstd":        {archive.Options{Name: "app.tar.zstd"}, zst(plain)},
		"Tzst":           {archive.Options{Name: "app.tzst"}, zst(plain)},
		"TarXz":          {archive.Options{Name: "app.tar.xz"}, xzOf(plain, 4)},
		"TxzCRC32":       {archive.Options{Name: "app.txz"}, xzOf(plain, 1)},
		"TxzSHA256":      {archive.Options{Name: "app.txz"}, xzOf(plain, 10)},
		"TxzNoCheck":     {archive.Options{Name: "app.txz"}, xzOf(plain, 0)},
		"TxzTwoStreams":  {archive.Options{Name: "app.txz"}, slices.Concat(xzOf(plain[:1000], 4), make([]byte, 8), xzOf(plain[1000:], 1))},
		"GzTwoMembers":   {archive.Options{Name: "app.tgz"}, slices.Concat(gz(plain[:1000]), gz(plain[1000:]))},
		"Zip":            {archive.Options{Name: "app.zip"}, zipOf(sound()[2:]...)},
		"FormatWins":     {archive.Options{Name: "download.zip", Format: "tar.gz"}, gz(plain)},
		"FormatWithDot":  {archive.Options{Name: "download", Format: ".TGZ"}, gz(plain)},
		"TarBz2":         {archive.Options{Name: "app.tar.bz2"}, bz2(t)},
		"Tbz2":           {archive.Options{Name: "app.tbz2"}, bz2(t)},
		"TrailingZeroes": {archive.Options{Name: "app.tgz"}, append(gz(plain), make([]byte, 100)...)},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			stats, err := p.unpack(c.data, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(soundTree, p.tree(t)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if stats.Bytes != 40067 {
				t.Errorf("%+v", stats)
			}
			p.untouched(t)
		})
	}
}

// sound.tar.bz2 is sound() through bzip2(1): the standard library only reads
// that format. The test compares.
func TestCorpusOfBzip2(t *testing.T) {
	if *update {
		bzip2 := exec.Command("bzip2")
		bzip2.Stdin = bytes.NewReader(tarOf(sound()...))
		data, err := bzip2.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("testdata", "sound.tar.bz2"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(bz2(t))))
	if err != nil || !bytes.Equal(got, tarOf(sound()...)) {
		t.Errorf("testdata/sound.tar.bz2 is not bzip2 of what this test makes (%v)", err)
	}
}

// What xz(1) writes is read, in the ways in which people call it.
func TestUnpackXZProgram(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz on this machine")
	}
	for _, flags := range [][]string{{"-0"}, {"-9"}, {"-T2", "--block-size=4096"}, {"--check=crc32"}, {"--check=sha256"}, {"--x86", "--lzma2"}} {
		xz := exec.Command("xz", append(flags, "-c")...)
		xz.Stdin = bytes.NewReader(tarOf(sound()...))
		data, err := xz.Output()
		if err != nil {
			t.Fatal(err)
		}
		p := newPlace(t)
		if _, err := p.unpack(data, archive.Options{Format: "txz"}); err != nil {
			t.Errorf("xz %q: %v", flags, err)
		}
		if diff := cmp.Diff(soundTree, p.tree(t)); diff != "" {
			t.Errorf("xz %q: -want +got\n%s", flags, diff)
		}
	}
}

func TestUnpackSingleFile(t *testing.T) {
	tests := map[string]struct {
		o    archive.Options
		data []byte
		want string
	}{
		"Gz":              {archive.Options{Name: "/a/values.yaml.gz"}, gz([]byte("a: 1\n")), "values.yaml"},
		"Zst":             {archive.Options{Name: "values.yaml.zst"}, zst([]byte("a: 1\n")), "values.yaml"},
		"Zstd":            {archive.Options{Name: "values.yaml.zstd"}, zst([]byte("a: 1\n")), "values.yaml"},
		"Xz":              {archive.Options{Name: "values.yaml.xz"}, xzOf([]byte("a: 1\n"), 4), "values.yaml"},
		"FormatOnly":      {archive.Options{Name: "values", Format: "gz"}, gz([]byte("a: 1\n")), "values"},
		"NoName":          {archive.Options{Name: "/", Format: "gz"}, gz([]byte("a: 1\n")), "file"},
		"OnlyTheEnding":   {archive.Options{Name: ".gz"}, gz([]byte("a: 1\n")), ".gz"},
		"Plain":           {archive.Options{Name: "/a/values.yaml"}, []byte("a: 1\n"), "values.yaml"},
		"PlainNoName":     {archive.Options{}, []byte("a: 1\n"), "file"},
		"PlainDots":       {archive.Options{Name: "/a/.."}, []byte("a: 1\n"), "file"},
		"NotUnpacked":     {archive.Options{Name: "app.tgz", Format: "false"}, []byte("a: 1\n"), "app.tgz"},
		"QueryInTheNames": {archive.Options{Name: "/x?y=z"}, []byte("a: 1\n"), "x?y=z"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if _, err := p.unpack(c.data, c.o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{c.want: "-rw-r--r-- 5"}, p.tree(t)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	p := newPlace(t)
	if _, err := p.unpack(nil, archive.Options{Name: "a", Format: "rar"}); reconcile.ReasonOf(err) != archive.ReasonInvalidArchive {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	all := evils()
	maps.Copy(all, bombs())
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			o := archive.Options{Format: e.format, Name: "evil"}
			if e.limits != "" {
				o.Limits = small
			}
			stats, err := p.unpack(e.data, o)
			if err == nil || !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), e.text) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want a permanent fault with %q", err, e.text)
			}
			if reason := reconcile.ReasonOf(err); e.reason != "any" && reason != e.reason {
				t.Errorf("got %s, want %s: %v", reason, e.reason, err)
			}
			if strings.ContainsAny(err.Error(), "\x1b\u202e") {
				t.Errorf("the message repeats control characters: %q", err)
			}
			p.untouched(t)
			written := int64(0)
			for name, what := range p.tree(t) {
				var size int64
				if n, _ := fmt.Sscanf(what[strings.LastIndex(what, " ")+1:], "%d", &size); n == 1 && !strings.HasPrefix(what, "->") {
					written += size
				}
				if strings.HasPrefix(what, "->") {
					t.Errorf("a link was made before all were judged: %s %s", name, what)
				}
			}
			if limit := int64(16<<20 + 200*len(e.data)); written > limit || stats.Bytes != written {
				t.Errorf("%d bytes were written, %d reported, %d allowed", written, stats.Bytes, limit)
			}
		})
	}
}

// Legitimate archives pass with the default limits: many small files in a small
// archive have a high ratio, and so have a few repetitive ones.
func TestUnpackIsNoBomb(t *testing.T) {
	var many []part
	for i := range 17_000 { // more than 16 MiB of headers and padding
		many = append(many, file(fmt.Sprintf("d%d/crd-%d.yaml", i%50, i), "kind: CustomResourceDefinition\n"))
	}
	for name, data := range map[string][]byte{
		"Many":       gz(tarOf(many...)),
		"Repetitive": gz(tarOf(file("a", strings.Repeat("a", 15<<20)))),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newPlace(t).unpack(data, archive.Options{Format: "tgz"}); err != nil {
				t.Error(err)
			}
		})
	}
}

type brokenDisk struct{ io.ReaderAt }

var errDisk = errors.New("input/output error")

func (brokenDisk) ReadAt(p []byte, off int64) (int, error) { return 0, errDisk }

// A fault of the disk is not the archive's: it may pass by itself.
func TestUnpackFaults(t *testing.T) {
	for _, format := range []string{"tgz", "zip", "tar.xz", "tar.zst", "tar.bz2", "tar", "gz"} {
		if _, err := archive.Unpack(t.Context(), brokenDisk{}, 1000, archive.Options{Format: format}, newPlace(t).root); !errors.Is(err, errDisk) || reconcile.IsTerminal(err) {
			t.Errorf("%s: got %v", format, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := gz(tarOf(sound()...))
	if _, err := archive.Unpack(ctx, bytes.NewReader(data), int64(len(data)), archive.Options{Format: "tgz"}, newPlace(t).root); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}
