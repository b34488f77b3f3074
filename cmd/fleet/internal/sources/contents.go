package sources

import (
	"context"
	"fmt"
	"slices"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// Contents are the objects that hold what the Bundle deploys: made of its
// resources, or where it has none of its own those that are there already. A
// Bundle that is kept in a registry has none.
func (s *Source) Contents(ctx context.Context, id string) ([]*fleet.Content, error) {
	b := s.Bundle
	if b.Spec.ContentsID != "" {
		return nil, nil
	}
	if len(b.Spec.Resources) > 0 || b.Annotations[fleet.AnnotationContent] == "" {
		packed, err := content.Pack(content.Manifest{Resources: b.Spec.Resources})
		if err != nil {
			return nil, fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, b.Name, err)
		}
		return packed.Contents(), nil
	}
	index, err := s.content(ctx, id)
	if err != nil {
		return nil, err
	}
	n, err := content.Parts(index)
	if err != nil {
		return nil, err
	}
	var out []*fleet.Content
	for i := range n {
		part, err := s.content(ctx, content.PartName(id, i))
		if err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return append(out, index), nil
}

// content returns one Content, from the file or the live cluster.
func (s *Source) content(ctx context.Context, name string) (*fleet.Content, error) {
	if i := slices.IndexFunc(s.File.contents, func(c *fleet.Content) bool { return c.Name == name }); i >= 0 {
		return s.File.contents[i], nil
	}
	if s.Live != nil {
		c, err := client.GetAs[fleet.Content](ctx, s.Live, fleet.GroupVersion.WithResource("contents"), "", name)
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, fmt.Errorf("%w: bundle %q keeps its resources in Content %q, which is not there, or not yours to read", cli.ErrInput, s.Bundle.Name, name)
}

// ManifestOf finds what a deployment id deploys among objects.
func ManifestOf(all Objects, id string) (content.Manifest, error) {
	find := func(name string) *fleet.Content {
		if i := slices.IndexFunc(all.contents, func(c *fleet.Content) bool { return c.Name == name }); i >= 0 {
			return all.contents[i]
		}
		return nil
	}
	index := find(id)
	if index == nil {
		return content.Manifest{}, fmt.Errorf("Content %q is missing", id) //nolint:staticcheck // the name of a kind
	}
	n, err := content.Parts(index)
	if err != nil {
		return content.Manifest{}, err
	}
	var parts []*fleet.Content
	for i := range n {
		part := find(content.PartName(id, i))
		if part == nil {
			return content.Manifest{}, fmt.Errorf("Content %q is missing: it is part %d of %d of %q", content.PartName(id, i), i+1, n, id) //nolint:staticcheck // the name of a kind
		}
		parts = append(parts, part)
	}
	packed, err := content.Join(index, parts)
	if err != nil {
		return content.Manifest{}, err
	}
	return content.Unpack(id, packed)
}
