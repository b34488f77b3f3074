// Package content turns the resources of a bundle into bytes and back: the
// canonical JSON that ids are digests of, its compression, the Contents that it
// is kept in, and the encodings of single files. Ids must never change: a
// cluster redeploys what has a new one.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// MaxBytes is how large the JSON of a manifest, or a single file, may be after
// decompression: 256 MiB.
const MaxBytes = 256 << 20

// idLimit is the length of an id; it has to fit into a label.
const idLimit = 63

// idPrefix begins every id; the rest are hex digits.
const idPrefix = "s-"

// ReasonDamaged is the reason of a content that is not what its name says.
const ReasonDamaged = "ContentDamaged"

// ErrTooLarge is returned when there are more bytes than allowed.
var ErrTooLarge = errors.New("too large")

// A Manifest is the resources of a bundle.
type Manifest struct {
	Resources []fleet.BundleResource `json:"resources,omitempty"`
}

// Digest returns the SHA-256 of raw, in hex.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// ID names a manifest by what it holds; it is also the name of its Content.
func ID(m Manifest) string { return IDOf(Sum(m)) }

// IDOf returns the id of the manifest whose encoded form has this Digest.
func IDOf(digest string) string { return (idPrefix + digest)[:idLimit] }

// IsID reports whether a text has the form of an id.
func IsID(s string) bool {
	if len(s) != idLimit || s[:len(idPrefix)] != idPrefix {
		return false
	}
	for _, c := range []byte(s[len(idPrefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// New makes the Content of a manifest in one piece, without labels. It fails
// with ErrTooLarge if Open would not read it.
func New(m Manifest) (*fleet.Content, error) {
	p, err := Pack(m)
	if err != nil {
		return nil, err
	}
	c := p.object()
	c.Content = p.Bytes()
	return c, nil
}

// Open returns the manifest of a Content that is kept in one piece. If its bytes do not
// give the digest in its name, and in its sha256sum where that is set, the error is
// terminal with reason ContentDamaged.
func Open(c *fleet.Content) (Manifest, error) {
	m, digest, err := decodeManifest(c.Content)
	if err == nil {
		err = checkDigest(c, digest)
	}
	if err != nil {
		return Manifest{}, damagedError(c.Name, err)
	}
	return m, nil
}

// Unpack returns the manifest of this id, of which packed is the gzip. Errors
// are those of Open.
func Unpack(id string, packed []byte) (Manifest, error) {
	m, digest, err := decodeManifest(packed)
	if err == nil && IDOf(digest) != id {
		err = errOther
	}
	if err != nil {
		return Manifest{}, damagedError(id, err)
	}
	return m, nil
}

// Check reports whether packed is the gzip of the manifest of this id, without
// keeping anything of it in memory. Errors are those of Open.
func Check(id string, packed []byte) error {
	digest, err := sumOf(bytes.NewReader(packed))
	if err == nil && IDOf(digest) != id {
		err = errOther
	}
	if err != nil {
		return damagedError(id, err)
	}
	return nil
}

// errOther says that bytes are not those that were named.
var errOther = errors.New("its digest is another")

func checkDigest(c *fleet.Content, digest string) error {
	if IDOf(digest) != c.Name || c.SHA256Sum != "" && c.SHA256Sum != digest {
		return errOther
	}
	return nil
}

func damagedError(id string, err error) error {
	return reconcile.TerminalError(ReasonDamaged, fmt.Errorf("open content %q: %w", id, err))
}
