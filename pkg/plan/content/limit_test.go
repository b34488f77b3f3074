package content

import (
	"errors"
	"testing"
)

// What is too large is refused while it is packed, before it is held in full.
func TestPackingEndsAtTheLimit(t *testing.T) {
	packed := &partSplitter{total: MaxPackedBytes - 1}
	if _, err := packed.Write([]byte("x")); err != nil {
		t.Errorf("just fits: %v", err)
	}
	if _, err := packed.Write([]byte("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	raw := counter(MaxBytes)
	if _, err := raw.Write([]byte("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte of JSON too many: %v", err)
	}
}
