package content

import (
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// PartBytes is how much of a packed content one Content holds. With base64
	// and metadata the object stays below 1 MiB of JSON, which is also what an
	// API server stores of it; etcd takes no request above 1.5 MiB.
	PartBytes = 700 << 10
	// MaxPackedBytes is how large a packed content may be: 64 MiB.
	MaxPackedBytes = 64 << 20
	// maxParts is in how many parts a content may be kept. Its writer may have cut it into
	// smaller parts than this package does.
	maxParts = 1024
)

// A Packed is a manifest as it is kept.
type Packed struct {
	ID          string
	Digest      string // of the JSON
	RawBytes    int64  // of the JSON
	PackedBytes int64

	pieces [][]byte // of PartBytes each, but the last
}

// Pack packs a manifest. The same manifest always gives the same bytes, those of
// Compress(Encode(m)). It fails with ErrTooLarge if there are more than MaxBytes
// of JSON or MaxPackedBytes packed.
func Pack(m Manifest) (Packed, error) {
	var out partSplitter
	sum, size := sha256.New(), counter(0)
	z := gzip.NewWriter(&out)
	err := Write(io.MultiWriter(sum, z, &size), m)
	if err = errors.Join(err, z.Close()); err != nil {
		return Packed{}, fmt.Errorf("content: %w", err)
	}
	p := Packed{Digest: hex.EncodeToString(sum.Sum(nil)), RawBytes: int64(size), PackedBytes: out.total, pieces: out.done()}
	p.ID = IDOf(p.Digest)
	return p, nil
}

// Bytes returns the whole packed content, in one piece.
func (p Packed) Bytes() []byte { return slices.Concat(p.pieces...) }

// Contents returns the objects that hold the manifest, without labels but their own, in the
// order in which they have to be written: what is there of the last one is there of all. A
// manifest that fits is one Content in one piece, which every agent reads; else there are
// its parts and then their index.
func (p Packed) Contents() []*fleet.Content {
	last := p.object()
	if len(p.pieces) == 1 {
		last.Content = p.pieces[0]
		return []*fleet.Content{last}
	}
	var out []*fleet.Content
	for i, piece := range p.pieces {
		c := p.object()
		c.Name, c.SHA256Sum = PartName(p.ID, i), Digest(piece)
		c.Labels = map[string]string{fleet.LabelContentOf: p.ID}
		c.Content = piece
		out = append(out, c)
	}
	last.Annotations = map[string]string{fleet.AnnotationContentChunks: strconv.Itoa(len(p.pieces))}
	return append(out, last)
}

func (p Packed) object() *fleet.Content {
	return &fleet.Content{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Content"},
		ObjectMeta: metav1.ObjectMeta{Name: p.ID},
		SHA256Sum:  p.Digest,
	}
}

// PartName returns the name of a part, counted from 0, of the content of this id.
func PartName(id string, i int) string { return id + "-" + strconv.Itoa(i) }

