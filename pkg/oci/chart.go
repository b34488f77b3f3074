package oci

import (
	"context"
	"errors"
	"io"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Media types of charts, from helm.sh/helm/v3/pkg/registry.
const (
	chartConfigType      = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	chartLegacyLayerType = "application/tar+gzip"
)

const (
	// maxTags is how many tags of one chart are looked at.
	maxTags = 50_000
	// maxPages is how many pages they may come in.
	maxPages = 1_000
	// defaultChartBytes is how large a packaged chart may be unless another limit is
	// given.
	defaultChartBytes = 64 << 20
)

// Tags lists the tags of the chart or image at r.Reference, as the registry has them: in
// a tag of a chart "_" stands for the "+" of a version.
//
// Terminal reasons: InvalidReference, InvalidCredentials, AuthenticationRefused,
// CertificateRefused, Redirected, NotFound, TooLarge (more than 50,000 tags).
// RequeueAfter: Unreachable, Damaged.
func (c *Client) Tags(ctx context.Context, r Registry) ([]string, error) {
	callCtx, s, err := c.open(ctx, r, withoutIgnored(r.Reference))
	if err != nil {
		return nil, err
	}
	defer s.close()
	var tags []string
	pages := 0
	err = s.repo.Tags(callCtx, "", func(page []string) error {
		tags = append(tags, page...)
		if pages++; len(tags) > maxTags || pages > maxPages {
			return permanentf(ReasonTooLarge, "registry %q lists more than %d tags of %q, or more than %d pages of them",
				s.host, maxTags, s.artifact, maxPages)
		}
		return nil
	})
	if err != nil {
		return nil, s.explainCall(ctx, callCtx, err)
	}
	return tags, nil
}

// SaveChart writes the packaged chart (.tgz) at r.Reference that has this tag,
// version ("+" becomes "_") or digest, and returns the digest of the package
// ("sha256:<hex>"). An empty tag means the one in the reference. A chart of more
// than maxBytes (0: 64 MiB) is not read. Provenance is not read either. After an
// error, what was written is of no use; an error of into is returned as it is.
//
// Terminal reasons: those of Tags, NotChart, NotRegistry. RequeueAfter: Unreachable,
// Damaged.
func (c *Client) SaveChart(ctx context.Context, r Registry, tag string, maxBytes int64, into io.Writer) (string, error) {
	if maxBytes <= 0 {
		maxBytes = defaultChartBytes
	}
	callCtx, s, err := c.open(ctx, r, withoutIgnored(r.Reference))
	if err != nil {
		return "", err
	}
	defer s.close()
	if tag, err = s.tag(tag); err != nil {
		return "", err
	}
	out := &writerErrorRecorder{writer: into}
	layer, err := s.chartLayer(callCtx, tag)
	if err == nil {
		err = s.blob(callCtx, layer, maxBytes, out)
	}
	if out.err != nil {
		return "", out.err
	}
	if err != nil {
		return "", s.explainCall(ctx, callCtx, err)
	}
	return layer.Digest.String(), nil
}

// A writerErrorRecorder remembers that it was the writer that failed, and not the registry.
type writerErrorRecorder struct {
	writer io.Writer
	err    error
}

func (w *writerErrorRecorder) Write(p []byte) (int, error) {
	n, err := w.writer.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// Digest returns the digest of the manifest that a tag, version or digest of the chart or image
// at r.Reference names now: of a multi-arch image, that of the index. As long as the digest
// is the same, so is what SaveChart writes. It
// costs one request without a body, and is not a pull for a registry that limits those.
// Errors are those of Tags.
func (c *Client) Digest(ctx context.Context, r Registry, tag string) (string, error) {
	callCtx, s, err := c.open(ctx, r, withoutIgnored(r.Reference))
	if err != nil {
		return "", err
	}
	defer s.close()
	if tag, err = s.tag(tag); err != nil {
		return "", err
	}
	desc, err := s.repo.Resolve(callCtx, tag)
	if err = s.explainCall(ctx, callCtx, err); reconcile.ReasonOf(err) == ReasonDamaged { // no digest in the header
		desc, _, err = s.manifest(callCtx, tag)
		err = s.explainCall(ctx, callCtx, err)
	}
	if err != nil {
		return "", err
	}
	return desc.Digest.String(), nil
}

// tag is the tag or digest to ask for, in a form that registries accept.
func (s *session) tag(wanted string) (string, error) {
	wanted = strings.ReplaceAll(wanted, "+", "_")
	if wanted == "" {
		wanted = s.ref.Reference
	}
	ref := s.ref
	ref.Reference = wanted
	if wanted == "" || ref.ValidateReference() != nil {
		return "", permanentf(ReasonInvalidReference, "%q is no tag that %q in registry %q could have", wanted, s.artifact, s.host)
	}
	s.artifact += ":" + wanted
	return wanted, nil
}

// chartLayer finds the layer that is the chart.
func (s *session) chartLayer(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	desc, data, err := s.manifest(ctx, reference)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if desc.MediaType == ocispec.MediaTypeImageIndex {
		if desc, data, err = s.onlyManifest(ctx, data); err != nil {
			return ocispec.Descriptor{}, err
		}
	}
	if desc.MediaType != ocispec.MediaTypeImageManifest {
		return ocispec.Descriptor{}, s.notChart("its manifest is of another type")
	}
	var m ocispec.Manifest
	if err := s.decode(data, &m); err != nil {
		return ocispec.Descriptor{}, err
	}
	if m.Config.MediaType != chartConfigType {
		return ocispec.Descriptor{}, s.notChart("its configuration is of another type")
	}
	var layers []ocispec.Descriptor
	for _, l := range m.Layers {
		if l.MediaType == chartLayerType || l.MediaType == chartLegacyLayerType {
			layers = append(layers, l)
		}
	}
	if len(layers) != 1 {
		return ocispec.Descriptor{}, s.notChart("it has not exactly one layer with a chart")
	}
	return layers[0], nil
}

// onlyManifest follows an index that lists one manifest of a chart, as tools
// write that attach other things to it.
func (s *session) onlyManifest(ctx context.Context, index []byte) (ocispec.Descriptor, []byte, error) {
	var x ocispec.Index
	if err := s.decode(index, &x); err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	var found []ocispec.Descriptor
	for _, m := range x.Manifests {
		if m.MediaType == ocispec.MediaTypeImageManifest && (m.ArtifactType == "" || m.ArtifactType == chartConfigType) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		return ocispec.Descriptor{}, nil, s.notChart("it is a list of other things, and not exactly one of them can be a chart")
	}
	if found[0].Digest.Validate() != nil {
		return ocispec.Descriptor{}, nil, errDamaged
	}
	return s.manifest(ctx, found[0].Digest.String())
}

func (s *session) notChart(why string) error {
	return permanentf(ReasonNotChart, "%q in registry %q is no Helm chart: %s", s.artifact, s.host, why)
}

// explainCall explains an error of a call. caller is the context of the caller: it is
// cancelled if the caller gave up. call is the context with the time limit of the call.
func (s *session) explainCall(caller, call context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(caller.Err(), context.Canceled) {
		return caller.Err()
	}
	return s.explain(call, err)
}
