package oci_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const secret = "canary-7f3a"

// kinds are the ways in which a registry can be talked to.
var kinds = map[string]ocitest.Options{
	"Open":     {},
	"Basic":    {Accounts: []ocitest.Account{{Username: "fleet", Password: secret}}},
	"Token":    {Accounts: []ocitest.Account{{Username: "fleet", Password: secret}}, Token: true},
	"TLS":      {TLS: true},
	"TLSBasic": {TLS: true, Accounts: []ocitest.Account{{Username: "fleet", Password: secret}}},
	"TLSToken": {TLS: true, Accounts: []ocitest.Account{{Username: "fleet", Password: secret}}, Token: true},
}

func bundle(text string) (string, []byte) {
	raw := content.Encode(content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: text}}})
	return content.IDOf(content.Digest(raw)), raw
}

func TestCharts(t *testing.T) {
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			s, c := ocitest.Start(t, opts), oci.New(oci.Config{Addresses: address.WithLoopback()})
			archive := ocitest.Chart(t, "app", "1.2.0+b1", nil)
			s.PushChart(t, "charts/app", "1.2.0+b1", archive)
			s.PushChart(t, "charts/app", "1.1.0", ocitest.Chart(t, "app", "1.1.0", nil))
			r := s.Registry("charts/app/")
			r.Reference = "oci://" + r.Reference

			tags, err := c.Tags(t.Context(), r)
			if diff := cmp.Diff([]string{"1.1.0", "1.2.0_b1"}, tags); err != nil || diff != "" {
				t.Fatalf("Tags: %v %s", err, diff)
			}
			got, sum, err := pulled(t, c, r, "1.2.0+b1", 0)
			if err != nil || !bytes.Equal(got, archive) || sum != digest.FromBytes(archive).String() {
				t.Errorf("SaveChart: %d bytes, %s, %v", len(got), sum, err)
			}
			if n := s.Count("GET", "/blobs/"); n != 1 {
				t.Errorf("%d blobs were read; neither configuration nor provenance is needed", n)
			}
			r.Reference = s.Host + "/charts/app:1.1.0"
			if _, _, err := pulled(t, c, r, "", 0); err != nil {
				t.Errorf("tag in the reference: %v", err)
			}
			before, err := c.Digest(t.Context(), r, "")
			if err != nil || !strings.HasPrefix(before, "sha256:") {
				t.Errorf("Digest: %q, %v", before, err)
			}
			s.PushChart(t, "charts/app", "1.1.0", archive)
			if after, err := c.Digest(t.Context(), r, ""); err != nil || after == before {
				t.Errorf("Digest of a tag that was moved: %q, %v", after, err)
			}
			if _, _, err := pulled(t, c, r, before, 0); err != nil {
				t.Errorf("by digest: %v", err)
			}
		})
	}
}

func TestTagPages(t *testing.T) {
	s := ocitest.Start(t, ocitest.Options{})
	var want []string
	for i := range 5 {
		version := fmt.Sprintf("1.0.%d", i)
		s.PushChart(t, "app", version, ocitest.Chart(t, "app", version, nil))
		want = append(want, version)
	}
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool { // pages of two, as the registry itself makes them
		if strings.HasSuffix(r.URL.Path, "/tags/list") && r.URL.Query().Get("n") == "" {
			q := r.URL.Query()
			q.Set("n", "2")
			r.URL.RawQuery = q.Encode()
		}
		return false
	})
	got, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Tags(t.Context(), s.Registry("app"))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if n := s.Count("GET", "/tags/list"); n != 3 {
		t.Errorf("%d pages were asked for, want 3", n)
	}
}

