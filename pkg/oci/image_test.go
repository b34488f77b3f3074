package oci_test

import (
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
)

// The digest of a tag of a multi-arch image is that of the index, and not that of the
// manifest of one architecture, which would pin clusters to it.
func TestDigestOfMultiArchImage(t *testing.T) {
	s := ocitest.Start(t, ocitest.Options{})
	config := s.PushBlob(t, "team/app", ocispec.MediaTypeImageConfig, []byte(`{"architecture": "amd64", "os": "linux"}`))
	amd64 := s.PushManifest(t, "team/app", "amd64", ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{},
	})
	amd64.Platform = &ocispec.Platform{Architecture: "amd64", OS: "linux"}
	index := s.PushManifest(t, "team/app", "1.0.0", ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{amd64},
	})

	got, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Digest(t.Context(), s.Registry("team/app"), "1.0.0")
	if err != nil || got != index.Digest.String() {
		t.Errorf("Digest = %q, %v, want that of the index, %q", got, err, index.Digest)
	}
}
