package node

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An image is an archive as docker save writes it: a manifest that names the
// configuration and one layer with the program.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "prog")
	if err := os.WriteFile(program, []byte("binary"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "image.tar")
	if err := (Image{Name: PauseImage, Program: program}).Save(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, data)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest: %v, %v", manifest, err)
	}
	if diff := cmp.Diff([]string{PauseImage}, manifest[0].RepoTags); diff != "" {
		t.Errorf("names\n-want +got\n%s", diff)
	}
	layer := untar(t, files[manifest[0].Layers[0]])
	if got := string(layer["usr/bin/prog"]); got != "binary" {
		t.Errorf("the layer has %q as its program", got)
	}
	if !bytes.Contains(files[manifest[0].Config], []byte(`"Entrypoint":["/usr/bin/prog"]`)) {
		t.Errorf("configuration: %s", files[manifest[0].Config])
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// LayWire outside of the namespaces would change the network of the machine
// itself.
func TestWireOnlyInside(t *testing.T) {
	t.Setenv(insideEnv, "")
	if err := LayWire(t.Context()); err == nil || !strings.Contains(err.Error(), "only inside") {
		t.Errorf("lay a wire outside: %v", err)
	}
}
