package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime"
)

// An Image is one program to be made an image of one layer.
type Image struct {
	Name    string // with registry and tag, e.g. PauseImage
	Program string // path of a static executable; /usr/bin/NAME in the image
}

// Save writes the image to a file, as docker save does.
func (i Image) Save(file string) error {
	program, err := os.ReadFile(i.Program)
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	inside := path.Join("usr/bin", path.Base(i.Program))
	layer, err := archive(map[string][]byte{inside: program}, inside)
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": "1000:1000", "Entrypoint": []string{"/" + inside}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	all, err := archive(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest},
		"config.json", "layer.tar", "manifest.json")
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	return os.WriteFile(file, all, 0o600)
}

// archive is a tar of some files in this order.
func archive(files map[string][]byte, order ...string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range order {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
