// Package content turns the resources of a bundle into bytes and back: the
// canonical JSON that ids are digests of, its compression, and the encodings of
// single files. Ids must never change: a cluster redeploys what has a new one.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// MaxBytes is how large the JSON of a manifest, or a single file, may be after
// decompression: 256 MiB.
const MaxBytes = 256 << 20

// idLimit is the length of an id; it has to fit into a label.
const idLimit = 63

// ReasonDamaged is the reason of a content that is not what its name says.
const ReasonDamaged = "ContentDamaged"

// ErrTooLarge is returned when there are more bytes than allowed.
var ErrTooLarge = errors.New("too large")

// A Manifest is the resources of a bundle.
type Manifest struct {
	Resources []fleet.BundleResource `json:"resources,omitempty"`
}

// Encode is the canonical form of a manifest: JSON on one line, in the order of
// the Go fields, with <, > and & escaped, and a newline at the end.
func Encode(m Manifest) []byte {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of strings always has a JSON
	}
	return append(raw, '\n')
}

// Decode reads what Encode wrote. Fields that it does not know are ignored.
func Decode(raw []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	return m, nil
}

// Digest is the SHA-256 of raw, in hex.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// ID names a manifest by what it holds; it is also the name of its Content.
func ID(m Manifest) string {
	return IDOf(Digest(Encode(m)))
}

// IDOf is the id of the manifest whose encoded form has this Digest.
func IDOf(digest string) string { return ("s-" + digest)[:idLimit] }

// New makes the Content of a manifest, without labels. It fails with
// ErrTooLarge if Open would not read it.
func New(m Manifest) (*fleet.Content, error) {
	raw := Encode(m)
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("content: %w: %d bytes, at most %d are allowed", ErrTooLarge, len(raw), MaxBytes)
	}
	digest := Digest(raw)
	return &fleet.Content{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "Content"},
		ObjectMeta: metav1.ObjectMeta{Name: IDOf(digest)},
		Content:    Compress(raw),
		SHA256Sum:  digest,
	}, nil
}

// Open returns the manifest of a Content. One whose bytes do not give the
// digest in its name, and in its sha256sum where that is set, is a permanent
// fault with reason ContentDamaged.
func Open(c *fleet.Content) (Manifest, error) {
	m, err := open(c)
	if err != nil {
		return Manifest{}, fault.PermanentError(ReasonDamaged, fmt.Errorf("open content %q: %w", c.Name, err))
	}
	return m, nil
}

func open(c *fleet.Content) (Manifest, error) {
	raw, err := Decompress(c.Content, MaxBytes)
	if err != nil {
		return Manifest{}, err
	}
	digest := Digest(raw)
	if IDOf(digest) != c.Name || c.SHA256Sum != "" && c.SHA256Sum != digest {
		return Manifest{}, errors.New("its digest is another")
	}
	return Decode(bytes.TrimSpace(raw))
}