// Parts returns the number of parts in which a Content is kept, by its metadata; 0 for a
// Content that holds everything itself.
func Parts(index metav1.Object) (int, error) {
	text, ok := index.GetAnnotations()[fleet.AnnotationContentChunks]
	if !ok {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxParts {
		return 0, damagedError(index.GetName(), fmt.Errorf("%q parts, want 1 to %d", text, maxParts))
	}
	return n, nil
}

// Join puts the parts of an index together, in their order; for a Content that holds
// everything itself there are none. Check and Unpack take its result. Parts of another
// content, in another order or damaged give a terminal error with reason ContentDamaged.
func Join(index *fleet.Content, parts []*fleet.Content) ([]byte, error) {
	n, err := Parts(index)
	if err != nil {
		return nil, err
	}
	if n != len(parts) {
		return nil, damagedError(index.Name, fmt.Errorf("%d parts, want %d", len(parts), n))
	}
	if n == 0 {
		return index.Content, nil
	}
	var out []byte
	for i, c := range parts {
		if out, err = AppendPart(out, index, i, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// AppendPart appends part i of an index to the parts before it, for callers that do not
// want to hold all parts twice. Errors are those of Join.
func AppendPart(packed []byte, index *fleet.Content, i int, part *fleet.Content) ([]byte, error) {
	n, err := Parts(index)
	switch {
	case err != nil:
		return nil, err
	case part.Name != PartName(index.Name, i) || part.Labels[fleet.LabelContentOf] != index.Name:
		return nil, damagedError(index.Name, fmt.Errorf("%q is not its part %d", part.Name, i))
	case part.SHA256Sum != "" && part.SHA256Sum != Digest(part.Content):
		return nil, damagedError(part.Name, errOther)
	case len(packed)+len(part.Content) > MaxPackedBytes:
		return nil, damagedError(index.Name, fmt.Errorf("%w: more than %d MiB", ErrTooLarge, MaxPackedBytes>>20))
	}
	if packed == nil {
		packed = make([]byte, 0, min(n*len(part.Content), MaxPackedBytes)) // the others are not larger
	}
	return append(packed, part.Content...), nil
}

// partSplitter takes bytes and keeps them in pieces of PartBytes.
type partSplitter struct {
	full  [][]byte
	open  []byte
	total int64
}

func (p *partSplitter) Write(b []byte) (int, error) {
	n := len(b)
	if p.total += int64(n); p.total > MaxPackedBytes {
		return 0, fmt.Errorf("%w: more than %d MiB packed", ErrTooLarge, MaxPackedBytes>>20)
	}
	for len(b) > 0 {
		if len(p.open) == PartBytes {
			p.full, p.open = append(p.full, p.open), make([]byte, 0, PartBytes)
		}
		take := min(len(b), PartBytes-len(p.open))
		p.open = append(p.open, b[:take]...)
		b = b[take:]
	}
	return n, nil
}

func (p *partSplitter) done() [][]byte { return append(p.full, p.open) }

// counter counts the bytes of a manifest and refuses too many.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	if *c += counter(len(b)); *c > MaxBytes {
		return 0, fmt.Errorf("%w: more than %d MiB", ErrTooLarge, MaxBytes>>20)
	}
	return len(b), nil
}

// Largest names the three largest files of a manifest and their sizes before
// packing, for people who have to make a bundle smaller.
func Largest(m Manifest) string {
	type file struct {
		name string
		size int64
	}
	var files []file
	for i := range m.Resources {
		files = append(files, file{m.Resources[i].Name, sizeOf(&m.Resources[i])})
	}
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, f := range files[:min(3, len(files))] {
		out = append(out, fmt.Sprintf("%s (%s)", shortenFileName(f.name), Size(f.size)))
	}
	return strings.Join(out, ", ")
}

// sizeOf returns the size of a file before packing. For a file that cannot be unpacked it
// returns the size of the packed file.
func sizeOf(r *fleet.BundleResource) int64 {
	if r.Encoding == fleet.EncodingPlain {
		return int64(len(r.Content))
	}
	data := base64.NewDecoder(base64.StdEncoding, strings.NewReader(r.Content))
	if r.Encoding == fleet.EncodingBase64Gzip {
		z, err := gzip.NewReader(data)
		if err != nil {
			return int64(len(r.Content))
		}
		data = &limitedReader{r: z, left: MaxBytes}
	}
	n, err := io.Copy(io.Discard, data)
	if err != nil {
		return int64(len(r.Content))
	}
	return n
}

// shortenFileName shortens a file's name and keeps its end, which is the most useful part.
func shortenFileName(name string) string {
	const limit = 48
	if len(name) <= limit {
		return name
	}
	return "..." + strings.ToValidUTF8(name[len(name)-limit+3:], "")
}

// Size returns a number of bytes for people, such as "20.1 MiB".
func Size(bytes int64) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
