package fleetyaml

import (
	"errors"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds of what a file may be after its aliases are unfolded: the decoder
// copies what they stand for.
const (
	maxValues   = 200_000
	maxUnfolded = 8 << 20 // bytes
	maxDepth    = 1_000
)

// parseNode reads the first document; more is where another one follows, nil where
// none does. The root is nil for a document that is empty.
func parseNode(data []byte) (root, more *yaml.Node, err error) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	if dec.Decode(&next) == nil {
		more = &next
		if len(next.Content) > 0 {
			more = next.Content[0]
		}
	}
	if len(doc.Content) == 0 || isNull(doc.Content[0]) {
		return nil, more, nil
	}
	return doc.Content[0], more, nil
}

// A pair is one entry of a mapping.
type pair struct{ key, value *yaml.Node }

// pairs are the entries of a mapping as the decoder sees them: merged ones
// included, each key once. The decoder is one for YAML 1.1, which lets what
// stands further down win, also over keys of the mapping itself.
func pairs(n *yaml.Node) []pair {
	var list []pair
	at := map[string]int{}
	collectPairs(n, 0, func(p pair) {
		if i, ok := at[p.key.Value]; ok {
			list[i] = p
			return
		}
		at[p.key.Value] = len(list)
		list = append(list, p)
	})
	return list
}

func collectPairs(n *yaml.Node, depth int, add func(pair)) {
	n = deref(n)
	if n.Kind != yaml.MappingNode || depth > 10 {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !isMerge(key) {
			add(pair{key, value})
			continue
		}
		if value = deref(value); value.Kind != yaml.SequenceNode {
			collectPairs(value, depth+1, add)
			continue
		}
		for _, v := range slices.Backward(value.Content) {
			collectPairs(v, depth+1, add)
		}
	}
}

func isMerge(key *yaml.Node) bool { return key.Value == "<<" && key.Tag == "!!merge" }

func child(n *yaml.Node, key any) *yaml.Node {
	n = deref(n)
	switch k := key.(type) {
	case string:
		return lookup(n, k)
	case int:
		if n.Kind == yaml.SequenceNode && k >= 0 && k < len(n.Content) {
			return n.Content[k]
		}
	}
	return nil
}

// lookup finds a value in a mapping. Like the decoder, it prefers the exact key
// and accepts another case.
func lookup(n *yaml.Node, key string) *yaml.Node {
	var exact, folded *yaml.Node
	collectPairs(n, 0, func(p pair) {
		switch {
		case p.key.Value == key:
			exact = p.value
		case strings.EqualFold(p.key.Value, key):
			folded = p.value
		}
	})
	if exact != nil {
		return exact
	}
	return folded
}

func deref(n *yaml.Node) *yaml.Node {
	for hops := 0; n.Kind == yaml.AliasNode && n.Alias != nil && hops < 10; hops++ {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// A size is what a node is with all that its aliases stand for.
type size struct {
	values, bytes, depth int
	endless              bool // it holds itself
}

func (s size) tooLarge() bool {
	return s.endless || s.values > maxValues || s.bytes > maxUnfolded || s.depth > maxDepth
}

// sizeOf measures a tree without unfolding it: each node is visited once.
func sizeOf(root *yaml.Node) size {
	known := map[*yaml.Node]size{}
	open := map[*yaml.Node]bool{}
	var of func(n *yaml.Node) size
	of = func(n *yaml.Node) size {
		if n.Kind == yaml.AliasNode && n.Alias != nil {
			n = n.Alias
		}
		if s, ok := known[n]; ok {
			return s
		}
		if open[n] {
			return size{endless: true}
		}
		if n.Kind == yaml.ScalarNode && n.Anchor == "" { // the most; not worth remembering
			return size{values: 1, bytes: len(n.Value) + 1}
		}
		open[n] = true
		s := size{values: 1, bytes: len(n.Value) + 1}
		for _, c := range n.Content {
			in := of(c)
			s.values = min(s.values+in.values, maxValues+1)
			s.bytes = min(s.bytes+in.bytes, maxUnfolded+1)
			s.depth = max(s.depth, in.depth+1)
			s.endless = s.endless || in.endless
		}
		delete(open, n)
		known[n] = s
		return s
	}
	return of(root)
}

// A Text is a single value or a key in a YAML file. If it has several lines, its place is
// the first.
type Text struct {
	Value string
	// Keys lead to it, for a key to its value: strings, and ints for lists. They are
	// valid until the visit ends.
	Keys         []any
	Line, Column int
}

// Texts visits every text, keys included, below the value that keys lead to.
func (f *File) Texts(visit func(Text), keys ...any) {
	n := f.root
	for _, key := range keys {
		if n == nil {
			return
		}
		n = child(n, key)
	}
	if n != nil {
		eachText(n, slices.Clone(keys), visit)
	}
}

// Keys returns the keys of the mapping that keys lead to, in their order; nil where they
// lead to none.
func (f *File) Keys(keys ...any) []string {
	n := f.root
	for _, key := range keys {
		if n == nil {
			return nil
		}
		n = child(n, key)
	}
	if n == nil || deref(n).Kind != yaml.MappingNode {
		return nil
	}
	var out []string
	for _, p := range pairs(n) {
		out = append(out, p.key.Value)
	}
	return out
}

// TextsIn visits every text, keys included, of the first document in data, as
// Texts does. data must have been decoded before: what is no YAML, or unfolds to
// too much, has no texts.
func TextsIn(data []byte, visit func(Text)) {
	if root, _, err := parseNode(data); err == nil && root != nil && !sizeOf(root).tooLarge() {
		eachText(root, nil, visit)
	}
}

func eachText(n *yaml.Node, keys []any, visit func(Text)) {
	n = deref(n)
	switch n.Kind {
	case yaml.ScalarNode:
		line := n.Line
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			line++ // the text begins below its | or >
		}
		visit(Text{n.Value, keys, line, n.Column})
	case yaml.SequenceNode:
		for i, e := range n.Content {
			eachText(e, append(keys, i), visit)
		}
	case yaml.MappingNode:
		for _, p := range pairs(n) {
			below := append(keys, p.key.Value)
			eachText(p.key, below, visit)
			eachText(p.value, below, visit)
		}
	}
}

// Target returns the keys that lead to Spec.Targets[i], and whether it has a name of its
// own there.
func (f *File) Target(i int) (keys []any, named bool) {
	if i < 0 || i >= len(f.customized) {
		return nil, false
	}
	n := f.root
	for _, key := range f.customized[i] {
		if n = child(n, key); n == nil {
			return slices.Clone(f.customized[i]), false
		}
	}
	name := lookup(n, "name")
	return slices.Clone(f.customized[i]), name != nil && !isNull(deref(name)) && deref(name).Value != ""
}
