package content

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// pieceBytes is how much of a file is turned into JSON at once.
const pieceBytes = 32 << 10

// Encode returns the canonical form of a manifest: JSON on one line, in the order of the Go
// fields, with <, > and & escaped, and a newline at the end.
func Encode(m Manifest) []byte {
	size := len(emptyManifest)
	for _, r := range m.Resources {
		size += len(r.Name) + len(r.Content) + len(r.Content)/16 + 64
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	if err := Write(out, m); err != nil {
		panic(err) // memory takes every write
	}
	return out.Bytes()
}

const emptyManifest = "{}\n"

// Write writes what Encode returns, a little at a time. Errors are those of w.
func Write(w io.Writer, m Manifest) error {
	e := &encoder{w: w}
	if len(m.Resources) == 0 {
		e.raw(emptyManifest)
		return e.err
	}
	e.raw(`{"resources":[`)
	for i := range m.Resources {
		if i > 0 {
			e.raw(",")
		}
		e.resource(&m.Resources[i])
	}
	e.raw("]}\n")
	return e.err
}

// Sum returns the Digest of what Encode returns.
func Sum(m Manifest) string {
	h := sha256.New()
	if err := Write(h, m); err != nil {
		panic(err) // a hash takes every write
	}
	return hex.EncodeToString(h.Sum(nil))
}

// An encoder writes JSON as encoding/json does it, without ever holding a whole
// file.
type encoder struct {
	w   io.Writer
	err error
}

func (e *encoder) raw(s string) {
	if e.err == nil {
		_, e.err = io.WriteString(e.w, s)
	}
}

func (e *encoder) resource(r *fleet.BundleResource) {
	e.raw("{")
	comma := ""
	for _, f := range []struct{ name, value string }{
		{"name", r.Name}, {"content", r.Content}, {"encoding", r.Encoding},
	} {
		if f.value != "" {
			e.raw(comma + `"` + f.name + `":"`)
			e.text(f.value)
			e.raw(`"`)
			comma = ","
		}
	}
	e.raw("}")
}

// text writes the inside of a JSON string. encoding/json knows how to escape;
// it is given pieces that end where a character ends, so that they give the
// same as the whole.
func (e *encoder) text(s string) {
	for len(s) > 0 && e.err == nil {
		n := boundary(s)
		quoted, err := json.Marshal(s[:n])
		if err != nil {
			panic(err) // a string always has a JSON
		}
		_, e.err = e.w.Write(quoted[1 : len(quoted)-1])
		s = s[n:]
	}
}

// boundary is how much of s is written at once: at most pieceBytes, and no
// valid character is cut.
func boundary(s string) int {
	if len(s) <= pieceBytes {
		return len(s)
	}
	for n := pieceBytes; n > pieceBytes-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return pieceBytes // no character is that long: these bytes are none
}

// Decode reads what Encode wrote. Fields that it does not know are ignored.
func Decode(raw []byte) (Manifest, error) { return decode(bytes.NewReader(raw)) }

// decode reads one resource at a time.
func decode(r io.Reader) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(r)
	if err := decodeObject(d, func(key string) error {
		if !strings.EqualFold(key, "resources") {
			var ignored json.RawMessage
			return d.Decode(&ignored)
		}
		m.Resources = nil
		return resources(d, &m)
	}); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more follows after its end")
		}
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	return m, nil
}

// decodeObject reads a JSON object, or null; field reads the value of a key.
func decodeObject(d *json.Decoder, field func(key string) error) error {
	switch t, err := d.Token(); {
	case err != nil:
		return unexpected(err)
	case t == nil:
		return nil
	case t != json.Delim('{'):
		return fmt.Errorf("%v instead of an object", t)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return unexpected(err)
		}
		key, _ := t.(string)
		if err := field(key); err != nil {
			return unexpected(err)
		}
	}
	_, err := d.Token()
	return unexpected(err)
}

func resources(d *json.Decoder, m *Manifest) error {
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t == nil:
		return nil
	case t != json.Delim('['):
		return fmt.Errorf("resources: %v instead of a list", t)
	}
	for d.More() {
		var r fleet.BundleResource
		if err := d.Decode(&r); err != nil {
			return err
		}
		m.Resources = append(m.Resources, r)
	}
	_, err := d.Token()
	return err
}

// unexpected turns an end that came too early into an error that says so.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decodeManifest unpacks and decodes a manifest in one go. It also returns the digest of
// its JSON.
func decodeManifest(packed []byte) (Manifest, string, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Manifest{}, "", fmt.Errorf("decompress: %w", err)
	}
	h := sha256.New()
	r := io.TeeReader(&limitedReader{r: z, left: MaxBytes}, h)
	m, err := decode(r)
	if err != nil {
		return Manifest{}, "", err
	}
	return m, hex.EncodeToString(h.Sum(nil)), nil
}

// sumOf is the digest of what a gzip holds.
func sumOf(packed io.Reader) (string, error) {
	z, err := gzip.NewReader(packed)
	if err != nil {
		return "", fmt.Errorf("decompress: %w", err)
	}
	h := sha256.New()
	if _, err := io.Copy(h, &limitedReader{r: z, left: MaxBytes}); err != nil {
		return "", fmt.Errorf("decompress: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// limitedReader reads at most left bytes and fails with ErrTooLarge if there are
// more.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}
