package content_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/test/raced"
)

// noise is text that does not compress below three quarters.
func noise(bytes int) string {
	raw := make([]byte, base64.StdEncoding.DecodedLen(bytes+4))
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)[:bytes]
}

func packed(t testing.TB, m content.Manifest) content.Packed {
	t.Helper()
	p, err := content.Pack(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// split is a manifest as index and parts.
func split(t testing.TB, m content.Manifest) (*fleet.Content, []*fleet.Content) {
	t.Helper()
	all := packed(t, m).Contents()
	return all[len(all)-1], all[:len(all)-1]
}

func TestContents(t *testing.T) {
	cases := map[string]struct {
		why   string
		in    content.Manifest
		parts int
	}{
		"Empty":     {"an empty bundle is a bundle", manifest(), 0},
		"Small":     {"what fits is read by every agent", manifest(fleet.BundleResource{Name: "a", Content: "x"}), 0},
		"Repeating": {"what counts is the packed size", manifest(fleet.BundleResource{Name: "a", Content: strings.Repeat("text ", 4<<20)}), 0},
		"FiveMiB":   {"data that does not compress", manifest(fleet.BundleResource{Name: "a", Content: noise(5 << 20)}), 6},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			index, parts := split(t, c.in)
			if len(parts) != c.parts {
				t.Fatalf("%s: %d parts", c.why, len(parts))
			}
			for _, o := range append(parts, index) {
				if raw, err := json.Marshal(o); err != nil || len(raw) >= 1<<20 {
					t.Errorf("%s: %d bytes of JSON, %v", o.Name, len(raw), err)
				}
			}
			if n, err := content.Parts(index); n != c.parts || err != nil {
				t.Errorf("the index says %d, %v", n, err)
			}
			if c.parts > 0 && len(index.Content) > 0 {
				t.Error("the index holds content")
			}
			whole, err := content.Join(index, parts)
			if err != nil || !bytes.Equal(whole, content.Compress(content.Encode(c.in))) {
				t.Fatalf("joined: %d bytes, %v", len(whole), err)
			}
			if err := content.Check(index.Name, whole); err != nil {
				t.Error(err)
			}
			got, err := content.Unpack(content.ID(c.in), whole)
			if diff := cmp.Diff(c.in, got); diff != "" || err != nil {
				t.Errorf("%v\n%.200s", err, diff)
			}
		})
	}
}

