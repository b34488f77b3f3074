package cli

import (
	"fmt"
	"slices"
	"strings"
)

// An ObjectRef is an object as the user names it.
type ObjectRef struct {
	Kind Kind
	Name string
}

// String returns "KIND/NAME".
func (r ObjectRef) String() string { return r.Kind.Singular + "/" + r.Name }

// A Grammar says how the arguments of a command name objects: KIND/NAME and
// KIND NAME in every command, and NAME alone where the position of the argument
// fixes the kind. A word that is a kind and has an argument after it is KIND.
type Grammar struct {
	Kinds     []Kind // that KIND may be
	Bare      []Kind // of NAME alone, by position
	Many      bool   // NAMEs after KIND NAME, or after the last of bare, are of the same kind
	Qualified bool   // NAME alone may be WORKSPACE/NAME
}

// GrammarOf is the grammar of a command in which KIND is always needed.
func GrammarOf(plurals ...string) Grammar {
	var g Grammar
	for _, plural := range plurals {
		g.Kinds = append(g.Kinds, MustKind(plural))
	}
	return g
}

// grammars of the commands that are about one cluster, about several, and about
// a bundle and a cluster.
var (
	ClusterGrammar  = GrammarOf("clusters").forKinds("clusters")
	ClustersGrammar = Grammar{Kinds: ClusterGrammar.Kinds, Bare: ClusterGrammar.Bare, Many: true, Qualified: true}
	BundleGrammar   = GrammarOf("bundles", "clusters").forKinds("bundles", "clusters")
)

// forKinds is the grammar with NAME alone for objects of these kinds, in this order.
func (g Grammar) forKinds(plurals ...string) Grammar {
	g.Bare = GrammarOf(plurals...).Kinds
	return g
}

// kindOf is KindOf for the kinds of the program and those of the grammar.
func (g Grammar) kindOf(word string) (Kind, error) {
	for _, k := range g.Kinds {
		if k.Matches(word) {
			return k, nil
		}
	}
	return KindOf(word)
}

// isKind reports whether a word is a kind.
func (g Grammar) isKind(word string) bool {
	_, err := g.kindOf(word)
	return err == nil
}

// Forms are what the grammar accepts, for errors.
func (g Grammar) Forms() string {
	var words []string
	for _, k := range g.Kinds {
		words = append(words, k.Singular)
	}
	all := strings.Join(words, ", ")
	switch {
	case len(g.Bare) == 0:
		return fmt.Sprintf("KIND/NAME or KIND NAME, for example %s/NAME; KIND is %s", words[0], all)
	case len(words) == 1:
		return fmt.Sprintf("%s: NAME, %s/NAME or %s NAME", words[0], words[0], words[0])
	}
	return fmt.Sprintf("NAME, KIND/NAME or KIND NAME; KIND is %s", all)
}

// ParseObjects reads arguments that are objects and nothing else.
func (g Grammar) ParseObjects(args []string) ([]ObjectRef, error) {
	refs, rest, err := g.Parse(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%q: want %s%s", rest[0], g.Forms(), g.KindFirst(rest))
	}
	return refs, err
}

// ParseOne reads arguments that are one object.
func (g Grammar) ParseOne(args []string) (ObjectRef, error) {
	refs, err := g.ParseObjects(args)
	switch {
	case err != nil:
		return ObjectRef{}, err
	case len(refs) != 1:
		return ObjectRef{}, fmt.Errorf("want one %s", g.Forms())
	}
	return refs[0], nil
}

// Parse reads objects as far as arguments name them, and returns the rest.
func (g Grammar) Parse(args []string) (refs []ObjectRef, rest []string, err error) {
	var last *Kind // of KIND NAME, where more NAMEs may follow
	for len(args) > 0 {
		at := last
		if at == nil {
			at = g.bareAt(len(refs))
		}
		ref, used, err := g.parseNext(args, at)
		if err != nil {
			return nil, nil, err
		}
		if used == 0 {
			return refs, args, nil
		}
		switch {
		case used == 2 && g.Many:
			last = &ref.Kind
		case strings.Contains(args[0], "/"):
			last = nil
		}
		refs, args = append(refs, ref), args[used:]
	}
	return refs, nil, nil
}

// parseNext reads one object from the first of some arguments, and how many it takes:
// 0 where they name none. at is the kind of NAME alone; nil: KIND is needed.
func (g Grammar) parseNext(args []string, at *Kind) (ref ObjectRef, used int, err error) {
	word, name, slashed := strings.Cut(args[0], "/")
	switch {
	case slashed && (g.isKind(word) || !g.Qualified || at == nil):
		used = 1
	case !slashed && len(args) > 1 && g.isKind(word) && (g.Qualified || !strings.Contains(args[1], "/")):
		name, used = args[1], 2
	case at == nil:
		return ObjectRef{}, 0, nil
	default:
		return ObjectRef{*at, args[0]}, 1, g.checkName(*at, args[0], args[0])
	}
	k, err := g.kindOf(word)
	if err != nil {
		return ObjectRef{}, 0, err
	}
	return ObjectRef{k, name}, used, g.checkName(k, name, strings.Join(args[:used], " "))
}

// bareAt is the kind of NAME alone at a position; nil where KIND is needed.
func (g Grammar) bareAt(i int) *Kind {
	switch {
	case i < len(g.Bare):
		return &g.Bare[i]
	case g.Many && len(g.Bare) > 0:
		return &g.Bare[len(g.Bare)-1]
	}
	return nil
}

// checkName refuses what cannot be the name of an object, and kinds that the command
// does not work with.
func (g Grammar) checkName(k Kind, name, given string) error {
	if name == "" || strings.Contains(name, "/") && !g.Qualified {
		return fmt.Errorf("%q: want %s", given, g.Forms())
	}
	if slices.ContainsFunc(g.Kinds, func(has Kind) bool { return has.Kind == k.Kind }) {
		return nil
	}
	text := fmt.Sprintf("%q: this works with %s", given, g.Plurals())
	if len(g.Bare) > 0 && !strings.Contains(given, "/") {
		text += fmt.Sprintf("; a %s that is called %q is %s/%s", g.Bare[0].Singular, k.Singular, g.Bare[0].Singular, k.Singular)
	}
	return fmt.Errorf("%s", text)
}

// Plurals are the kinds that the command works with, for errors.
func (g Grammar) Plurals() string {
	var words []string
	for _, k := range g.Kinds {
		words = append(words, k.Plural)
	}
	return strings.Join(words, ", ")
}

// ParsePair reads a bundle and a cluster, each of which may be missing.
func (g Grammar) ParsePair(args []string) (bundle, cluster string, err error) {
	refs, err := g.ParseObjects(args)
	if err != nil {
		return "", "", err
	}
	for _, r := range refs {
		into := &bundle
		if r.Kind.Plural == "clusters" {
			into = &cluster
		}
		if *into != "" {
			return "", "", fmt.Errorf("%q and %q: want one %s", *into, r.Name, r.Kind.Singular)
		}
		*into = r.Name
	}
	return bundle, cluster, nil
}

// KindFirst is the end of an error for arguments NAME KIND; empty for all others.
func (g Grammar) KindFirst(args []string) string {
	if len(args) < 2 || g.isKind(args[0]) || !g.isKind(args[1]) || strings.Contains(args[0], "/") {
		return ""
	}
	k, _ := g.kindOf(args[1]) // isKind
	return fmt.Sprintf("; the kind comes first: %s", ObjectRef{k, args[0]})
}
