package main

import (
	"fmt"
	"slices"
	"strings"
)

// An objectRef is an object as the user names it.
type objectRef struct {
	kind kind
	name string
}

// String returns "KIND/NAME".
func (r objectRef) String() string { return r.kind.singular + "/" + r.name }

// A grammar says how the arguments of a command name objects: KIND/NAME and
// KIND NAME in every command, and NAME alone where the position of the argument
// fixes the kind. A word that is a kind and has an argument after it is KIND.
type grammar struct {
	kinds     []kind // that KIND may be
	bare      []kind // of NAME alone, by position
	many      bool   // NAMEs after KIND NAME, or after the last of bare, are of the same kind
	qualified bool   // NAME alone may be WORKSPACE/NAME
}

// grammarOf is the grammar of a command in which KIND is always needed.
func grammarOf(plurals ...string) grammar {
	var g grammar
	for _, plural := range plurals {
		g.kinds = append(g.kinds, mustKind(plural))
	}
	return g
}

// grammars of the commands that are about one cluster, about several, and about
// a bundle and a cluster.
var (
	clusterGrammar  = grammarOf("clusters").named("clusters")
	clustersGrammar = grammar{kinds: clusterGrammar.kinds, bare: clusterGrammar.bare, many: true, qualified: true}
	bundleGrammar   = grammarOf("bundles", "clusters").named("bundles", "clusters")
)

// named is the grammar with NAME alone for objects of these kinds, in this order.
func (g grammar) named(plurals ...string) grammar {
	g.bare = grammarOf(plurals...).kinds
	return g
}

// kindOf is kindOf for the kinds of the program and those of the grammar.
func (g grammar) kindOf(word string) (kind, error) {
	for _, k := range g.kinds {
		if k.is(word) {
			return k, nil
		}
	}
	return kindOf(word)
}

// isKind reports whether a word is a kind.
func (g grammar) isKind(word string) bool {
	_, err := g.kindOf(word)
	return err == nil
}

// forms are what the grammar accepts, for errors.
func (g grammar) forms() string {
	var words []string
	for _, k := range g.kinds {
		words = append(words, k.singular)
	}
	all := strings.Join(words, ", ")
	switch {
	case len(g.bare) == 0:
		return fmt.Sprintf("KIND/NAME or KIND NAME, for example %s/NAME; KIND is %s", words[0], all)
	case len(words) == 1:
		return fmt.Sprintf("%s: NAME, %s/NAME or %s NAME", words[0], words[0], words[0])
	}
	return fmt.Sprintf("NAME, KIND/NAME or KIND NAME; KIND is %s", all)
}

// objects reads arguments that are objects and nothing else.
func (g grammar) objects(args []string) ([]objectRef, error) {
	refs, rest, err := g.parse(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%q: want %s%s", rest[0], g.forms(), g.kindFirst(rest))
	}
	return refs, err
}

// one reads arguments that are one object.
func (g grammar) one(args []string) (objectRef, error) {
	refs, err := g.objects(args)
	switch {
	case err != nil:
		return objectRef{}, err
	case len(refs) != 1:
		return objectRef{}, fmt.Errorf("want one %s", g.forms())
	}
	return refs[0], nil
}

// parse reads objects as far as arguments name them, and returns the rest.
func (g grammar) parse(args []string) (refs []objectRef, rest []string, err error) {
	var last *kind // of KIND NAME, where more NAMEs may follow
	for len(args) > 0 {
		at := last
		if at == nil {
			at = g.bareAt(len(refs))
		}
		ref, used, err := g.next(args, at)
		if err != nil {
			return nil, nil, err
		}
		if used == 0 {
			return refs, args, nil
		}
		switch {
		case used == 2 && g.many:
			last = &ref.kind
		case strings.Contains(args[0], "/"):
			last = nil
		}
		refs, args = append(refs, ref), args[used:]
	}
	return refs, nil, nil
}

// next reads one object from the first of some arguments, and how many it takes:
// 0 where they name none. at is the kind of NAME alone; nil: KIND is needed.
func (g grammar) next(args []string, at *kind) (ref objectRef, used int, err error) {
	word, name, slashed := strings.Cut(args[0], "/")
	switch {
	case slashed && (g.isKind(word) || !g.qualified || at == nil):
		used = 1
	case !slashed && len(args) > 1 && g.isKind(word) && (g.qualified || !strings.Contains(args[1], "/")):
		name, used = args[1], 2
	case at == nil:
		return objectRef{}, 0, nil
	default:
		return objectRef{*at, args[0]}, 1, g.check(*at, args[0], args[0])
	}
	k, err := g.kindOf(word)
	if err != nil {
		return objectRef{}, 0, err
	}
	return objectRef{k, name}, used, g.check(k, name, strings.Join(args[:used], " "))
}

// bareAt is the kind of NAME alone at a position; nil where KIND is needed.
func (g grammar) bareAt(i int) *kind {
	switch {
	case i < len(g.bare):
		return &g.bare[i]
	case g.many && len(g.bare) > 0:
		return &g.bare[len(g.bare)-1]
	}
	return nil
}

// check refuses what cannot be the name of an object, and kinds that the command
// does not work with.
func (g grammar) check(k kind, name, given string) error {
	if name == "" || strings.Contains(name, "/") && !g.qualified {
		return fmt.Errorf("%q: want %s", given, g.forms())
	}
	if slices.ContainsFunc(g.kinds, func(has kind) bool { return has.Kind == k.Kind }) {
		return nil
	}
	text := fmt.Sprintf("%q: this works with %s", given, g.plurals())
	if len(g.bare) > 0 && !strings.Contains(given, "/") {
		text += fmt.Sprintf("; a %s that is called %q is %s/%s", g.bare[0].singular, k.singular, g.bare[0].singular, k.singular)
	}
	return fmt.Errorf("%s", text)
}

// plurals are the kinds that the command works with, for errors.
func (g grammar) plurals() string {
	var words []string
	for _, k := range g.kinds {
		words = append(words, k.plural)
	}
	return strings.Join(words, ", ")
}

// pair reads a bundle and a cluster, each of which may be missing.
func (g grammar) pair(args []string) (bundle, cluster string, err error) {
	refs, err := g.objects(args)
	if err != nil {
		return "", "", err
	}
	for _, r := range refs {
		into := &bundle
		if r.kind.plural == "clusters" {
			into = &cluster
		}
		if *into != "" {
			return "", "", fmt.Errorf("%q and %q: want one %s", *into, r.name, r.kind.singular)
		}
		*into = r.name
	}
	return bundle, cluster, nil
}
