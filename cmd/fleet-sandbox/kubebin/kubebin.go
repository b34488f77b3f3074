// Package kubebin makes the programs that a sandbox runs, with the go command,
// and keeps them in the user's cache folder.
//
// The Kubernetes executable is built once per version of its source and Go.
// Fleet's own programs are brought up to date each time, which costs nothing
// where nothing changed. Callers in several processes wait for each other.
package kubebin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// A Builder builds from one clone into one cache folder.
type Builder struct {
	Root  string // of the clone (package source)
	Cache string // folder for results; Default's is shared by all users of this package

	// Report, where set, is called from time to time while Kubernetes is
	// built, from another goroutine.
	Report func(Progress)
}

// Default builds from root into the user's cache folder.
func Default(root string) (Builder, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Builder{}, fmt.Errorf("find the cache folder: %w", err)
	}
	return Builder{Root: root, Cache: filepath.Join(cache, "fleet-sandbox", "bin")}, nil
}

// ErrNotBuilt is returned by Cached.
var ErrNotBuilt = errors.New("kubernetes is not built yet")

// Programs are Fleet's own, as named in cmd and in the folder that Fleet returns.
var Programs = []string{"fleet", "fleet-controller", "fleet-agent"}

// module is the folder of the Kubernetes executable's source.
func (b Builder) module() string {
	return filepath.Join(b.Root, "cmd", "fleet-sandbox", "kubernetes")
}

// Version is the Kubernetes version that the source asks for, e.g. "v1.36.3".
func (b Builder) Version() (string, error) {
	data, err := os.ReadFile(filepath.Join(b.module(), "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read the Kubernetes version: %w", err)
	}
	found := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`).FindSubmatch(data)
	if found == nil {
		return "", fmt.Errorf("read the Kubernetes version: %q does not name k8s.io/kubernetes", b.module())
	}
	return string(found[1]), nil
}

// GoVersion is the version of the go command that builds, e.g. "1.26.8".
func (b Builder) GoVersion(ctx context.Context) (string, error) {
	var out bytes.Buffer
	cmd := b.goCommand(ctx, "env", "GOVERSION")
	cmd.Stdout = &out
	if err := onOwnThread(cmd.Run); err != nil {
		return "", fmt.Errorf("ask go for its version: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(out.String()), "go"), nil
}

// Cached returns the path of the Kubernetes executable if it is built for
// this source and this Go, and else ErrNotBuilt.
func (b Builder) Cached(ctx context.Context) (string, error) {
	path, err := b.target(ctx)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", ErrNotBuilt
	}
	return path, nil
}

// Kubernetes returns the path of the Kubernetes executable, and builds it
// first if it is not there. Executables of other versions are removed.
func (b Builder) Kubernetes(ctx context.Context) (string, error) {
	path, err := b.Cached(ctx)
	if !errors.Is(err, ErrNotBuilt) {
		return path, err
	}
	if path, err = b.target(ctx); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(b.Cache, "kubernetes.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil { // built while we waited
		return path, nil
	}
	if err := b.buildKubernetes(ctx, path); err != nil {
		return "", err
	}
	b.prune(path)
	return path, nil
}

// Fleet brings Fleet's programs up to date and returns their folder. Like the
// launcher and tests they are built with -trimpath, so that all of them, in all
// clones, share what was compiled.
func (b Builder) Fleet(ctx context.Context) (string, error) {
	dir := b.programs()
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	j := job{
		what: strings.Join(Programs, ", "),
		dir:  b.Root,
		args: []string{"-trimpath", "-buildvcs=false", "-o", dir + string(filepath.Separator)},
	}
	for _, name := range Programs {
		j.packages = append(j.packages, "./cmd/"+name)
	}
	return dir, b.compile(ctx, j)
}

// Launcher brings the sandbox's own launcher up to date and returns its path.
func (b Builder) Launcher(ctx context.Context) (string, error) {
	dir := b.programs()
	unlock, err := lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	path := b.launcher()
	_, err = os.Stat(path)
	return path, b.compile(ctx, job{
		what:     "fleet-sandbox",
		dir:      b.Root,
		packages: []string{"./cmd/fleet-sandbox/launcher"},
		args:     []string{"-trimpath", "-buildvcs=false", "-ldflags", source.Compiled(b.Root), "-o", path},
		counted:  err != nil, // the first time takes long
	})
}

func (b Builder) launcher() string { return filepath.Join(b.programs(), "fleet-sandbox") }

// programs is the folder of what is built from this clone.
func (b Builder) programs() string {
	sum := sha256.Sum256([]byte(b.Root))
	return filepath.Join(b.Cache, "fleet-"+hex.EncodeToString(sum[:6]))
}

// target is where the Kubernetes executable belongs: its name covers the
// module's files, the build's settings and the version of Go.
func (b Builder) target(ctx context.Context) (string, error) {
	version, err := b.GoVersion(ctx)
	if err != nil {
		return "", err
	}
	sources, err := filepath.Glob(filepath.Join(b.module(), "*.go"))
	if err != nil {
		return "", fmt.Errorf("list sources: %w", err)
	}
	slices.Sort(sources)
	sources = append(sources, filepath.Join(b.module(), "go.mod"), filepath.Join(b.module(), "go.sum"))
	hash := sha256.New()
	// go.mod says which version is built: here only the flags of the settings count.
	fmt.Fprintln(hash, version, runtime.GOOS, runtime.GOARCH, strings.Join(b.settings("version"), " "))
	for _, file := range sources {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read source: %w", err)
		}
		fmt.Fprintln(hash, filepath.Base(file), len(data))
		hash.Write(data)
	}
	name := "kubernetes-" + hex.EncodeToString(hash.Sum(nil))[:12]
	return filepath.Join(b.Cache, name), nil
}

// settings are the arguments of go build that change the result.
func (b Builder) settings(version string) []string {
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X "+pkg+".gitVersion="+version)
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + strings.Join(flags, " ")}
}

// goCommand runs go in the Kubernetes module where no other folder is set,
// with the user's settings but without cgo and without a workspace that could
// mix the modules.
func (b Builder) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, goPath(), args...)
	cmd.Dir = b.module()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	contain(cmd)
	return cmd
}

func goPath() string {
	if path, err := exec.LookPath("go"); err == nil {
		return path
	}
	return "/usr/local/go/bin/go"
}

// prune removes executables of other versions; a running one stays usable.
func (b Builder) prune(keep string) {
	old, _ := filepath.Glob(filepath.Join(b.Cache, "kubernetes-*"))
	for _, path := range old {
		if path != keep && !strings.HasSuffix(path, ".lock") {
			_ = os.Remove(path)
		}
	}
}
