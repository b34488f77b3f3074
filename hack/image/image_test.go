package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
)

const authorities = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// program returns a program that was built from what this test was built from, and is small:
// its headers, what the linker says of its modules, and the first MiB of this test's own
// program. All of that is some 40 MiB, and each test compresses it several times.
var program = sync.OnceValues(func() ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(self)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	section := file.Section(".go.buildinfo")
	if section == nil {
		return nil, errors.New("the test's program does not say what it was built from")
	}
	modules, err := section.Data()
	if err != nil {
		return nil, err
	}
	whole, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Vaddr: section.Addr,
		Filesz: section.Size, Memsz: section.Size, Align: section.Addralign,
	}
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(file.Machine), Version: uint32(elf.EV_CURRENT), Entry: file.Entry, Phnum: 1,
	}
	copy(header.Ident[:], whole)
	header.Ehsize, header.Phentsize = uint16(binary.Size(header)), uint16(binary.Size(segment))
	header.Phoff = uint64(header.Ehsize)
	segment.Off = header.Phoff + uint64(header.Phentsize)
	var out bytes.Buffer
	for _, part := range []any{header, segment, modules, whole[:1<<20]} {
		if err := binary.Write(&out, file.ByteOrder, part); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
})

// sample is an image of each recipe whose programs are those of program.
func sample(t *testing.T) (options, string) {
	t.Helper()
	program, err := program()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"fleet", "fleet-controller", "fleet-agent"} {
		if err := os.WriteFile(filepath.Join(bin, name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cas := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cas, []byte(authorities), 0o600); err != nil {
		t.Fatal(err)
	}
	return options{out: t.TempDir(), version: "v1.2.3", commit: "abc", epoch: time.Unix(1e9, 0).UTC(), certificates: cas, log: io.Discard}, bin
}

// archiveOf writes an archive and returns its bytes.
func archiveOf(t *testing.T, r recipe, o options, bin string, arch ...string) []byte {
	t.Helper()
	var images []image
	for _, a := range arch {
		root, err := r.rootfs(bin, o)
		if err != nil {
			t.Fatal(err)
		}
		i, err := r.image(root, a, o)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, i)
	}
	if err := o.archive(r, images); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(o.out, r.name+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fetch reads and checks a blob by a foreign reader of OCI layouts.
func fetch(t *testing.T, from content.Fetcher, d ocispec.Descriptor, into any) []byte {
	t.Helper()
	text, err := content.FetchAll(t.Context(), from, d)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// An archive is read by others, holds exactly what it should, and is the same
// when it is made again.
func TestArchive(t *testing.T) {
	o, bin := sample(t)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			first := archiveOf(t, r, o, bin, "amd64")
			store, err := oci.NewFromTar(t.Context(), filepath.Join(o.out, r.name+".tar"))
			if err != nil {
				t.Fatal(err)
			}
			top, err := store.Resolve(t.Context(), "v1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := top.Annotations[nameOfContainerd], "docker.io/fleetworkspace/"+r.name+":v1.2.3"; got != want {
				t.Errorf("containerd would call it %q, not %q", got, want)
			}
			var manifest ocispec.Manifest
			fetch(t, store, top, &manifest)
			var config ocispec.Image
			fetch(t, store, manifest.Config, &config)
			if config.Config.User != "1000:1000" || config.Architecture != "amd64" || config.OS != "linux" || !config.Created.Equal(o.epoch) {
				t.Errorf("not as it should be: %+v", config)
			}
			layer, err := gzip.NewReader(bytes.NewReader(fetch(t, store, manifest.Layers[0], nil)))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(layer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]digest.Digest{digest.FromBytes(plain)}, config.RootFS.DiffIDs); diff != "" {
				t.Errorf("the layer is not what the image says\n%s", diff)
			}
			checkFiles(t, r, plain, config.Config.Entrypoint[0])
			if second := archiveOf(t, r, o, bin, "amd64"); !bytes.Equal(first, second) {
				t.Error("made again it is another")
			}
			if !bytes.Contains(first, []byte(`"RepoTags":["fleetworkspace/`+r.name+`:v1.2.3"]`)) {
				t.Error("nothing that docker load reads")
			}
		})
	}
}

