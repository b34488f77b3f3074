package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// chunkBytes is the longest piece of a payload in one Secret.
const chunkBytes = 700 << 10

// besideBytes is the longest values that stand beside the record. With a piece of
// the content and a record of some KB that stays below the 1 MiB that an API
// server takes for a Secret.
const besideBytes = 200 << 10

// A Payload is what a deployment is made of.
type Payload struct {
	Content []byte // the gzip of the bundle's files, as the manager keeps it
	Values  []byte // Helm values as JSON; nil if there are none
}

// Values are Helm values at the end of a payload's pieces.
//
// An agent from before there were such values takes all pieces for content. It
// finds that this does not have the digest of the deployment id, and asks the
// manager for the payload again.
type Values struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"` // SHA-256, in hex
}

// split divides a payload into chunks, at least one. Values that are too long for the
// Secret of the record follow the content, and tail describes them.
func (p Payload) split() (pieces [][]byte, beside []byte, tail *Values) {
	data, beside := p.Content, p.Values
	if len(p.Values) > besideBytes {
		tail, beside = valuesOf(p.Values), nil
		data = append(bytes.Clone(p.Content), p.Values...)
	}
	for len(data) > chunkBytes {
		pieces = append(pieces, data[:chunkBytes])
		data = data[chunkBytes:]
	}
	return append(pieces, data), beside, tail
}

// valuesOf describes values that are stored after the content: their size and digest.
func valuesOf(data []byte) *Values {
	sum := sha256.Sum256(data)
	return &Values{Bytes: len(data), Digest: hex.EncodeToString(sum[:])}
}

// join makes a payload from its chunks; false: they are not those that tail describes.
func join(data, beside []byte, tail *Values) (Payload, bool) {
	if tail == nil {
		return Payload{Content: data, Values: beside}, true
	}
	at := len(data) - tail.Bytes
	if at < 0 || at > len(data) || *valuesOf(data[at:]) != *tail {
		return Payload{}, false
	}
	return Payload{Content: data[:at:at], Values: data[at:]}, true
}

// Payload reads the payload of a deployment; false: it is not stored, or not
// completely.
func (s *Store) Payload(ctx context.Context, key Key) (Payload, bool, error) {
	r, ok := s.Get(key)
	if !ok || r.Chunks == 0 {
		return Payload{}, false, nil
	}
	var data bytes.Buffer
	var beside []byte
	for i := range r.Chunks {
		secret, err := s.secrets.Get(ctx, kube.Key{Namespace: s.namespace, Name: chunkName(key, i)})
		if err != nil {
			return Payload{}, false, fmt.Errorf("read payload of %q: %w", key.Name, err)
		}
		if i == 0 {
			data.Grow(r.Chunks * len(secret.Data[keyChunk]))
			beside = secret.Data[keyValues]
		}
		data.Write(secret.Data[keyChunk])
	}
	p, whole := join(data.Bytes(), beside, r.Values)
	return p, whole, nil
}
