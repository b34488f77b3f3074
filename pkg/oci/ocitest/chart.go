package ocitest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Chart packs a chart: Chart.yaml of this name and version, and files by their
// path in the chart.
func Chart(t testing.TB, name, version string, files map[string]string) []byte {
	t.Helper()
	all := map[string]string{"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)}
	maps.Copy(all, files)
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	pack := tar.NewWriter(zip)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		header := &tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(all[path])), ModTime: time.Unix(0, 0)}
		if err := pack.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := pack.Write([]byte(all[path])); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// PushChart stores a packaged chart as "helm push" does, with a provenance
// layer, at <host>/<path>:<version>.
func (s *Server) PushChart(t testing.TB, path, version string, archive []byte) {
	t.Helper()
	name := path[strings.LastIndex(path, "/")+1:]
	config, err := json.Marshal(map[string]string{"apiVersion": "v2", "name": name, "version": version})
	if err != nil {
		t.Fatal(err)
	}
	prov := []byte("not a signature")
	s.PushManifest(t, path, strings.ReplaceAll(version, "+", "_"), ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    s.PushBlob(t, path, "application/vnd.cncf.helm.config.v1+json", config),
		Layers: []ocispec.Descriptor{
			s.PushBlob(t, path, "application/vnd.cncf.helm.chart.provenance.v1.prov", prov),
			s.PushBlob(t, path, "application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive),
		},
	})
}

// PushBlob stores a blob at path and describes it as mediaType.
func (s *Server) PushBlob(t testing.TB, path, mediaType string, data []byte) ocispec.Descriptor {
	t.Helper()
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	begun := s.Do(t, http.MethodPost, "/v2/"+path+"/blobs/uploads/", nil)
	to, err := url.Parse(begun.Header().Get("Location"))
	if begun.Code != http.StatusAccepted || err != nil {
		t.Fatalf("begin upload to %s: %d %s", path, begun.Code, begun.Body)
	}
	query := to.Query()
	query.Set("digest", desc.Digest.String())
	if w := s.Do(t, http.MethodPut, to.Path+"?"+query.Encode(), data, "application/octet-stream"); w.Code != http.StatusCreated {
		t.Fatalf("upload to %s: %d %s", path, w.Code, w.Body)
	}
	return desc
}

// PushManifest stores the JSON of m at path under a tag.
func (s *Server) PushManifest(t testing.TB, path, tag, mediaType string, m any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Do(t, http.MethodPut, "/v2/"+path+"/manifests/"+tag, data, mediaType); w.Code != http.StatusCreated {
		t.Fatalf("push %s:%s: %d %s", path, tag, w.Code, w.Body)
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// Has reports whether the registry holds <path>:<tag>.
func (s *Server) Has(t testing.TB, path, tag string) bool {
	t.Helper()
	return s.Get(t, "/v2/"+path+"/manifests/"+tag, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex).Code == http.StatusOK
}
