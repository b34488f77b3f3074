package kubebin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Node returns the path of the kubelet, and builds it first if it is not
// there. It needs more of Kubernetes than the other executable, and only
// machines with real pods need it (package node).
func (b Builder) Node(ctx context.Context) (string, error) {
	kubernetes, err := b.target(ctx) // covers go.mod, the settings and Go
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.Cache, strings.Replace(filepath.Base(kubernetes), "kubernetes-", "node-", 1))
	unlock, err := lock(ctx, filepath.Join(b.Cache, "node.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	version, err := b.Version()
	if err != nil {
		return "", err
	}
	part := path + ".part"
	err = b.compile(ctx, job{
		what: "kubelet " + version, dir: b.module(), packages: []string{"./node"},
		args: append([]string{"-o", part}, b.settings(version)...), counted: true,
	})
	if err != nil {
		_ = os.Remove(part)
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(b.Cache, "node-*"))
	if err != nil {
		return "", fmt.Errorf("list old kubelets: %w", err)
	}
	for _, other := range old {
		if other != part {
			_ = os.Remove(other)
		}
	}
	return path, os.Rename(part, path)
}

// NarratedNode is Node with a line of text to say every few seconds.
func (b Builder) NarratedNode(ctx context.Context, say func(line string)) (string, error) {
	return b.narrate(ctx, "kubelet", say, Builder.Node)
}

// Static builds one of our programs into a file as images need it: it depends on
// nothing else.
func (b Builder) Static(ctx context.Context, pkg, file string) error {
	return b.compile(ctx, job{
		what: pkg, dir: b.Root, packages: []string{pkg},
		args: []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", file},
	})
}
