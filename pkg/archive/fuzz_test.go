package archive_test

import (
	"testing"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Whatever the bytes are: nothing outside of the directory is touched, nothing
// beyond the limits is written, and the error is one of ours.
func FuzzUnpack(f *testing.F) {
	plain := tarOf(sound()...)
	for format, data := range map[string][]byte{
		"tar": plain, "tgz": gz(plain), "tar.zst": zst(plain), "tar.xz": xzOf(plain, 4), "tar.bz2": bz2(f), "zip": zipOf(sound()[2:]...),
		"gz": gz([]byte("x")), "zst": zst([]byte("x")), "xz": xzOf([]byte("x"), 1), "false": []byte("x"),
	} {
		f.Add(format, "archive", data)
	}
	for _, e := range evils() {
		if len(e.data) < 8<<10 {
			f.Add(e.format, "evil", e.data)
		}
	}
	f.Fuzz(func(t *testing.T, format, name string, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		p := newPlace(t)
		l := archive.Limits{Files: 100, Bytes: 1 << 20, Depth: 10, PathBytes: 200}
		stats, err := p.unpack(data, archive.Options{Format: format, Name: name, Limits: l})
		p.untouched(t)
		if stats.Bytes > l.Bytes || len(p.tree(t)) > l.Files {
			t.Errorf("%+v is beyond %+v", stats, l)
		}
		if err != nil && !reconcile.IsTerminal(err) {
			t.Errorf("a fault of the archive that is not called so: %v", err)
		}
	})
}
