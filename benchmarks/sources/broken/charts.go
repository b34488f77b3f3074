package broken

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// oldVersions is how many versions of a chart or an image are there from the start.
const oldVersions = 40

// A catalog is a Helm repository and a registry in memory: versions of charts and tags of
// images by name.
type catalog struct {
	mu       sync.Mutex
	charts   map[string][]string // in the order of their release
	images   map[string][]string
	archives map[string][]byte
	entries  map[string]string // of the index
	index    []byte            // nil: has to be made
	etag     string
}

func newCatalog() *catalog {
	return &catalog{charts: map[string][]string{}, images: map[string][]string{}, archives: map[string][]byte{}, entries: map[string]string{}}
}

// version is the version with a number, as all charts and images have it.
func version(n int) string { return fmt.Sprintf("1.0.%d", n) }

// release adds the next version of a chart, and the old ones before the first.
func (s *catalog) release(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.charts[name]) < oldVersions {
		s.addChart(name)
	}
	return s.addChart(name)
}

// addChart adds one version of a chart. The caller holds the lock.
func (s *catalog) addChart(name string) string {
	v := version(len(s.charts[name]))
	s.charts[name] = append(s.charts[name], v)
	archive := webtest.Chart{Name: name, Version: v}.Pack()
	sum := sha256.Sum256(archive)
	file := fmt.Sprintf("%s-%s.tgz", name, v)
	s.archives[file] = archive
	s.entries[name] = fmt.Sprintf("  - apiVersion: v1\n    created: \"2024-01-02T03:04:05Z\"\n    digest: %s\n    name: %s\n    urls:\n    - %s\n    version: %q\n",
		hex.EncodeToString(sum[:]), name, file, v) + s.entries[name]
	s.index = nil
	return v
}

// tag adds the next tag of an image, and the old ones before the first.
func (s *catalog) tag(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.images[name]) < oldVersions {
		s.images[name] = append(s.images[name], version(len(s.images[name])))
	}
	v := version(len(s.images[name]))
	s.images[name] = append(s.images[name], v)
	return v
}

// serveIndex answers with the index, or says that the client has it.
func (s *catalog) serveIndex(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.index == nil {
		var b bytes.Buffer
		b.WriteString("apiVersion: v1\nentries:\n")
		for name, entries := range s.entries {
			fmt.Fprintf(&b, "  %s:\n%s", name, entries)
		}
		sum := sha256.Sum256(b.Bytes())
		s.index, s.etag = b.Bytes(), `"`+hex.EncodeToString(sum[:8])+`"`
	}
	index, etag := s.index, s.etag
	s.mu.Unlock()
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(index)
}

func (s *catalog) serveArchive(w http.ResponseWriter, r *http.Request, file string) {
	s.mu.Lock()
	data, found := s.archives[file]
	s.mu.Unlock()
	if !found {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

// serveRegistry answers what a registry is asked for when a reader looks for tags.
func (s *catalog) serveRegistry(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	if path == "" {
		w.WriteHeader(http.StatusOK)
		return
	}
	if name, found := strings.CutSuffix(path, "/tags/list"); found {
		s.mu.Lock()
		tags := append([]string(nil), s.images[name]...)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags})
		return
	}
	name, tag, found := strings.Cut(path, "/manifests/")
	if !found {
		http.NotFound(w, r)
		return
	}
	const media = "application/vnd.oci.image.manifest.v1+json"
	blob := sha256.Sum256([]byte(name + ":" + tag))
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%x","size":2},"layers":[]}`, media, blob)
	w.Header().Set("Content-Type", media)
	w.Header().Set("Docker-Content-Digest", fmt.Sprintf("sha256:%x", sha256.Sum256(manifest)))
	w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(manifest)
	}
}
