package printer

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// jsonpath= prints nothing for a field that an object does not have, as kubectl's does:
// the field may only be unset. A field that no object of this kind can have is a
// mistake of the user. The Go types of the documents distinguish the two.

// maxFields is how many fields an error lists.
const maxFields = 20

// errNoField is the error for a jsonpath with a field that does not exist.
var errNoField = errors.New("no field")

// misspelt checks the fields that a jsonpath names against a document, as decoded from
// JSON, and against what one of its shape may hold. wrong has one error for each expression with a field that does
// not exist, doubtful one for each key that a map lacks and that is near one it has.
// matched reports whether any expression found a value.
func misspelt(text string, doc any, shape reflect.Type) (wrong, doubtful []error, matched bool) {
	tree, err := jsonpath.Parse("output", text)
	if err != nil {
		return nil, nil, true // path refuses it
	}
	c := pathCheck{scopes: []pathScope{{places: []jsonPlace{{value: doc, shape: shape}}}}}
	for _, node := range tree.Root.Nodes {
		if list, ok := node.(*jsonpath.ListNode); ok {
			c.expression(list)
		}
	}
	return c.wrong, c.unclear, c.matched
}

// A pathScope is where the paths of expressions begin.
type pathScope struct {
	places []jsonPlace
	at     string // how the user wrote the way to them
}

// pathCheck follows the expressions of one jsonpath.
type pathCheck struct {
	scopes  []pathScope // the document, and what each open range goes over
	doubts  []error     // of the expression that is followed
	wrong   []error
	unclear []error
	matched bool
}

// expression follows what stands between two braces.
func (c *pathCheck) expression(list *jsonpath.ListNode) {
	scope := c.scopes[len(c.scopes)-1]
	nodes, ranges := list.Nodes, false
	if len(nodes) > 0 {
		if id, ok := nodes[0].(*jsonpath.IdentifierNode); ok && id.Name == "end" {
			c.scopes = c.scopes[:max(len(c.scopes)-1, 1)]
			return
		} else if ok {
			nodes, ranges = nodes[1:], true
		}
	}
	c.doubts = nil
	found, err := c.followPath(scope.places, nodes, scope.at)
	if err != nil {
		c.wrong = append(c.wrong, c.inList(err, scope.places, nodes))
	}
	c.unclear = append(c.unclear, c.doubts...)
	if ranges {
		c.scopes = append(c.scopes, pathScope{found, scope.at + wayOf(nodes...)})
		return
	}
	c.matched = c.matched || slices.ContainsFunc(found, jsonPlace.set)
}

// inList adds to the error of an expression about a List that it fits the objects of
// the list, and to that of one about the objects of a List that there is no list.
func (c *pathCheck) inList(err error, scope []jsonPlace, nodes []jsonpath.Node) error {
	items, listErr := c.followPath(scope, []jsonpath.Node{&jsonpath.FieldNode{Value: "items"}, &jsonpath.WildcardNode{}}, "")
	if listErr == nil && len(items) > 0 {
		if _, listErr = c.followPath(items, nodes, ""); listErr == nil {
			return fmt.Errorf("%w; the objects of a list are in .items[*]", err)
		}
		return err
	}
	if field, ok := nodes[0].(*jsonpath.FieldNode); ok && field.Value == "items" && len(nodes) > 2 {
		if _, oneErr := c.followPath(scope, nodes[2:], ""); oneErr == nil {
			return fmt.Errorf("%w; the answer is one object and no list: leave out .items[*]", err)
		}
	}
	return err
}

// followPath goes from places along a path. at is how the user wrote the way to them.
func (c *pathCheck) followPath(from []jsonPlace, path []jsonpath.Node, at string) ([]jsonPlace, error) {
	var err error
	for i, node := range path {
		to := at + wayOf(node)
		switch n := node.(type) {
		case *jsonpath.FieldNode:
			if n.Value == "" {
				continue // {.} and {@}
			}
			from, err = c.toField(from, n.Value, at, i > 0 && isRecursive(path[i-1]))
		case *jsonpath.ArrayNode, *jsonpath.WildcardNode:
			from = mapPlaces(from, jsonPlace.children)
		case *jsonpath.RecursiveNode:
			from = mapPlaces(from, jsonPlace.descendants)
		case *jsonpath.FilterNode:
			from, err = c.filter(mapPlaces(from, jsonPlace.children), n, to)
		case *jsonpath.UnionNode:
			from, err = c.followUnion(from, n, at)
		case *jsonpath.ListNode:
			from, err = c.followPath(from, n.Nodes, at)
		}
		if err != nil {
			return nil, err
		}
		at = to
	}
	return from, nil
}

