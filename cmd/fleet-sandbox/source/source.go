// Package source finds the clone of this project that the sandbox builds from.
package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// module is the first line of the go.mod that marks the root.
const module = "module github.com/fleetworkspace/fleet"

// ErrNoClone is returned where no clone can be found.
var ErrNoClone = errors.New("no clone of fleet here: run this inside one")

// compiled is the clone that this program was compiled from, where the linker was given
// Compiled.
var compiled string

// Compiled is the value of -ldflags with which a program that is built with -trimpath
// knows the clone that it was compiled from.
func Compiled(root string) string {
	return "-X 'github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source.compiled=" + root + "'"
}

// Root returns the clone's absolute path: the nearest folder above the
// working directory, or else the one this program was compiled from.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the clone: %w", err)
	}
	if root, ok := above(dir); ok {
		return root, nil
	}
	if root, ok := above(compiled); ok {
		return root, nil
	}
	if _, file, _, ok := runtime.Caller(0); ok {
		if root, ok := above(filepath.Dir(file)); ok {
			return root, nil
		}
	}
	return "", ErrNoClone
}

// above returns the first of dir and the folders above it that is the root.
func above(dir string) (string, bool) {
	if !filepath.IsAbs(dir) { // a path cut short by -trimpath
		return "", false
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := strings.Cut(string(data), "\n"); err == nil && strings.TrimSpace(first) == module {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
