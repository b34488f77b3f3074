// Package identifier makes identifiers.
package identifier

import (
	"crypto/rand"
	"encoding/hex"
)

// New returns random bytes as hexadecimal digits. An identifier of 16 bytes cannot be
// guessed.
func New(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
