package source

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The linker ignores a variable that does not exist.
func TestCompiled(t *testing.T) {
	pkg := reflect.TypeFor[place]().PkgPath()
	if got, want := Compiled("/a b"), "-X '"+pkg+".compiled=/a b'"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

type place struct{}

// TestRoot: a module inside the clone, as the Kubernetes executable's, is not
// the root, and neither is the module of another project.
func TestRoot(t *testing.T) {
	root := t.TempDir()
	nested := filepath.Join(root, "cmd", "fleet-sandbox", "kubernetes")
	if err := os.MkdirAll(nested, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(root, "go.mod"):   module + "\n\ngo 1.26.0\n",
		filepath.Join(nested, "go.mod"): module + "/cmd/fleet-sandbox/kubernetes\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(nested)
	got, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := filepath.EvalSymlinks(root); err != nil || got != root && got != want {
		t.Errorf("want %s, got %s, %v", root, got, err)
	}
	t.Chdir(t.TempDir())
	defer func(before string) { compiled = before }(compiled)
	compiled = root
	if got, err := Root(); err != nil || got != root {
		t.Errorf("outside of every clone: want %s, which the linker was given, got %s, %v", root, got, err)
	}
	if dir, ok := above(t.TempDir()); ok {
		t.Errorf("a folder outside of every clone has the root %s", dir)
	}
	if dir, ok := above("github.com/x/y"); ok {
		t.Errorf("a path cut short by -trimpath has the root %s", dir)
	}
}
