package lint

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// A Member is one of the bundles that are linted together.
type Member struct {
	Dir bundle.Dir
	// File is its fleet.yaml. The findings have its Path.
	File *fleetyaml.File
}

// Dependencies finds what is wrong with dependsOn between bundles: cycles, and names that
// are near the one of a bundle here. Any other name is taken to be that of a bundle of
// another repository.
//
// If the fleet.yaml of a bundle sets no name, its name begins with that of the GitRepo,
// which is not known here. A name that ends like the rest then means that bundle. A cycle
// by way of such a name is a warning, other cycles are errors.
func Dependencies(members []Member) []finding.Finding {
	g := graphOf(members)
	var list []finding.Finding
	reported := map[int]bool{}
	for _, repo := range append([]string{""}, g.repos()...) {
		for start := range members {
			if reported[start] {
				continue
			}
			ring := g.shortestCycle(start, repo)
			for _, e := range ring {
				reported[e.from] = true
			}
			if len(ring) > 0 {
				list = append(list, g.cycle(ring, repo))
			}
		}
	}
	list = append(list, g.misspelt()...)
	finding.Sort(list)
	return list
}

// A link is an entry of dependsOn that means another bundle here, or the same.
type link struct {
	from, to, ref int
	// repo is the name that the GitRepo must have, where the entry means a bundle
	// without a name of its own.
	repo string
}

// graph is which bundles wait for which.
type graph struct {
	members []Member
	links   [][]link // by the bundle that waits
}

func graphOf(members []Member) *graph {
	g := &graph{members: members, links: make([][]link, len(members))}
	for i, m := range members {
		for n, ref := range m.dependsOn() {
			if waits(ref) {
				g.links[i] = append(g.links[i], g.dependencyLinks(i, n, ref)...)
			}
		}
	}
	return g
}

func (m *Member) dependsOn() []fleet.BundleRef {
	if !m.File.Decoded() {
		return nil
	}
	return m.File.Spec.DependsOn
}

// waits reports whether a dependency has to be deployed first. With other accepted
// states a bundle may go on before.
func waits(ref fleet.BundleRef) bool {
	return !slices.ContainsFunc(ref.AcceptedStates, func(s fleet.BundleState) bool { return s != fleet.Ready && s != fleet.Modified })
}

// dependencyLinks are the bundles that entry n of a bundle's dependsOn certainly means, or,
// where there are none, those that it means if the GitRepo has a certain name.
func (g *graph) dependencyLinks(from, n int, ref fleet.BundleRef) []link {
	var named, derived []link
	for to := range g.members {
		m := &g.members[to]
		if !certainlyMatches(ref.Selector, m.File.Labels) || ref.Name == "" && to == from {
			continue
		}
		if ref.Name == "" || ref.Name == m.File.Name {
			named = append(named, link{from: from, to: to, ref: n})
		} else if repo := m.repo(ref.Name); repo != "" {
			derived = append(derived, link{from, to, n, repo})
		}
	}
	if len(named) > 0 {
		return named
	}
	return derived
}

// certainlyMatches reports whether a bundle with these labels matches a selector, whatever
// labels Fleet adds.
func certainlyMatches(s *metav1.LabelSelector, labels map[string]string) bool {
	if s == nil {
		return true
	}
	for _, r := range s.MatchExpressions {
		if r.Operator != metav1.LabelSelectorOpIn && r.Operator != metav1.LabelSelectorOpExists {
			return false
		}
	}
	compiled, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && compiled.Matches(k8slabels.Set(labels))
}

// repo is the name of the GitRepo with which the bundle is called name; empty if
// there is none.
func (m *Member) repo(name string) string {
	if m.File.Name != "" || path.Clean(m.Dir.Path) == "." {
		return ""
	}
	for i := range len(name) {
		if name[i] == '-' && naming.BundleName(name[:i], m.Dir.Path, m.Dir.Options) == name {
			return name[:i]
		}
	}
	return ""
}

