package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A recipe is what one image consists of.
type recipe struct {
	name       string   // of the image and of its stage in the Dockerfile
	title      string   // for people
	programs   []string // of cmd, in /usr/bin
	entrypoint string
}

// recipes are the two images of the project.
var recipes = []recipe{
	{name: "fleet", title: "The Fleet manager and the command fleet", programs: []string{"fleet", "fleet-controller"}, entrypoint: "/usr/bin/fleet-controller"},
	{name: "fleet-agent", title: "The Fleet agent", programs: []string{"fleet-agent"}, entrypoint: "/usr/bin/fleet-agent"},
}

// repository is where the images belong, and what containerd calls it.
const repository = "docker.io/fleetworkspace/"

// reference is the full name of the image.
func (r recipe) reference(version string) string { return repository + r.name + ":" + version }

// What both images have in common. The user is a number, so that a cluster can
// check that it is not root; nothing in the images belongs to it.
const (
	user         = "1000:1000"
	searchPath   = "PATH=/usr/bin"
	certificates = "etc/ssl/certs/ca-certificates.crt"
	temporary    = "tmp" // for what runs outside of a cluster; the charts mount a volume there
)

// A file of an image: a folder where its path ends in a slash.
type file struct {
	path string // without a leading slash
	mode int64
	data []byte
}

// A rootfs is all that is in an image, sorted by path, with the list of what
// that is.
type rootfs struct {
	files []file
	sbom  []byte
}

// rootfs collects the files of an image from the folder with the programs.
func (r recipe) rootfs(bin string, o options) (rootfs, error) {
	cas, err := os.ReadFile(o.certificates)
	if err != nil {
		return rootfs{}, err
	}
	if !bytes.Contains(cas, []byte("-----BEGIN CERTIFICATE-----")) {
		return rootfs{}, fmt.Errorf("%q has no certificates", o.certificates)
	}
	files := []file{
		{path: "etc/", mode: 0o755}, {path: "etc/ssl/", mode: 0o755}, {path: "etc/ssl/certs/", mode: 0o755},
		{path: certificates, mode: 0o644, data: cas},
		{path: temporary + "/", mode: 0o1777},
		{path: "usr/", mode: 0o755}, {path: "usr/bin/", mode: 0o755},
	}
	for _, p := range r.programs {
		data, err := os.ReadFile(filepath.Join(bin, p))
		if err != nil {
			return rootfs{}, err
		}
		files = append(files, file{path: "usr/bin/" + p, mode: 0o755, data: data})
	}
	sbom, err := billOfMaterials(r, files, o)
	if err != nil {
		return rootfs{}, fmt.Errorf("list what is in it: %w", err)
	}
	files = append(files,
		file{path: "usr/share/", mode: 0o755}, file{path: "usr/share/sbom/", mode: 0o755},
		file{path: "usr/share/sbom/" + r.name + ".spdx.json", mode: 0o644, data: sbom})
	return rootfs{files: files, sbom: sbom}, nil
}

// write puts the files below a folder.
func (r rootfs) write(dir string) error {
	for _, f := range r.files {
		to := filepath.Join(dir, filepath.FromSlash(f.path))
		var err error
		if strings.HasSuffix(f.path, "/") {
			err = os.MkdirAll(to, 0o755)
		} else {
			err = os.WriteFile(to, f.data, 0o644)
		}
		if err == nil {
			err = os.Chmod(to, mode(f.mode))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mode is a mode of tar in Go's words.
func mode(m int64) os.FileMode {
	out := os.FileMode(m & 0o777)
	if m&0o1000 != 0 {
		out |= os.ModeSticky
	}
	return out
}

// tar packs the files: owned by root, all of one time, without names of users.
func (r rootfs) tar(at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range r.files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", path.Base(f.path), err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", path.Base(f.path), err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// compress packs bytes as gzip without a name and a time.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