// checkFiles compares the files of a layer with what an image may have, and
// with its own list.
func checkFiles(t *testing.T, r recipe, layer []byte, entrypoint string) {
	t.Helper()
	want := map[string]string{
		"etc/": "-rwxr-xr-x", "etc/ssl/": "-rwxr-xr-x", "etc/ssl/certs/": "-rwxr-xr-x", certificates: "-rw-r--r--", "tmp/": "trwxrwxrwx",
		"usr/": "-rwxr-xr-x", "usr/bin/": "-rwxr-xr-x", "usr/share/": "-rwxr-xr-x", "usr/share/sbom/": "-rwxr-xr-x",
		"usr/share/sbom/" + r.name + ".spdx.json": "-rw-r--r--",
	}
	for _, p := range r.programs {
		want["usr/bin/"+p] = "-rwxr-xr-x"
	}
	if want[strings.TrimPrefix(entrypoint, "/")] == "" {
		t.Errorf("it starts %s, which it does not have", entrypoint)
	}
	have, sums := map[string]string{}, map[string]string{}
	var sbom spdxDocument
	for files := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1e9 {
			t.Errorf("%s: of %d:%d, %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		have[h.Name] = mode(h.Mode).String()
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(h.Name, ".spdx.json"):
			if err := json.Unmarshal(data, &sbom); err != nil {
				t.Fatal(err)
			}
		case h.Typeflag == tar.TypeReg:
			sums["./"+h.Name] = digest.FromBytes(data).Encoded()
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("files\n-want +got\n%s", diff)
	}
	checkSBOM(t, sbom, sums)
}

// checkSBOM compares a list with the files that it is about.
func checkSBOM(t *testing.T, sbom spdxDocument, sums map[string]string) {
	t.Helper()
	listed := map[string]string{}
	for _, f := range sbom.Files {
		listed[f.Name] = f.Checksums[0].Value
	}
	if diff := cmp.Diff(sums, listed); diff != "" {
		t.Errorf("the list is not of these files\n-files +list\n%s", diff)
	}
	purls, ids := map[string]bool{}, map[string]bool{spdxRoot: true}
	for _, p := range sbom.Packages {
		ids[p.ID] = true
		for _, e := range p.References {
			name, _, _ := strings.Cut(e.Locator, "@")
			purls[name] = true
		}
	}
	for _, f := range sbom.Files {
		ids[f.ID] = true
	}
	for _, want := range []string{"pkg:golang/stdlib", "pkg:golang/github.com/opencontainers/image-spec", "pkg:golang/github.com/klauspost/compress"} {
		if !purls[want] {
			t.Errorf("%s was linked in and is not listed", want)
		}
	}
	if len(sbom.Packages)+len(sbom.Files)+1 != len(ids) {
		t.Error("two things have one identifier")
	}
	for _, r := range sbom.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%v is about something that is not listed", r)
		}
	}
}

// One archive may hold the image for several architectures.
func TestArchitectures(t *testing.T) {
	o, bin := sample(t)
	archiveOf(t, recipes[1], o, bin, "amd64", "arm64")
	store, err := oci.NewFromTar(t.Context(), filepath.Join(o.out, "fleet-agent.tar"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := store.Resolve(t.Context(), "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var index ocispec.Index
	fetch(t, store, top, &index)
	var have []string
	for _, m := range index.Manifests {
		have = append(have, m.Platform.OS+"/"+m.Platform.Architecture)
		fetch(t, store, m, nil)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, have); diff != "" {
		t.Error(diff)
	}
}

// The files for the Dockerfile are those of the archive.
func TestRootfs(t *testing.T) {
	o, bin := sample(t)
	r := recipes[1]
	root, err := r.rootfs(bin, o)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := root.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range root.files {
		info, err := os.Stat(filepath.Join(dir, f.path))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := info.Mode() &^ os.ModeDir; got != mode(f.mode) {
			t.Errorf("%s: mode %s", f.path, got)
		}
	}
}

// The Dockerfile makes the same images: stages, user, path and entry point.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		want := "\nFROM scratch AS " + r.name + "\nCOPY --from=build /out/" + r.name + "/ /\nENV " + searchPath + "\nUSER " + user + "\nENTRYPOINT [\"" + r.entrypoint + "\"]\n"
		if !strings.Contains(string(text), want) {
			t.Errorf("the Dockerfile has no%s", want)
		}
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		why  string
		args []string
		want string // in the error; empty: accepted
	}{
		"Nothing":      {why: "it would not know where to write", want: "-out"},
		"Both":         {why: "one of them is a mistake", args: []string{"-out=a", "-rootfs=b"}, want: "-out"},
		"Arch":         {why: "the others are not tested", args: []string{"-out=a", "-arch=amd64,s390x"}, want: "s390x"},
		"TwoRootfs":    {why: "one folder cannot hold two", args: []string{"-rootfs=a", "-arch=amd64,arm64"}, want: "one architecture"},
		"Epoch":        {why: "not a time", args: []string{"-out=a", "-epoch=now"}, want: "now"},
		"Argument":     {why: "a forgotten dash", args: []string{"-out=a", "arch"}, want: "arch"},
		"Architecture": {why: "as it is meant", args: []string{"-out=a", "-arch=amd64,arm64"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := parse(c.args, func(string) string { return "" })
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: want %q, got %v", c.why, c.want, err)
			}
			if err == nil && !strings.HasPrefix(o.version, "v") {
				t.Errorf("the charts ask for another tag than %q", o.version)
			}
		})
	}
}
