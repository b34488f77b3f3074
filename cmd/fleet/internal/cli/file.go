package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// maxObjectsBytes bounds a file of objects: a bundle of 32 MiB, packed and in
// base64, with room for the rest.
const maxObjectsBytes = 256 << 20

// ReadFile reads a file that the user names; - is stdin.
func ReadFile(name string, std printer.Stdio) ([]byte, error) {
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxObjectsBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ShownFile(name), err)
	}
	if len(data) > maxObjectsBytes {
		return nil, fmt.Errorf("%w: %s is larger than %d MiB", ErrInput, ShownFile(name), maxObjectsBytes>>20)
	}
	return data, nil
}

// ShownFile is what messages call a file that the user names: stdin for -.
func ShownFile(name string) string {
	if name == "-" {
		return "stdin"
	}
	return name
}
