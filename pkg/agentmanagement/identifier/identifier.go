// Package identifier makes identifiers.
package identifier

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns an identifier of some random bytes, in hex digits. One of 16 bytes cannot
// be guessed.
func New(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
