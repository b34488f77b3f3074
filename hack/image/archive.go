package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// An image is one image for one architecture.
type image struct {
	arch                    string
	manifest, config, layer ocispec.Descriptor
	unpackedBytes           int64
	blobs                   map[digest.Digest][]byte
}

// image packs files as an image of one layer.
func (r recipe) image(root rootfs, arch string, o options) (image, error) {
	i := image{arch: arch, blobs: map[digest.Digest][]byte{}}
	plain, err := root.tar(o.epoch)
	if err != nil {
		return i, err
	}
	packed, err := compress(plain)
	if err != nil {
		return i, err
	}
	i.unpackedBytes = int64(len(plain))
	i.layer = i.blob(ocispec.MediaTypeImageLayerGzip, packed)
	labels := map[string]string{
		ocispec.AnnotationTitle: r.title, ocispec.AnnotationVersion: o.version, ocispec.AnnotationRevision: o.commit,
		ocispec.AnnotationSource: "https://github.com/fleetworkspace/fleet", ocispec.AnnotationLicenses: "Apache-2.0",
	}
	if i.config, err = i.document(ocispec.MediaTypeImageConfig, ocispec.Image{
		Created:  &o.epoch,
		Platform: ocispec.Platform{OS: "linux", Architecture: arch},
		Config:   ocispec.ImageConfig{User: user, Env: []string{searchPath}, Entrypoint: []string{r.entrypoint}, Labels: labels},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain)}},
		History:  []ocispec.History{{Created: &o.epoch, CreatedBy: "hack/image"}},
	}); err != nil {
		return i, err
	}
	i.manifest, err = i.document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: i.config, Layers: []ocispec.Descriptor{i.layer}, Annotations: labels,
	})
	i.manifest.Platform = &ocispec.Platform{OS: "linux", Architecture: arch}
	return i, err
}

func (i image) blob(mediaType string, data []byte) ocispec.Descriptor {
	d := digest.FromBytes(data)
	i.blobs[d] = data
	return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
}

func (i image) document(mediaType string, v any) (ocispec.Descriptor, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return i.blob(mediaType, text), nil
}

// nameOfContainerd is the annotation by which containerd calls an image that
// it imports.
const nameOfContainerd = "io.containerd.image.name"

// An archive is an OCI image layout in a tar (image-spec v1.1, "image layout"),
// with the manifest.json of `docker save` beside it where there is only one
// architecture: what older engines read. Of go-containerregistry, layout writes a folder
// without that file, and tarball writes nothing else.
type archive struct {
	files map[string][]byte
}

// newArchive is the archive of one image for some architectures.
func newArchive(reference string, images []image) (archive, error) {
	a := archive{files: map[string][]byte{}}
	for _, i := range images {
		for d, data := range i.blobs {
			a.files[blobPath(d)] = data
		}
	}
	top := images[0].manifest
	if len(images) > 1 {
		index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
		for _, i := range images {
			index.Manifests = append(index.Manifests, i.manifest)
		}
		text, err := json.Marshal(index)
		if err != nil {
			return a, err
		}
		top = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromBytes(text), Size: int64(len(text))}
		a.files[blobPath(top.Digest)] = text
	}
	_, tag, _ := strings.Cut(path.Base(reference), ":")
	top.Annotations = map[string]string{nameOfContainerd: reference, ocispec.AnnotationRefName: tag}
	documents := map[string]any{
		ocispec.ImageLayoutFile: ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion},
		ocispec.ImageIndexFile: ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{top},
		},
	}
	if len(images) == 1 {
		documents["manifest.json"] = []map[string]any{{
			"Config": blobPath(images[0].config.Digest), "Layers": []string{blobPath(images[0].layer.Digest)},
			"RepoTags": []string{strings.TrimPrefix(reference, "docker.io/")},
		}}
	}
	for name, v := range documents {
		text, err := json.Marshal(v)
		if err != nil {
			return a, err
		}
		a.files[name] = text
	}
	return a, nil
}

func blobPath(d digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// bytes is the archive as a tar, sorted by name, all of one time.
func (a archive) bytes(at time.Time) ([]byte, error) {
	var names []string
	for name := range a.files {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(a.files[name])), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(a.files[name]); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