// wayOf is how the user wrote nodes, with [*] for a part of a list.
func wayOf(nodes ...jsonpath.Node) string {
	var way strings.Builder
	for _, node := range nodes {
		switch n := node.(type) {
		case *jsonpath.FieldNode:
			if n.Value != "" {
				way.WriteString("." + strings.ReplaceAll(n.Value, ".", `\.`))
			}
		case *jsonpath.ArrayNode, *jsonpath.WildcardNode, *jsonpath.FilterNode:
			way.WriteString("[*]")
		case *jsonpath.RecursiveNode:
			way.WriteString(".")
		}
	}
	return way.String()
}

func isRecursive(n jsonpath.Node) bool {
	_, ok := n.(*jsonpath.RecursiveNode)
	return ok
}

// filter checks the two sides of a condition. It does not judge the result of the
// condition.
func (c *pathCheck) filter(from []jsonPlace, n *jsonpath.FilterNode, at string) ([]jsonPlace, error) {
	for _, side := range []*jsonpath.ListNode{n.Left, n.Right} {
		if _, err := c.followPath(from, side.Nodes, at); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// followUnion goes from places along each of several paths.
func (c *pathCheck) followUnion(from []jsonPlace, n *jsonpath.UnionNode, at string) ([]jsonPlace, error) {
	var all []jsonPlace
	for _, path := range n.Nodes {
		found, err := c.followPath(from, path.Nodes, at)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// toField goes from places to a field of theirs. It is an error if none of them can have
// it. anywhere is for the places below a "..": most of them need not have it.
func (c *pathCheck) toField(from []jsonPlace, name, at string, anywhere bool) ([]jsonPlace, error) {
	var found, unset []jsonPlace // unset: keys that a map could have
	names := map[string]bool{}
	for _, p := range from {
		next, known := p.fieldPlace(name)
		switch {
		case known:
			found = append(found, next)
		case p.open():
			unset = append(unset, next)
		}
		for _, other := range p.fields() {
			names[other] = true
		}
	}
	known := slices.Sorted(maps.Keys(names))
	if len(found) > 0 || len(from) == 0 {
		return found, nil
	}
	near := spelling.Nearest(name, known)
	switch where := wayTo(at); {
	case len(unset) > 0 && !anywhere:
		if near != "" {
			c.doubts = append(c.doubts, fmt.Errorf("%s has no key %q; did you mean %q?", where, name, near))
		}
		return unset, nil
	case anywhere:
		return nil, fmt.Errorf("%w %q anywhere%s", errNoField, name, fieldHint(near, nil))
	case slices.ContainsFunc(from, jsonPlace.list):
		return nil, fmt.Errorf("%w %q in %s, which is a list: [*] stands for all it holds: %s[*].%s", errNoField, name, where, at, name)
	case len(known) == 0:
		return nil, fmt.Errorf(`%w %q in %s, which has no fields; write \. for a dot in a key`, errNoField, name, where)
	default:
		return nil, fmt.Errorf("%w %q in %s%s", errNoField, name, where, fieldHint(near, known))
	}
}

// fieldHint is the end of an error about a field that does not exist: the nearest that does,
// or else all of them.
func fieldHint(near string, known []string) string {
	switch {
	case near != "":
		return fmt.Sprintf("; did you mean %q?", near)
	case len(known) > maxFields:
		return fmt.Sprintf("; there are: %s and %d more", strings.Join(known[:maxFields], ", "), len(known)-maxFields)
	case len(known) > 0:
		return "; there are: " + strings.Join(known, ", ")
	}
	return ""
}

// wayTo is how an error names the way to a field.
func wayTo(at string) string {
	if at == "" {
		return "the answer"
	}
	return at
}

// mapPlaces is what follows from each of some places.
func mapPlaces(from []jsonPlace, next func(jsonPlace) []jsonPlace) []jsonPlace {
	var all []jsonPlace
	for _, p := range from {
		all = append(all, next(p)...)
	}
	return all
}
