package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// A page is what is left of a list.
type page struct {
	version int64
	rest    []*record
}

// list answers with a list, or a page of it.
func (h handler) list(c *call) (answer, error) {
	selects, err := h.selection(c)
	if err != nil {
		return answer{}, err
	}
	if err := h.checkVersion(c); err != nil {
		return answer{}, err
	}
	p := page{version: h.version}
	if token := c.query.Get("continue"); token != "" {
		known, ok := h.pages[token]
		if !ok {
			return answer{}, apierrors.NewResourceExpired("the provided continue parameter is too old")
		}
		p = known
	} else {
		p.rest = c.res.sorted(selects)
	}
	limit, err := number(c, "limit")
	if err != nil {
		return answer{}, err
	}
	if c.query.Get("resourceVersion") == "0" {
		limit = 0 // as it is where a server answers from its cache
	}
	return h.pageOf(c, p, int(limit))
}

// pageOf writes the first objects of a page, and stores the rest.
func (h handler) pageOf(c *call, p page, limit int) (answer, error) {
	md := map[string]any{"resourceVersion": strconv.FormatInt(p.version, 10)}
	now := p.rest
	if limit > 0 && len(now) > limit {
		now = p.rest[:limit]
		token := fmt.Sprintf("page-%d", len(h.pages)+1)
		h.pages[token] = page{p.version, p.rest[limit:]}
		md["continue"] = token
		if c.query.Get("labelSelector")+c.query.Get("fieldSelector") == "" {
			md["remainingItemCount"] = len(p.rest) - limit
		}
	}
	items := make([]json.RawMessage, 0, len(now))
	for _, r := range now {
		item, err := r.item(c.res.Kind, c.partial)
		if err != nil {
			return answer{}, err
		}
		items = append(items, item)
	}
	list := map[string]any{
		"apiVersion": c.res.GroupVersion().String(), "kind": c.res.Kind.Kind + "List", "metadata": md, "items": items,
	}
	if c.partial {
		list["apiVersion"], list["kind"] = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	body, err := json.Marshal(list)
	return jsonAnswer(http.StatusOK, body), err
}

// sorted returns the selected objects in the order of API servers.
func (r *resource) sorted(selects func(*record) bool) []*record {
	var out []*record
	for _, o := range r.objects {
		if selects(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *record) int { return strings.Compare(a.path, b.path) })
	return out
}

// checkVersion refuses a list of a resourceVersion that is unknown or compacted.
func (h handler) checkVersion(c *call) error {
	asked, err := number(c, "resourceVersion")
	if err != nil {
		return err
	}
	if c.query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) && asked != h.version {
		return h.refuse("does not keep lists of earlier versions: %s", c.Request)
	}
	if asked > h.version {
		return tooLarge(asked, h.version)
	}
	return nil
}

// tooLarge returns the error for a resourceVersion that the server does not have yet.
func tooLarge(asked, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// number returns a number of the query; 0 if it is missing.
func number(c *call, name string) (int64, error) {
	given := c.query.Get(name)
	if given == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("%s: invalid value %q", name, given))
	}
	return n, nil
}

// selection returns a function that selects the objects of a list or a watch.
func (h handler) selection(c *call) (func(*record) bool, error) {
	byLabel, err := labels.Parse(c.query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(c.query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range byField.Requirements() {
		if _, ok := c.res.fields(&record{Unstructured: &unstructured.Unstructured{}})[r.Field]; !ok {
			return nil, h.refuse("does not select %s by %q", c.Resource, r.Field)
		}
	}
	return func(r *record) bool {
		return (c.Namespace == "" || r.GetNamespace() == c.Namespace) && (c.Name == "" || r.GetName() == c.Name) &&
			byLabel.Matches(labels.Set(r.GetLabels())) && byField.Matches(c.res.fields(r))
	}, nil
}

// fields returns the fields for field selectors.
func (r *resource) fields(o *record) fields.Set {
	out := fields.Set{"metadata.name": o.GetName()}
	if r.Namespaced {
		out["metadata.namespace"] = o.GetNamespace()
	}
	if r.Group == "" && r.Kind.Kind == "Secret" {
		out["type"], _, _ = unstructured.NestedString(o.Object, "type")
	}
	return out
}