func TestBundles(t *testing.T) {
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			s, c := ocitest.Start(t, opts), oci.New(oci.Config{Addresses: address.WithLoopback(), UserAgent: "fleet-test"})
			id, raw := bundle(name)
			r := s.Registry("deep/storage")
			if err := c.Push(t.Context(), r, id, raw); err != nil {
				t.Fatal(err)
			}
			before := len(s.Requests())
			if err := c.Push(t.Context(), r, id, raw); err != nil {
				t.Fatal(err)
			}
			if n := s.Count("PUT", "/"); n != 3 {
				t.Errorf("%d writes, want 3: a second push of the same writes nothing", n)
			}
			if n := len(s.Requests()) - before; n > 3 {
				t.Errorf("a push of what is there took %d requests", n)
			}
			got, err := c.Pull(t.Context(), r, id)
			if err != nil || !bytes.Equal(got, raw) {
				t.Errorf("Pull: %q, %v", got, err)
			}
			for range 2 {
				if err := c.Delete(t.Context(), r, id); err != nil {
					t.Errorf("Delete, also of what is gone: %v", err)
				}
			}
			if s.Has(t, "deep/storage/"+id, "latest") {
				t.Error("the artifact is still there")
			}
			_, err = c.Pull(t.Context(), r, id)
			if !reconcile.IsRequeue(err) || reconcile.ReasonOf(err) != oci.ReasonNotFound {
				t.Errorf("Pull of what is gone: %v", err)
			}
		})
	}
}