// repos are the names of GitRepos that links ask for.
func (g *graph) repos() []string {
	found := map[string]bool{}
	for _, l := range slices.Concat(g.links...) {
		if l.repo != "" {
			found[l.repo] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// shortestCycle is the shortest way from a bundle back to itself, with the GitRepo called
// repo; nil if there is none.
func (g *graph) shortestCycle(start int, repo string) []link {
	came := map[int]link{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, l := range g.links[queue[0]] {
			if l.repo != "" && l.repo != repo {
				continue
			}
			if _, seen := came[l.to]; seen {
				continue
			}
			came[l.to] = l
			queue = append(queue, l.to)
		}
	}
	var ring []link
	for at := start; ; {
		l, ok := came[at]
		if !ok {
			return nil
		}
		ring = append([]link{l}, ring...)
		if at = l.from; at == start {
			return ring
		}
	}
}

// cycle is the finding about a ring, in the fleet.yaml of its first bundle.
func (g *graph) cycle(ring []link, repo string) finding.Finding {
	first := ring[0]
	f := g.findingAt(first)
	f.Severity, f.Rule = finding.Error, finding.RuleDependency
	condition := ""
	if repo != "" {
		f.Severity, condition = finding.Warning, fmt.Sprintf(" if the GitRepo is called %q", repo)
	}
	if len(ring) == 1 {
		f.Message = fmt.Sprintf("bundle %q depends on itself%s, so it is never deployed", g.bundleTitle(first.from, repo), condition)
		f.Hint = "take this entry out of dependsOn"
		return f
	}
	names, others := []string{g.bundleTitle(first.from, repo)}, []string(nil)
	for i, l := range ring {
		names = append(names, g.bundleTitle(l.to, repo))
		if i > 0 {
			at := g.findingAt(l)
			others = append(others, fmt.Sprintf("%s:%d", at.Path, at.Line))
		}
	}
	f.Message = fmt.Sprintf("dependsOn goes in a circle%s, so none of these is deployed: %s", condition, strings.Join(names, " -> "))
	f.Hint = "take out one of them: here, or in " + strings.Join(others, ", ")
	return f
}

// findingAt returns a finding at the place of an entry.
func (g *graph) findingAt(l link) finding.Finding {
	file := g.members[l.from].File
	f := finding.Finding{Path: file.Path}
	key := "name"
	if file.Spec.DependsOn[l.ref].Name == "" {
		key = "selector"
	}
	f.Line, f.Column = file.Position("dependsOn", l.ref, key)
	return f
}

// bundleTitle returns the name of a bundle, as far as it is known: else its directory.
func (g *graph) bundleTitle(i int, repo string) string {
	m := &g.members[i]
	if m.File.Name == "" && repo != "" {
		return naming.BundleName(repo, m.Dir.Path, m.Dir.Options)
	}
	return cmp.Or(m.File.Name, m.Dir.Path)
}

// misspelt warns of names that no bundle here has, and that are near the name of
// one.
func (g *graph) misspelt() []finding.Finding {
	var list []finding.Finding
	for i, m := range g.members {
		for n, ref := range m.dependsOn() {
			if ref.Name == "" || g.isKnownName(ref.Name) {
				continue
			}
			near, dir := g.nearestName(ref.Name), g.directory(ref.Name)
			if near == "" && dir == "" {
				continue
			}
			f := g.findingAt(link{from: i, ref: n})
			f.Severity, f.Rule = finding.Warning, finding.RuleDependency
			f.Message = fmt.Sprintf("dependsOn[%d]: no bundle here is called %q", n, ref.Name)
			f.Hint = fmt.Sprintf("did you mean %q?", near)
			if near == "" {
				f.Hint = fmt.Sprintf("the bundle of directory %s is called <name of the GitRepo>-%s", dir, ref.Name)
			}
			list = append(list, f)
		}
	}
	return list
}

// isKnownName reports whether a bundle here is called name, or is with some name of the
// GitRepo.
func (g *graph) isKnownName(name string) bool {
	return slices.ContainsFunc(g.members, func(m Member) bool { return m.File.Name == name || m.repo(name) != "" })
}

// directory is that of a bundle here whose name is that of the GitRepo, a dash and name;
// empty where there is none.
func (g *graph) directory(name string) string {
	for _, m := range g.members {
		if m.File.Name == "" && path.Clean(m.Dir.Path) != "." && naming.BundleName("r", m.Dir.Path, m.Dir.Options) == "r-"+name {
			return m.Dir.Path
		}
	}
	return ""
}

// nearestName is the name of a bundle here that is near another one: its own, or that
// which follows from its directory, where all behind the name of the GitRepo is
// compared.
func (g *graph) nearestName(name string) string {
	var names []string
	for _, m := range g.members {
		names = append(names, m.File.Name)
	}
	if found := spelling.Nearest(name, uniqueNames(names)); found != "" {
		return found
	}
	for i := range len(name) {
		if name[i] != '-' {
			continue
		}
		repo, rest := name[:i+1], name[i+1:]
		var ends []string
		for _, m := range g.members {
			if m.File.Name != "" || path.Clean(m.Dir.Path) == "." {
				continue
			}
			if end, ok := strings.CutPrefix(naming.BundleName(name[:i], m.Dir.Path, m.Dir.Options), repo); ok {
				ends = append(ends, end)
			}
		}
		if found := spelling.Nearest(rest, ends); found != "" {
			return repo + found
		}
	}
	return ""
}
