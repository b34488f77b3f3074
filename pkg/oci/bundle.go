package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// The form in which rancher/fleet keeps the content of a bundle:
// an image manifest 1.1 with the empty configuration and one layer, which has
// exactly one annotation.
const (
	bundleArtifactType = "application/fleet.manifest"
	bundleLayerType    = "application/fleet.file"
	bundleAnnotation   = "id"
	bundleTag          = "latest"
	// bundleCreated replaces the usual time, so that the same content gives the same
	// artifact.
	bundleCreated = "1970-01-01T00:00:00Z"
)

// contentID is what content.ID gives: an id must not lead to another place.
var contentID = regexp.MustCompile(`^s-[0-9a-f]{61}$`)

// Push stores manifest, the bytes of content.Encode that have this id, as
// <r.Reference>/<id>:latest. Where the same is stored already, this costs one
// request.
//
// Terminal reasons: InvalidReference, InvalidCredentials, AuthenticationRefused,
// CertificateRefused, Redirected, NotContent (id is that of other bytes), TooLarge.
// RequeueAfter: Unreachable, Damaged.
func (c *Client) Push(ctx context.Context, r Registry, id string, manifest []byte) error {
	callCtx, s, err := c.openBundle(ctx, r, id)
	if err != nil {
		return err
	}
	defer s.close()
	if content.IDOf(content.Digest(manifest)) != id {
		return permanentf(ReasonNotContent, "what is to be pushed as %q has another id", id)
	}
	layer := describe(bundleLayerType, manifest)
	layer.Annotations = map[string]string{bundleAnnotation: id}
	artifact, err := json.Marshal(ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: bundleArtifactType,
		Config:       ocispec.DescriptorEmptyJSON,
		Layers:       []ocispec.Descriptor{layer},
		Annotations:  map[string]string{ocispec.AnnotationCreated: bundleCreated},
	})
	if err != nil {
		return err
	}
	return s.explainCall(ctx, callCtx, s.push(callCtx, artifact, layer, manifest))
}

// push writes the layer before what names it.
func (s *session) push(ctx context.Context, artifact []byte, layer ocispec.Descriptor, data []byte) error {
	desc := describe(ocispec.MediaTypeImageManifest, artifact)
	if there, err := s.repo.Resolve(ctx, bundleTag); err == nil && there.Digest == desc.Digest {
		return nil
	}
	if err := s.putBlob(ctx, layer, data); err != nil {
		return err
	}
	if err := s.putBlob(ctx, ocispec.DescriptorEmptyJSON, ocispec.DescriptorEmptyJSON.Data); err != nil {
		return err
	}
	return s.repo.PushReference(ctx, desc, bytes.NewReader(artifact), bundleTag)
}

// Pull returns what is stored as <r.Reference>/<id>:latest, by us or by the
// reference implementation. It has exactly one layer, which says that it is id
// and whose digest gives id; anything else is NotContent.
//
// Terminal reasons: InvalidReference, InvalidCredentials, AuthenticationRefused,
// CertificateRefused, Redirected, NotContent, NotRegistry, TooLarge (content.MaxBytes).
// RequeueAfter: NotFound, Unreachable, Damaged.
func (c *Client) Pull(ctx context.Context, r Registry, id string) ([]byte, error) {
	callCtx, s, err := c.openBundle(ctx, r, id)
	if err != nil {
		return nil, err
	}
	defer s.close()
	data, err := s.pull(callCtx, id)
	err = s.explainCall(ctx, callCtx, err)
	var permanent *reconcile.Terminal
	if errors.As(err, &permanent) && permanent.Reason == ReasonNotFound {
		return nil, waitf(ReasonNotFound, "%w", permanent.Err) // who pushes it again heals this
	}
	return data, err
}

func (s *session) pull(ctx context.Context, id string) ([]byte, error) {
	desc, data, err := s.manifest(ctx, bundleTag)
	if err != nil {
		return nil, err
	}
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return nil, s.notContent("its manifest is of another type")
	}
	var m ocispec.Manifest
	if err := s.decode(data, &m); err != nil {
		return nil, err
	}
	if len(m.Layers) != 1 {
		return nil, s.notContent("it has not exactly one layer")
	}
	layer := m.Layers[0]
	switch {
	case layer.MediaType != bundleLayerType:
		return nil, s.notContent("its layer is of another type")
	case layer.Annotations[bundleAnnotation] != id:
		return nil, s.notContent("its layer is annotated with another id")
	case layer.Digest.Algorithm() != digest.SHA256 || layer.Digest.Validate() != nil || content.IDOf(layer.Digest.Encoded()) != id:
		return nil, s.notContent("the digest of its layer gives another id")
	}
	var raw bytes.Buffer
	if err := s.blob(ctx, layer, content.MaxBytes, &raw); err != nil {
		return nil, err
	}
	return raw.Bytes(), nil
}

// Delete removes <r.Reference>/<id>:latest. It is no error if it is gone. The caller
// has to know that it is not used elsewhere.
//
// Terminal reasons: those of Push but NotContent and TooLarge, and DeletionRefused (the
// registry does not delete at all). RequeueAfter: Unreachable.
func (c *Client) Delete(ctx context.Context, r Registry, id string) error {
	callCtx, s, err := c.openBundle(ctx, r, id)
	if err != nil {
		return err
	}
	defer s.close()
	desc, err := s.repo.Resolve(callCtx, bundleTag)
	if err == nil {
		err = s.repo.Delete(callCtx, desc)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	return s.explainCall(ctx, callCtx, err)
}

// openBundle starts a call about the content of a bundle.
func (c *Client) openBundle(ctx context.Context, r Registry, id string) (context.Context, *session, error) {
	if !contentID.MatchString(id) {
		return ctx, nil, permanentf(ReasonInvalidReference, "%q is not the id of a bundle's content", id)
	}
	ctx, s, err := c.open(ctx, r, withoutIgnored(r.Reference)+"/"+id)
	if err != nil {
		return ctx, nil, err
	}
	s.artifact += ":" + bundleTag
	return ctx, s, nil
}

func (s *session) notContent(why string) error {
	return permanentf(ReasonNotContent, "%q in registry %q is not the content of this bundle: %s", s.artifact, s.host, why)
}

func describe(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}