// rancher/fleet reads the bytes in testdata's golden form, and nothing else.
func TestBundleForm(t *testing.T) {
	s := ocitest.Start(t, ocitest.Options{})
	id, raw := bundle("form")
	if err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Push(t.Context(), s.Registry("storage"), id, raw); err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(s.Get(t, "/v2/storage/"+id+"/manifests/latest", ocispec.MediaTypeImageManifest).Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	want := ocispec.Manifest{
		MediaType:    "application/vnd.oci.image.manifest.v1+json",
		ArtifactType: "application/fleet.manifest",
		Config:       ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{{
			MediaType: "application/fleet.file", Digest: digest.FromBytes(raw), Size: int64(len(raw)),
			Annotations: map[string]string{"id": id},
		}},
		Annotations: map[string]string{"org.opencontainers.image.created": "1970-01-01T00:00:00Z"},
	}
	want.SchemaVersion = 2
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

// What rancher/fleet writes, made with the same calls of the same library.
func TestReadsReference(t *testing.T) {
	s := ocitest.Start(t, kinds["Basic"])
	id, raw := bundle("of the reference")
	ctx, store := t.Context(), memory.New()
	layer := ocispec.Descriptor{MediaType: "application/fleet.file", Digest: digest.FromBytes(raw), Size: int64(len(raw)), Annotations: map[string]string{"id": id}}
	if err := store.Push(ctx, layer, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	desc, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "application/fleet.manifest", oras.PackManifestOptions{Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Tag(ctx, desc, "latest"); err != nil {
		t.Fatal(err)
	}
	repo, err := remote.NewRepository(s.Host + "/storage/" + id)
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	repo.Client = &auth.Client{Credential: auth.StaticCredential(s.Host, auth.Credential{Username: "fleet", Password: secret})}
	if _, err := oras.Copy(ctx, store, "latest", repo, "latest", oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	c, r := oci.New(oci.Config{Addresses: address.WithLoopback()}), s.Registry("storage")
	if got, err := c.Pull(ctx, r, id); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("Pull: %v", err)
	}
	if err := c.Push(ctx, r, id, raw); err != nil { // over it
		t.Error(err)
	}
	if err := c.Delete(ctx, r, id); err != nil {
		t.Error(err)
	}
	if s.Has(t, "storage/"+id, "latest") {
		t.Error("still there")
	}
}

func TestErrors(t *testing.T) {
	open := ocitest.Start(t, ocitest.Options{NoDelete: true})
	closed := ocitest.Start(t, kinds["Basic"])
	tokens := ocitest.Start(t, kinds["TLSToken"])
	broken := ocitest.Start(t, ocitest.Options{})
	broken.Break(http.StatusBadGateway)
	id, raw := bundle("x")
	c := oci.New(oci.Config{Addresses: address.WithLoopback()})
	if err := c.Push(t.Context(), open.Registry("storage"), id, raw); err != nil {
		t.Fatal(err)
	}
	with := func(r oci.Registry, change func(*oci.Registry)) oci.Registry { change(&r); return r }
	wrong := func(r *oci.Registry) { r.Password = secret + "-wrong" }
	tags := func(r oci.Registry) error { _, err := c.Tags(t.Context(), r); return err }
	pull := func(r oci.Registry, tag string) error { _, _, err := pulled(t, c, r, tag, 0); return err }
	tests := map[string]struct {
		err    error
		wait   bool
		reason string
		text   string
	}{
		"Anonymous":     {tags(with(closed.Registry("app"), func(r *oci.Registry) { r.Username, r.Password = "", "" })), false, oci.ReasonAuthenticationRefused, `registry "HOST" asks for credentials for "app" (401); none are sent`},
		"WrongPassword": {tags(with(closed.Registry("app"), wrong)), false, oci.ReasonAuthenticationRefused, `registry "HOST" refuses the credentials for "app" (401)`},
		"WrongForToken": {tags(with(tokens.Registry("app"), wrong)), false, oci.ReasonAuthenticationRefused, `registry "HOST" refuses the credentials for "app" (401)`},
		"NoChart":       {tags(closed.Registry("app")), false, oci.ReasonNotFound, `registry "HOST" has no "app"`},
		"NoTag":         {pull(open.Registry("app"), "1.0.0"), false, oci.ReasonNotFound, `registry "HOST" has no "app:1.0.0", or it is private`},
		"NotAChart":     {pull(open.Registry("storage/"+id), "latest"), false, oci.ReasonNotChart, `"storage/` + id + `:latest" in registry "HOST" is no Helm chart: its configuration is of another type`},
		"BadTag":        {pull(open.Registry("app"), ">=1"), false, oci.ReasonInvalidReference, `">=1" is no tag that "app" in registry "HOST" could have`},
		"NoTagAtAll":    {pull(open.Registry("app"), ""), false, oci.ReasonInvalidReference, `"" is no tag that "app" in registry "HOST" could have`},
		"UnknownCA":     {tags(with(tokens.Registry("app"), func(r *oci.Registry) { r.CABundle = nil })), false, oci.ReasonCertificateRefused, `certificate of registry "HOST" is not trusted: certificate signed by unknown authority`},
		"NoTLS":         {tags(with(open.Registry("app"), func(r *oci.Registry) { r.BasicHTTP = false })), true, oci.ReasonUnreachable, `registry "HOST" cannot be reached: it does not speak TLS on this port (is basicHTTP meant?)`},
		"BadCA":         {tags(with(open.Registry("app"), func(r *oci.Registry) { r.CABundle = []byte("x") })), false, oci.ReasonInvalidCredentials, `the CA bundle for registry "HOST/app" holds no PEM certificate`},
		"NoPassword":    {tags(with(closed.Registry("app"), func(r *oci.Registry) { r.Password = "" })), false, oci.ReasonInvalidCredentials, `a user name for registry "HOST/app" is set, but no password`},
		"LineBreak":     {tags(with(closed.Registry("app"), func(r *oci.Registry) { r.Password += "\n" })), false, oci.ReasonInvalidCredentials, `the password contains control characters (a line break at its end?)`},
		"InURL":         {tags(oci.Registry{Reference: "oci://fleet:" + secret + "@host/app"}), false, oci.ReasonInvalidReference, `"***@host/app" is no place in a registry; want host[:port]/path, in lower case`},
		"NoPath":        {tags(oci.Registry{Reference: "host"}), false, oci.ReasonInvalidReference, `"host" is no place in a registry; want host[:port]/path, in lower case`},
		"Broken":        {tags(broken.Registry("app")), true, oci.ReasonUnreachable, `registry "HOST" cannot serve "app": it answers 502 Bad Gateway`},
		"Gone":          {tags(oci.Registry{Reference: "127.0.0.1:1/app", BasicHTTP: true}), true, oci.ReasonUnreachable, `registry "127.0.0.1:1" cannot be reached: connection refused`},
		"NoName":        {tags(oci.Registry{Reference: "registry.invalid/app"}), true, oci.ReasonUnreachable, `registry "registry.invalid" cannot be reached: no address is known for this name`},
		"NoDelete":      {c.Delete(t.Context(), open.Registry("storage"), id), false, oci.ReasonDeletionRefused, `registry "HOST" does not allow to delete "storage/` + id + `:latest" (405); remove it there by hand, or enable deletion`},
		"OtherBytes":    {c.Push(t.Context(), open.Registry("storage"), id, append(raw, ' ')), false, oci.ReasonNotContent, `what is to be pushed as "` + id + `" has another id`},
		"IDIsAPath":     {c.Delete(t.Context(), open.Registry("storage"), "../app"), false, oci.ReasonInvalidReference, `"../app" is not the id of a bundle's content`},
	}
	for name, k := range tests {
		t.Run(name, func(t *testing.T) {
			if k.err == nil {
				t.Fatal("no error")
			}
			text := k.err.Error()
			for _, s := range []*ocitest.Server{open, closed, tokens, broken} {
				text = strings.ReplaceAll(text, s.Host, "HOST")
			}
			if diff := cmp.Diff(k.text, text); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(text, secret) {
				t.Error("the password is in it")
			}
			if reconcile.ReasonOf(k.err) != k.reason || reconcile.IsRequeue(k.err) != k.wait || reconcile.IsTerminal(k.err) == k.wait {
				t.Errorf("reason %s, wait %v", reconcile.ReasonOf(k.err), reconcile.IsRequeue(k.err))
			}
		})
	}
}

func TestProxy(t *testing.T) {
	s := ocitest.Start(t, kinds["Basic"])
	s.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", nil))
	var seen atomic.Int32
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		seen.Add(1)
		p.SetURL(&url.URL{Scheme: "http", Host: s.Host})
	}})
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := oci.New(oci.Config{Addresses: address.WithLoopback(), Proxy: http.ProxyURL(at)})
	r := s.Registry("app")
	r.Reference = "registry.invalid:5000/app" // only the proxy knows it
	if _, _, err := pulled(t, c, r, "1.0.0", 0); err != nil || seen.Load() == 0 {
		t.Errorf("%v after %d requests through the proxy", err, seen.Load())
	}
}

// pulled is what SaveChart writes; nothing after an error.
func pulled(t *testing.T, c *oci.Client, r oci.Registry, tag string, maxBytes int64) (archive []byte, digest string, err error) {
	var buf bytes.Buffer
	if digest, err = c.SaveChart(t.Context(), r, tag, maxBytes, &buf); err != nil {
		return nil, "", err
	}
	return buf.Bytes(), digest, nil
}

// A chart of any size costs a constant amount of memory.
func TestSaveChartStreams(t *testing.T) {
	s := ocitest.Start(t, ocitest.Options{})
	archive := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // 32 MiB
	s.PushChart(t, "big", "1.0.0", archive)
	c := oci.New(oci.Config{Addresses: address.WithLoopback()})
	file, err := os.Create(filepath.Join(t.TempDir(), "chart.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	largest := 0
	sum, err := c.SaveChart(t.Context(), s.Registry("big"), "1.0.0", 0, writer(func(p []byte) (int, error) {
		largest = max(largest, len(p))
		return file.Write(p)
	}))
	if err != nil || sum != digest.FromBytes(archive).String() || largest > 64<<10 {
		t.Errorf("%s, %v; up to %d bytes in one piece", sum, err, largest)
	}
	full := errors.New("disk full")
	if _, err := c.SaveChart(t.Context(), s.Registry("big"), "1.0.0", 0, writer(func([]byte) (int, error) { return 0, full })); !errors.Is(err, full) || reconcile.IsRequeue(err) {
		t.Errorf("the registry is blamed for our disk: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestInsecure(t *testing.T) {
	s := ocitest.Start(t, kinds["TLSBasic"])
	s.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", nil))
	r := s.Registry("app")
	r.CABundle, r.InsecureSkipVerify = nil, true
	if _, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Tags(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// Tokens of one call, or of one user, are of no use to the next.
func TestTokensAreNotShared(t *testing.T) {
	s := ocitest.Start(t, kinds["Token"])
	s.PushChart(t, "app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", nil))
	c, r := oci.New(oci.Config{Addresses: address.WithLoopback()}), s.Registry("app")
	if _, err := c.Tags(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	other := r
	other.Password = "another"
	if _, err := c.Tags(t.Context(), other); reconcile.ReasonOf(err) != oci.ReasonAuthenticationRefused {
		t.Errorf("wrong password after a right one: %v", err)
	}
	other.Username, other.Password = "", ""
	if _, err := c.Tags(t.Context(), other); reconcile.ReasonOf(err) != oci.ReasonAuthenticationRefused {
		t.Errorf("without credentials after a login: %v", err)
	}
	for _, q := range s.Requests()[len(s.Requests())-2:] {
		if strings.HasPrefix(q.Authorization, "Bearer") {
			t.Errorf("a token was sent: %+v", q)
		}
	}
}
