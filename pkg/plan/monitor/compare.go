package monitor

import (
	"fmt"
	"slices"
	"strings"
)

// A Change is a difference between two snapshots.
type Change struct {
	// Sign is + for what is new, - for what is gone, ~ for what is different.
	Sign string
	// Subject is "<kind> <namespace>/<name>", or the title of a fault.
	Subject string
	Text    string
}

// Compare returns what has changed from one snapshot to a later one: faults first, then objects. A
// kind that one of them could not read is not compared.
func Compare(before, after *Snapshot) []Change {
	out := compareFaults(before, after)
	c := comparison{before: before, after: after}
	compareList(&c, "gitrepo", GitRepos, before.GitRepos, after.GitRepos, func(r GitRepo) []fact {
		return []fact{{"commit", commitText(r.Commit)}, {"generation", fmt.Sprint(r.Generation)}, readyFact(r.Readiness)}
	})
	compareList(&c, "bundle", Bundles, before.Bundles, after.Bundles, func(b Bundle) []fact {
		return []fact{{"commit", commitText(b.Commit)}, {"generation", fmt.Sprint(b.Generation)}, readyFact(b.Readiness), deletedFact(b.Removal)}
	})
	compareList(&c, "bundledeployment", Deployments, before.BundleDeployments, after.BundleDeployments, func(d Deployment) []fact {
		return []fact{{"wanted", d.DeploymentID}, {"applied", d.AppliedDeploymentID}, readyFact(d.Readiness), deletedFact(d.Removal)}
	})
	compareList(&c, "cluster", Clusters, before.Clusters, after.Clusters, func(one Cluster) []fact {
		return []fact{readyFact(one.Readiness), {"bundles", fmt.Sprintf("%d/%d", one.ReadyBundleDeployments, one.BundleDeployments)}}
	})
	compareList(&c, "clustergroup", Groups, before.ClusterGroups, after.ClusterGroups, func(g ClusterGroup) []fact {
		return []fact{{"clusters", fmt.Sprint(g.ClusterCount)}}
	})
	compareList(&c, "content", Contents, before.Contents, after.Contents, func(one Content) []fact { return []fact{deletedFact(one.Removal)} })
	compareList(&c, "pod", "pods", before.Controller, after.Controller, func(p Process) []fact {
		return []fact{{"status", p.Status}, {"restarts", fmt.Sprint(p.Restarts)}}
	})
	return append(out, c.changes...)
}

func (c Content) object() Object { return Object{Name: c.Name} }

func (p Process) object() Object { return Object{Name: p.Name} }

// A fact is a value of an object that is compared.
type fact struct{ name, value string }

func readyFact(r Readiness) fact {
	if r.Ready {
		return fact{"", "Ready"}
	}
	return fact{"", strings.TrimSpace("not Ready " + r.ReadyMessage)}
}

func deletedFact(r Removal) fact {
	if r.DeletionTimestamp != nil {
		return fact{"", "being deleted"}
	}
	return fact{"", "not deleted"}
}

type comparison struct {
	before, after *Snapshot
	changes       []Change
}

// read reports whether both snapshots have read all of a resource.
func (c *comparison) read(resource string) bool {
	unread := func(u Unread) bool { return u.Resource == resource && u.Cause != CauseScope }
	return !slices.ContainsFunc(c.before.Unread, unread) && !slices.ContainsFunc(c.after.Unread, unread)
}

func nameOf(o Object) string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// compareList adds the changes of the objects of one kind.
func compareList[T named](c *comparison, kind, resource string, before, after []T, facts func(T) []fact) {
	if !c.read(resource) {
		return
	}
	add := func(sign string, one T, text string) {
		c.changes = append(c.changes, Change{Sign: sign, Subject: kind + " " + nameOf(one.object()), Text: text})
	}
	old := map[string]T{}
	for _, one := range before {
		old[nameOf(one.object())] = one
	}
	for _, one := range after {
		name := nameOf(one.object())
		was, known := old[name]
		delete(old, name)
		if !known {
			add("+", one, "")
		} else if text := different(facts(was), facts(one)); text != "" {
			add("~", one, text)
		}
	}
	for _, one := range before {
		if _, gone := old[nameOf(one.object())]; gone {
			add("-", one, "")
		}
	}
}

func different(before, after []fact) string {
	var parts []string
	for i, f := range after {
		if was := before[i]; was != f {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s -> %s", f.name, dash(was.value), dash(f.value))))
		}
	}
	return strings.Join(parts, ", ")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// compareFaults returns the faults that are new and those that are gone.
func compareFaults(before, after *Snapshot) []Change {
	type entry struct{ key, name string }
	index := func(s *Snapshot) (map[entry]bool, []Fault) {
		faults, out := s.Faults(), map[entry]bool{}
		for _, f := range faults {
			for _, o := range f.Objects {
				out[entry{f.Key, nameOf(o)}] = true
			}
		}
		return out, faults
	}
	old, oldFaults := index(before)
	now, nowFaults := index(after)
	var out []Change
	add := func(sign string, faults []Fault, other map[entry]bool) {
		for _, f := range faults {
			for _, o := range f.Objects {
				if !other[entry{f.Key, nameOf(o)}] {
					out = append(out, Change{Sign: sign, Subject: f.Title, Text: strings.TrimSpace(dash(nameOf(o)) + " " + o.Issue)})
				}
			}
		}
	}
	add("+", nowFaults, old)
	add("-", oldFaults, now)
	return out
}
