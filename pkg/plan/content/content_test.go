package content_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func manifest(resources ...fleet.BundleResource) content.Manifest {
	return content.Manifest{Resources: resources}
}

func TestID(t *testing.T) {
	tests := map[string]struct {
		in   content.Manifest
		json string
		want string
		why  string
	}{
		"Vector": {manifest(fleet.BundleResource{Name: "a.yaml", Content: "x"}),
			`{"resources":[{"name":"a.yaml","content":"x"}]}`,
			"s-902c80d9af09be4c64bb5c86aca53351f865e7e42eaeb3368f0fc93d653f5", "known vector"},
		"Escapes": {manifest(fleet.BundleResource{Name: "a", Content: "<&>\u2028"}),
			`{"resources":[{"name":"a","content":"\u003c\u0026\u003e\u2028"}]}`, "", "escaped as encoding/json does"},
		"Encoding": {manifest(fleet.BundleResource{Name: "a", Content: "eA==", Encoding: "base64"}),
			`{"resources":[{"name":"a","content":"eA==","encoding":"base64"}]}`, "", "the order of the fields counts"},
		"Empty":     {manifest(), `{}`, "", "empty fields are left out"},
		"EmptyFile": {manifest(fleet.BundleResource{Name: "a"}), `{"resources":[{"name":"a"}]}`, "", "empty fields are left out"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			raw := content.Encode(c.in)
			if string(raw) != c.json+"\n" {
				t.Errorf("%s: got %s", c.why, raw)
			}
			if id := content.ID(c.in); len(id) != 63 || c.want != "" && id != c.want {
				t.Errorf("%s: got %s", c.why, id)
			}
			back, err := content.Decode(raw)
			if diff := cmp.Diff(c.in, back); diff != "" || err != nil {
				t.Errorf("%v\n-want +got: %s", err, diff)
			}
		})
	}
}

func TestNewAndOpen(t *testing.T) {
	want := manifest(fleet.BundleResource{Name: "a", Content: strings.Repeat("text ", 1000)})
	c, err := content.New(want)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != content.ID(want) || c.Kind != "Content" || len(c.Content) > 500 {
		t.Errorf("named %s, %d bytes", c.Name, len(c.Content))
	}
	again, err := content.New(want)
	if diff := cmp.Diff(c, again); diff != "" || err != nil {
		t.Errorf("made twice it differs: %s, %v", diff, err)
	}
	got, err := content.Open(c)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n-want +got: %s", err, diff)
	}
	c.SHA256Sum = ""
	if _, err := content.Open(c); err != nil {
		t.Errorf("contents made long ago have no sum: %v", err)
	}
}

// An agent must never deploy what is not what the deployment asked for.
func TestOpenRefuses(t *testing.T) {
	good, err := content.New(manifest(fleet.BundleResource{Name: "a", Content: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	other, err := content.New(manifest(fleet.BundleResource{Name: "a", Content: "y"}))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*fleet.Content){
		"OtherBytes": func(c *fleet.Content) { c.Content = other.Content },
		"OtherSum":   func(c *fleet.Content) { c.SHA256Sum = other.SHA256Sum },
		"OtherName":  func(c *fleet.Content) { c.Name = other.Name },
		"NoBytes":    func(c *fleet.Content) { c.Content = nil },
		"NoGzip":     func(c *fleet.Content) { c.Content = []byte("{}") },
		"CutOff":     func(c *fleet.Content) { c.Content = c.Content[:len(c.Content)-4] },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			c := good.DeepCopy()
			damage(c)
			_, err := content.Open(c)
			var p *reconcile.Terminal
			if !errors.As(err, &p) || p.Reason != content.ReasonDamaged {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDecompressLimit(t *testing.T) {
	packed := content.Compress(make([]byte, 1000))
	if got, err := content.Decompress(packed, 1000); err != nil || len(got) != 1000 {
		t.Errorf("just fits: %d, %v", len(got), err)
	}
	if _, err := content.Decompress(packed, 999); !errors.Is(err, content.ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
}

func TestResource(t *testing.T) {
	tests := map[string]struct {
		data     string
		compress bool
		encoding string
		why      string
	}{
		"Text":       {"a: ä\n", false, "", "people can read it in the Bundle"},
		"Binary":     {"\xff\x00", false, "base64+gz", "JSON holds no such bytes"},
		"Compressed": {"a: b\n", true, "base64+gz", "a large bundle is stored compressed"},
		"Empty":      {"", false, "", "an empty file is a file"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := content.Resource("dir/f", []byte(c.data), c.compress)
			if err != nil || r.Encoding != c.encoding || r.Name != "dir/f" {
				t.Fatalf("%s: got %+v, %v", c.why, r, err)
			}
			back, err := content.ResourceBytes(r)
			if err != nil || string(back) != c.data {
				t.Errorf("got back %q, %v", back, err)
			}
		})
	}
}

func TestResourceBytes(t *testing.T) {
	if got, err := content.ResourceBytes(fleet.BundleResource{Content: "eA==", Encoding: "base64"}); err != nil || string(got) != "x" {
		t.Errorf("base64 alone: %q, %v", got, err)
	}
	for _, r := range []fleet.BundleResource{
		{Name: "f", Content: "x", Encoding: "rot13"},
		{Name: "f", Content: "!", Encoding: "base64"},
		{Name: "f", Content: "!", Encoding: "base64+gz"},
		{Name: "f", Content: "eA==", Encoding: "base64+gz"},
	} {
		if _, err := content.ResourceBytes(r); err == nil || !strings.Contains(err.Error(), `"f"`) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// What can be decoded is encoded to something with the same meaning.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "{}", `{"resources":[{"name":"a","content":"x"}]}`, `{"resources":null}`, `[]`, `{"resources":[{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := content.Decode(raw)
		if err != nil {
			return
		}
		first := content.Encode(m)
		back, err := content.Decode(first)
		if err != nil {
			t.Fatalf("own encoding not decoded: %v", err)
		}
		if second := content.Encode(back); !bytes.Equal(first, second) {
			t.Errorf("%s becomes %s", first, second)
		}
	})
}

// Foreign bytes never give more than was allowed, and never a panic.
func FuzzDecompress(f *testing.F) {
	for _, s := range []string{"", "x", strings.Repeat("a", 5000)} {
		packed := content.Compress([]byte(s))
		f.Add(packed)
		f.Add(packed[:len(packed)/2])
		f.Add(append(packed, packed...))
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		if got, err := content.Decompress(packed, 4096); err == nil && len(got) > 4096 {
			t.Errorf("%d bytes", len(got))
		}
	})
}
