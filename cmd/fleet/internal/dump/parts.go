package dump

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

// visit visits what a query selects, one page after the other.
func (d *dumper) visit(ctx context.Context, q client.Query, visit func(*unstructured.Unstructured) error) error {
	limit := d.o.FetchLimit
	if large[q.Resource.Resource] && (limit == 0 || limit > largePage) {
		limit = largePage
	}
	return client.VisitOnce(ctx, d.s.API, q, limit, visit)
}

// dumpList writes a file for each object of a list: what show returns of it, which is nil for an object that is
// left out. A list that cannot be read, or not to its end, is missing.
func (d *dumper) dumpList(ctx context.Context, q client.Query, show func(*unstructured.Unstructured) (any, error)) error {
	err := d.visit(ctx, q, func(o *unstructured.Unstructured) error { return d.write(q.Resource, o, show) })
	if err == nil {
		return nil
	}
	parts := []string{q.Resource.Resource}
	if q.Namespace != "" {
		parts = append(parts, q.Namespace)
	}
	return d.missing(ctx, err, parts...)
}

// dumpOne writes the file of one object.
func (d *dumper) dumpOne(ctx context.Context, r schema.GroupVersionResource, namespace, name string, show func(*unstructured.Unstructured) (any, error)) error {
	o, err := d.s.API.Get(ctx, r, namespace, name)
	if err == nil {
		return d.write(r, o, show)
	}
	if namespace == "" {
		return d.missing(ctx, err, r.Resource, name)
	}
	return d.missing(ctx, err, r.Resource, namespace, name)
}

func (d *dumper) write(r schema.GroupVersionResource, o *unstructured.Unstructured, show func(*unstructured.Unstructured) (any, error)) error {
	parts := []string{r.Resource, o.GetName()}
	if ns := o.GetNamespace(); ns != "" {
		parts = []string{r.Resource, ns, o.GetName()}
	}
	shown, err := show(o)
	if err != nil || shown == nil {
		return err
	}
	return d.addYAML(r.Resource, fileName(parts...), shown)
}

// addYAML writes a file and counts it.
func (d *dumper) addYAML(kind, name string, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return &archiveError{err}
	}
	d.m.Files[kind]++
	return d.to.add(name, text)
}

// missing notes that a part could not be read, in the manifest and in a file of its own. It returns what ends the
// dump: an interrupt, or a failure to write the archive.
func (d *dumper) missing(ctx context.Context, err error, parts ...string) error {
	if errors.As(err, new(*archiveError)) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	name, cause, text := fileName(parts...), causeFailure, redact.Credentials(err.Error())
	if apierrors.IsForbidden(err) {
		cause = causeRight
	}
	if errors.Is(err, errTooLong) {
		cause = causeLimit
	}
	if !d.m.miss(name, cause, text) {
		return nil
	}
	file := fileName("errors", name)
	if d.failures[name]++; d.failures[name] > 1 {
		file = fileName("errors", name, fmt.Sprint(d.failures[name]))
	}
	return d.addYAML("errors", file, leftOut{name, cause, text})
}
