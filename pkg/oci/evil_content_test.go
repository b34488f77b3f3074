package oci_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func layerOf(data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func chartManifest(layers ...ocispec.Descriptor) ocispec.Manifest {
	return ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: "application/vnd.cncf.helm.config.v1+json", Digest: digest.FromString("{}"), Size: 2},
		Layers:    layers,
	}
}

func answerManifest(w http.ResponseWriter, m any) {
	data, _ := json.Marshal(m)
	kind := ocispec.MediaTypeImageManifest
	if _, ok := m.(ocispec.Index); ok {
		kind = ocispec.MediaTypeImageIndex
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
	_, _ = w.Write(data)
}

func endless(w http.ResponseWriter, piece string) {
	piece = strings.Repeat(piece, 4096/len(piece))
	for {
		if _, err := io.WriteString(w, piece); err != nil {
			return
		}
	}
}

// slack is what the buffers of two sockets may hold beyond what was read.
const slack = 12 << 20

// What a registry sends is bounded and verified.
func TestEvilContent(t *testing.T) {
	chart := []byte(strings.Repeat("chart ", 1000))
	manifest := func(m any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { answerManifest(w, m) }
	}
	pages := func(page func(w http.ResponseWriter, n int)) http.HandlerFunc {
		n := 0
		return func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("Link", fmt.Sprintf("</v2/x/tags/list?last=%d>; rel=\"next\"", n))
			page(w, n)
		}
	}
	sized := func(size int64) ocispec.Descriptor { d := layerOf(chart); d.Size = size; return d }
	tests := map[string]struct {
		manifest, blob, tags http.HandlerFunc
		reason               string
		bytes                int64 // at most, beside the slack
		blobs                int   // requests for blobs, at most
		timeout, stall       time.Duration
		text                 string // in the error
		why                  string
	}{
		"EndlessBlob":  {blob: func(w http.ResponseWriter, _ *http.Request) { endless(w, "xxxxxxxxxxxxxxxx") }, reason: oci.ReasonDamaged, bytes: 1 << 20, blobs: 1, why: "ends at the announced size"},
		"TooLarge":     {manifest: manifest(chartManifest(sized(1 << 40))), reason: oci.ReasonTooLarge, why: "not even asked for"},
		"NegativeSize": {manifest: manifest(chartManifest(sized(-1))), reason: oci.ReasonDamaged, why: "no size"},
		"Longer":       {blob: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(chart, 'x')) }, reason: oci.ReasonDamaged, blobs: 1, why: "one byte more"},
		"LongerChunked": {blob: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(chart)
			w.(counted).flush()
			_, _ = w.Write(chart)
		}, reason: oci.ReasonDamaged, blobs: 1, why: "more than announced, without a length"},
		"Shorter":         {blob: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(chart[1:]) }, reason: oci.ReasonDamaged, blobs: 1, why: "less"},
		"CutOff":          {blob: cutOff(chart), reason: oci.ReasonUnreachable, blobs: 1, why: "the connection ends early"},
		"OtherBytes":      {blob: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.ToUpper(string(chart)))) }, reason: oci.ReasonDamaged, blobs: 1, why: "as long, but not the same"},
		"NoDigest":        {manifest: manifest(chartManifest(ocispec.Descriptor{MediaType: layerOf(chart).MediaType, Digest: "sha256:zz", Size: 5})), reason: oci.ReasonDamaged, why: "nothing to verify with"},
		"WeakDigest":      {manifest: manifest(chartManifest(ocispec.Descriptor{MediaType: layerOf(chart).MediaType, Digest: "md5:d41d8cd98f00b204e9800998ecf8427e", Size: 5})), reason: oci.ReasonDamaged, why: "nothing to verify with"},
		"TwoCharts":       {manifest: manifest(chartManifest(layerOf(chart), layerOf([]byte("another")))), reason: oci.ReasonNotChart, why: "which?"},
		"NoLayer":         {manifest: manifest(chartManifest()), reason: oci.ReasonNotChart, why: "none"},
		"Image":           {manifest: manifest(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{layerOf(chart)}}), reason: oci.ReasonNotChart, why: "a container image"},
		"Index":           {manifest: manifest(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: make([]ocispec.Descriptor, 2)}), reason: oci.ReasonNotChart, why: "a list"},
		"IndexOfItself":   {manifest: manifest(ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("x"), Size: 1}}}), reason: oci.ReasonDamaged, why: "lists do not lead to lists"},
		"HTML":            {manifest: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) }, reason: oci.ReasonNotChart, why: "a login page"},
		"NotJSON":         {manifest: raw(ocispec.MediaTypeImageManifest, "{"), reason: oci.ReasonNotRegistry, why: "broken"},
		"HugeManifest":    {manifest: raw(ocispec.MediaTypeImageManifest, strings.Repeat(" ", 5<<20)), reason: oci.ReasonTooLarge, bytes: 4 << 20, why: "more than 4 MiB"},
		"EndlessManifest": {manifest: endlessly(ocispec.MediaTypeImageManifest), reason: oci.ReasonDamaged, bytes: 4 << 20, why: "without a length"},
		"EndlessTags": {tags: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"tags":["`)
			endless(w, "xxxxxxxxxxxxxxxx")
		}, reason: oci.ReasonUnreachable, bytes: 4 << 20, why: "one name without end"},
		"EndlessPages": {tags: pages(func(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, `{"tags":[]}`) }), reason: oci.ReasonTooLarge, bytes: 1 << 20, why: "pages without tags"},
		"SamePage": {tags: pages(func(w http.ResponseWriter, _ int) {
			_, _ = io.WriteString(w, `{"tags":["1"`+strings.Repeat(`,"1"`, 9999)+`]}`)
		}), reason: oci.ReasonTooLarge, bytes: 1 << 20, why: "the same tags again and again"},
		"EndlessError": {tags: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"errors":[{"code":"`)
			endless(w, "x")
		}, reason: oci.ReasonUnreachable, bytes: 1 << 20, why: "an error without end"},
		"ErrorSaysSecret": {tags: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"errors":[{"code":"X","message":%q}]}`, r.Header.Get("Authorization")+secret)
		}, reason: oci.ReasonUnreachable, why: "what we said comes back"},
		"Silent":     {tags: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, reason: oci.ReasonUnreachable, timeout: time.Second, why: "never answers"},
		"Trickle":    {tags: trickle, reason: oci.ReasonUnreachable, timeout: time.Second, bytes: 1 << 20, why: "a byte now and then"},
		"Drip":       {tags: trickle, reason: oci.ReasonUnreachable, stall: time.Second, bytes: 1 << 20, text: "fewer than 1024 bytes came in 1s", why: "a byte now and then, long before the timeout"},
		"HugeHeader": {tags: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, reason: oci.ReasonUnreachable, why: "headers are bounded"},
		"Loop":       {tags: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, reason: oci.ReasonRedirected, why: "in circles"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobs := atomic.Int32{}
			evil := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.Contains(r.URL.Path, "/tags/"):
					c.tags(w, r)
				case strings.Contains(r.URL.Path, "/blobs/"):
					blobs.Add(1)
					c.blob(w, r)
				case c.manifest != nil:
					c.manifest(w, r)
				default:
					answerManifest(w, chartManifest(layerOf(chart)))
				}
			})
			if c.timeout == 0 {
				c.timeout = 30 * time.Second
			}
			client, err := oci.New(oci.Config{Addresses: address.WithLoopback(), Timeout: c.timeout, Stall: c.stall}), error(nil)
			var got []byte
			if c.tags != nil {
				_, err = client.Tags(t.Context(), evil.registry("x"))
			} else {
				got, _, err = pulled(t, client, evil.registry("x"), "1.0.0", 1<<20)
			}
			if err == nil || reconcile.ReasonOf(err) != c.reason || got != nil {
				t.Errorf("%s: %d bytes, %s %v", c.why, len(got), reconcile.ReasonOf(err), err)
			}
			if !strings.Contains(fmt.Sprint(err), c.text) {
				t.Errorf("%s: want %q in %v", c.why, c.text, err)
			}
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("the password is in %v", err)
			}
			if n := evil.sent.Load(); n > c.bytes+slack {
				t.Errorf("%s: %d bytes were sent, at most %d and what sockets hold are wanted", c.why, n, c.bytes)
			}
			if n := int(blobs.Load()); n > c.blobs {
				t.Errorf("%s: %d blobs were asked for, want %d", c.why, n, c.blobs)
			}
		})
	}
}

func (c counted) flush() { c.ResponseWriter.(http.Flusher).Flush() }

func raw(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.Header().Set("Docker-Content-Digest", digest.FromString(text).String())
		_, _ = io.WriteString(w, text)
	}
}

func endlessly(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "100")
			w.Header().Set("Docker-Content-Digest", digest.FromString("").String())
			return
		}
		endless(w, "                ")
	}
}

func trickle(w http.ResponseWriter, r *http.Request) {
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := io.WriteString(w, " "); err != nil {
			return
		}
		w.(counted).flush()
	}
}

func cutOff(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:10])
		w.(counted).flush()
		panic(http.ErrAbortHandler)
	}
}

// A bundle's content is what its id says, or nothing.
func TestEvilBundle(t *testing.T) {
	id, data := bundle("mine")
	otherID, other := bundle("another's")
	layer := func(data []byte, id string) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: "application/fleet.file", Digest: digest.FromBytes(data), Size: int64(len(data)), Annotations: map[string]string{"id": id}}
	}
	of := func(layers ...ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/fleet.manifest", Config: ocispec.DescriptorEmptyJSON, Layers: layers}
	}
	large := layer(data, id)
	large.Size = content.MaxBytes + 1
	tests := map[string]struct {
		manifest any
		reason   string
		why      string
	}{
		"AnotherBundle":    {of(layer(other, otherID)), oci.ReasonNotContent, "says so itself"},
		"AnotherLyingBlob": {of(layer(other, id)), oci.ReasonNotContent, "says it is ours, its digest says no"},
		"TwoLayers":        {of(layer(data, id), layer(other, otherID)), oci.ReasonNotContent, "exactly one"},
		"NoLayers":         {of(), oci.ReasonNotContent, "exactly one"},
		"NoAnnotation":     {of(ocispec.Descriptor{MediaType: "application/fleet.file", Digest: digest.FromBytes(data), Size: int64(len(data))}), oci.ReasonNotContent, "not ours"},
		"OtherType":        {of(ocispec.Descriptor{MediaType: "text/plain", Digest: digest.FromBytes(data), Size: int64(len(data)), Annotations: map[string]string{"id": id}}), oci.ReasonNotContent, "not ours"},
		"Index":            {ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}, oci.ReasonNotContent, "a list"},
		"TooLarge":         {of(large), oci.ReasonTooLarge, "more than we would unpack"},
		"Chart":            {chartManifest(layerOf(data)), oci.ReasonNotContent, "a chart"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			evil := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/blobs/") {
					t.Errorf("%s: a blob was asked for", c.why)
				}
				answerManifest(w, c.manifest)
			})
			got, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Pull(t.Context(), evil.registry("x"), id)
			if got != nil || reconcile.ReasonOf(err) != c.reason || !reconcile.IsTerminal(err) {
				t.Errorf("%s: %q %s %v", c.why, got, reconcile.ReasonOf(err), err)
			}
		})
	}
}