// An agent must never put together what was not cut apart so.
func TestJoinRefuses(t *testing.T) {
	index, parts := split(t, manifest(fleet.BundleResource{Name: "a", Content: noise(3 << 20)}))
	cases := map[string]func(i *fleet.Content, p []*fleet.Content) []*fleet.Content{
		"OneMissing":   func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { return p[1:] },
		"OneMore":      func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { return append(p, p[0]) },
		"Swapped":      func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { p[0], p[1] = p[1], p[0]; return p },
		"Renamed":      func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { p[0].Name = p[1].Name; return p },
		"OfAnother":    func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { p[0].Labels = nil; return p },
		"OtherBytes":   func(_ *fleet.Content, p []*fleet.Content) []*fleet.Content { p[0].Content = p[1].Content; return p },
		"Negative":     chunks("-1"),
		"None":         chunks("0"),
		"NoNumber":     chunks("four"),
		"WithoutBound": chunks("1000000000"),
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			i, p := index.DeepCopy(), make([]*fleet.Content, len(parts))
			for n := range parts {
				p[n] = parts[n].DeepCopy()
			}
			_, err := content.Join(i, damage(i, p))
			if reconcile.ReasonOf(err) != content.ReasonDamaged || !reconcile.IsTerminal(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func chunks(n string) func(*fleet.Content, []*fleet.Content) []*fleet.Content {
	return func(i *fleet.Content, p []*fleet.Content) []*fleet.Content {
		i.Annotations[fleet.AnnotationContentChunks] = n
		return p
	}
}

func TestCheckRefuses(t *testing.T) {
	m := manifest(fleet.BundleResource{Name: "a", Content: "x"})
	good := packed(t, m)
	for name, raw := range map[string][]byte{
		"Nothing": nil, "NoGzip": []byte("{}"), "CutOff": good.Bytes()[:good.PackedBytes-4], "Other": content.Compress([]byte("{}\n")),
	} {
		if err := content.Check(good.ID, raw); reconcile.ReasonOf(err) != content.ReasonDamaged {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := content.Unpack(good.ID, raw); reconcile.ReasonOf(err) != content.ReasonDamaged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsID(t *testing.T) {
	good := content.ID(manifest())
	for id, want := range map[string]bool{
		good: true, "": false, "s-": false, good + "0": false, good[:62] + "G": false, "x" + good[1:]: false, "s-" + strings.Repeat("/", 61): false,
	} {
		if content.IsID(id) != want {
			t.Errorf("%q: want %v", id, want)
		}
	}
}

func TestLargest(t *testing.T) {
	zipped, err := content.Resource("z.bin", bytes.Repeat([]byte{0xff, 0}, 1<<20), true)
	if err != nil {
		t.Fatal(err)
	}
	got := content.Largest(manifest(
		fleet.BundleResource{Name: "small", Content: "x"},
		fleet.BundleResource{Name: "b", Content: strings.Repeat("x", 3000)},
		zipped,
		fleet.BundleResource{Name: strings.Repeat("deep/", 30) + "a.yaml", Content: strings.Repeat("x", 3000)},
		fleet.BundleResource{Name: "odd", Content: "!!", Encoding: "base64+gz"},
	))
	want := "z.bin (2.0 MiB), b (2 KiB), ..." + strings.Repeat("deep/", 30)[150-39:] + "a.yaml (2 KiB)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := content.Largest(manifest()); got != "" {
		t.Errorf("nothing is largest of nothing: %q", got)
	}
}

// Packing 20 MiB holds what comes out of it, and little more; its digest alone
// next to nothing. A copy of the JSON would be seen here.
func TestPackingIsFrugal(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates, too")
	}
	m := manifest(fleet.BundleResource{Name: "a", Content: noise(16 << 20)}, fleet.BundleResource{Name: "b", Content: noise(4 << 20)})
	allocated := func(f func()) int64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc-before.TotalAlloc) >> 20
	}
	var p content.Packed
	if got := allocated(func() { p = packed(t, m) }); got > p.PackedBytes>>20+32 {
		t.Errorf("packing allocated %d MiB in all for %d MiB", got, p.PackedBytes>>20)
	}
	raw := p.Bytes()
	if got := allocated(func() {
		if err := content.Check(p.ID, raw); err != nil {
			t.Error(err)
		}
	}); got > 1 {
		t.Errorf("checking allocated %d MiB", got)
	}
}

// The streaming encoder writes what encoding/json would.
func FuzzEncode(f *testing.F) {
	long := strings.Repeat("a", 32<<10)
	for _, s := range []string{"", "x", "<&>\u2028\x00\xff", long + "ä", long[1:] + "\u2028", long[2:] + "\xe2\x80", long + "\x80\x80\x80\x80\x80"} {
		f.Add("name", s, "")
		f.Add(s, s, "base64")
	}
	f.Fuzz(func(t *testing.T, name, data, encoding string) {
		m := manifest(fleet.BundleResource{Name: name, Content: data, Encoding: encoding}, fleet.BundleResource{})
		want, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := content.Encode(m); !bytes.Equal(got, append(want, '\n')) {
			t.Errorf("%.200q\n%.200q", got, want)
		}
		if content.Sum(m) != content.Digest(append(want, '\n')) {
			t.Error("the digest is another")
		}
	})
}

// Foreign objects never give a panic, and nothing that Check would accept
// without being it.
func FuzzJoin(f *testing.F) {
	whole := packed(f, manifest(fleet.BundleResource{Name: "a", Content: "x"})).Bytes()
	f.Add("2", whole[:10], whole[10:], "-0")
	f.Add("1", whole, whole, "-1")
	f.Add("", whole, []byte{}, "")
	f.Fuzz(func(t *testing.T, count string, a, b []byte, suffix string) {
		id := content.ID(manifest(fleet.BundleResource{Name: "a", Content: "x"}))
		index := &fleet.Content{}
		index.Name, index.Annotations = id, map[string]string{fleet.AnnotationContentChunks: count}
		part := func(name string, data []byte) *fleet.Content {
			c := &fleet.Content{Content: data}
			c.Name, c.Labels = name, map[string]string{fleet.LabelContentOf: id}
			return c
		}
		got, err := content.Join(index, []*fleet.Content{part(id+suffix, a), part(content.PartName(id, 1), b)})
		if err != nil {
			return
		}
		if !bytes.Equal(got, append(append([]byte{}, a...), b...)) {
			t.Error("joined otherwise")
		}
		if content.Check(id, got) == nil && !bytes.Equal(content.Encode(manifest(fleet.BundleResource{Name: "a", Content: "x"})), unpacked(t, got)) {
			t.Error("accepted what it is not")
		}
	})
}

func unpacked(t *testing.T, packed []byte) []byte {
	raw, err := content.Decompress(packed, content.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func BenchmarkPack60MiB(b *testing.B) {
	m := manifest(fleet.BundleResource{Name: "a", Content: noise(60 << 20)})
	b.Run("Sum", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			content.Sum(m)
		}
	})
	b.Run("Pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			packed(b, m)
		}
	})
	whole := packed(b, m)
	raw := whole.Bytes()
	b.Run("Check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := content.Check(whole.ID, raw); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Unpack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := content.Unpack(whole.ID, raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
