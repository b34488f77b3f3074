package webhook

import (
	"bytes"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"
)

// Limits of bodies.
const (
	maxBodyBytes   = 25 << 20 // of one request; GitHub sends no larger ones
	maxBodiesBytes = 64 << 20 // of all requests at a time
	pieceBytes     = 32 << 10
)

// Errors of bodies.
var (
	errTooLarge = errors.New("the payload is too large")
	errBusy     = errors.New("too many payloads are being read")
)

// bodies limits the memory that the bodies of all requests take.
type bodies struct{ free *semaphore.Weighted }

func newBodies() *bodies { return &bodies{free: semaphore.NewWeighted(maxBodiesBytes)} }

// read reads a body to its end. It takes memory as the body arrives, so that a client
// cannot keep memory from others without sending as much. The caller calls release when it
// does not need the body any more, also after an error.
func (b *bodies) read(from io.Reader) (body []byte, release func(), err error) {
	var buffer bytes.Buffer
	held := int64(0)
	release = func() { b.free.Release(held) }
	for {
		if held >= maxBodyBytes+pieceBytes {
			return nil, release, errTooLarge
		}
		if !b.free.TryAcquire(pieceBytes) {
			return nil, release, errBusy
		}
		held += pieceBytes
		_, err := io.CopyN(&buffer, from, pieceBytes)
		switch {
		case errors.Is(err, io.EOF) && buffer.Len() <= maxBodyBytes:
			return buffer.Bytes(), release, nil
		case errors.Is(err, io.EOF):
			return nil, release, errTooLarge
		case err != nil:
			return nil, release, err
		}
	}
}
