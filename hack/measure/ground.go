package measure

import (
	"context"
	"fmt"
	"os"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// A Ground is what a measurement on real API servers stands on.
type Ground struct {
	Dir        string // its own, removed by Close
	Root       string // this clone
	Kubernetes string // the program of the control planes
}

// Prepare builds what is missing, says on what machine it is, and makes a folder
// whose name begins with "fleet-<name>-".
func Prepare(ctx context.Context, name string) (*Ground, error) {
	root, err := source.Root()
	if err != nil {
		return nil, err
	}
	binary, err := kubebin.Ensure(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	Title("Machine")
	if err := Machine(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fleet-"+name+"-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	return &Ground{Dir: dir, Root: root, Kubernetes: binary}, nil
}

// Programs is the folder with Fleet's programs: given, or where that is empty one
// with those of this clone, which are built.
func (g *Ground) Programs(ctx context.Context, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	builder, err := kubebin.Default(g.Root)
	if err != nil {
		return "", err
	}
	return builder.Fleet(ctx)
}

// Close removes the folder.
func (g *Ground) Close() error { return os.RemoveAll(g.Dir) }
