package differential_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	planvalues "github.com/fleetworkspace/fleet/pkg/plan/values"
)

// statuses says which statuses are not what they should be. What others write
// in them is taken over from the object, and so are the times of conditions.
func (r *recount) statuses() []string {
	var wrong []string
	compare := func(what string, want, have any) {
		if diff := cmp.Diff(meaning(want), meaning(have)); diff != "" {
			wrong = append(wrong, fmt.Sprintf("status of %s: -want +got\n%s", what, diff))
		}
	}
	for _, p := range r.plans {
		want := r.bundleStatus(p)
		have := *p.bundle.Status.DeepCopy()
		if p.bundle.DeletionTimestamp != nil {
			forgive(want.Conditions)
			forgive(have.Conditions)
		}
		compare("bundle "+p.bundle.Name, want, have)
	}
	for _, repo := range r.repos {
		if repo.DeletionTimestamp == nil {
			compare("gitrepo "+repo.Name, summary.GitRepoStatus(repo, r.sources(repo), r.at), repo.Status)
		}
	}
	for _, c := range r.clusters {
		if c.DeletionTimestamp == nil {
			want := summary.ClusterStatus(c, r.clusterView(c), r.at)
			want.Conditions = condition.Remove(want.Conditions, fleet.ConditionAccepted)
			compare("cluster "+c.Name, want, c.Status)
		}
	}
	for _, g := range r.groups {
		if g.DeletionTimestamp == nil {
			compare("group "+g.Name, summary.GroupStatus(g, r.members(g), r.at), g.Status)
		}
	}
	return wrong
}

// forgive takes the reason out of condition Withdrawing of a Bundle that is
// being deleted: it says which agent was waited for when it was last looked at.
func forgive(list []fleet.Condition) {
	for i := range list {
		if list[i].Type == fleet.ConditionWithdrawing {
			list[i].Message, _, _ = strings.Cut(list[i].Message, ":")
		}
	}
}

var times = regexp.MustCompile(`"last(Update|Transition)Time":"[^"]*",?`)

// meaning is a status as JSON has it, without the times of its conditions.
func meaning(status any) any {
	raw, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	return plain(json.RawMessage(strings.ReplaceAll(times.ReplaceAllString(string(raw), ""), ",}", "}")))
}

func (r *recount) bundleStatus(p *plan) fleet.BundleStatus {
	b := p.bundle
	f := &summary.Bundle{Generation: b.Generation, Shape: p.shape, Problem: p.problem, ResourcesDigest: p.digest, Unrendered: p.unrendered()}
	if !p.complete {
		f.Generation = b.Status.ObservedGeneration // which one was complete last is not known now
	}
	var targets []rollout.Target
	for _, x := range p.pairs {
		f.Deployments = append(f.Deployments, &x.view)
		targets = append(targets, x.target())
		if x.bd != nil && x.bd.Status.AppliedDeploymentID == "" {
			f.NewlyCreated++
		}
	}
	f.Rollout = rollout.Count(p.shape, targets)
	f.Withdrawing = summary.Withdrawing{Count: r.withdrawn(func(bundle, _ kube.Key) bool { return bundle == kube.KeyOf(b) }), Why: p.why}
	status := summary.BundleStatus(&b.Status, f, r.at)
	status.Conditions = condition.Remove(status.Conditions, fleet.ConditionAccepted)
	return status
}

// unrendered are the clusters whose deployment has templates as values.
func (p *plan) unrendered() planvalues.Unrendered {
	var u planvalues.Unrendered
	for _, x := range p.pairs {
		if x.place == nil || planvalues.Renders(x.place.Labels) {
			continue
		}
		v, err := p.compiled.Render(x.verdict, x.place)
		if err != nil {
			continue
		}
		o, err := options.WithValues(v.Options, v.Values)
		if err != nil || !planvalues.Templated(o.Helm) {
			continue
		}
		if u.Clusters++; u.Clusters == 1 {
			u.First = x.cluster.Name
		}
	}
	return u
}

// wanted reports whether a Bundle should be on a cluster.
func (r *recount) wanted(bundle, cluster kube.Key) bool {
	for _, p := range r.plans {
		for _, x := range p.pairs {
			if kube.KeyOf(p.bundle) == bundle && x.cluster == cluster {
				return true
			}
		}
	}
	return false
}

// withdrawn counts the deployments that should not be there, on clusters that
// are there and stay.
func (r *recount) withdrawn(of func(bundle, cluster kube.Key) bool) int {
	n := 0
	for _, bd := range r.deployments {
		bundle, cluster := r.ownersOf(bd)
		c := r.cluster(cluster)
		if of(bundle, cluster) && !r.wanted(bundle, cluster) && c != nil && c.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (r *recount) sources(repo *fleet.GitRepo) summary.Sources {
	var s summary.Sources
	for _, p := range r.plans {
		if p.bundle.Labels[fleet.LabelRepoName] != repo.Name || p.bundle.DeletionTimestamp != nil {
			continue
		}
		s.Bundles = append(s.Bundles, summary.RepoBundle{
			Name: p.bundle.Name, UID: p.bundle.UID, Problem: p.problem, Targets: len(p.pairs), Unrendered: p.unrendered(),
		})
		for _, x := range p.pairs {
			s.Deployments = append(s.Deployments, &x.view)
		}
	}
	return s
}

// views are the deployments that a cluster should have, by name of the Bundle.
func (r *recount) views(c *fleet.Cluster) []*summary.Deployment {
	var out []*summary.Deployment
	for _, p := range r.plans {
		for _, x := range p.pairs {
			if x.cluster == kube.KeyOf(c) {
				out = append(out, &x.view)
			}
		}
	}
	return out
}

func (r *recount) clusterView(c *fleet.Cluster) summary.ClusterView {
	return summary.ClusterView{Deployments: r.views(c), Life: lifeOf(c),
		Withdrawing: r.withdrawn(func(_, cluster kube.Key) bool { return cluster == kube.KeyOf(c) })}
}

func (r *recount) members(g *fleet.ClusterGroup) []summary.Member {
	var out []summary.Member
	for _, c := range r.clusters {
		for _, of := range r.placeOf(c).Groups {
			if of.Name != g.Name {
				continue
			}
			views := r.views(c)
			m := summary.Member{Name: c.Name, Offline: lifeOf(c) != summary.Online, Summary: summary.Count(summary.ByBundle, views)}
			for _, d := range views {
				summary.AddCounts(&m.Counts, d.Counts)
			}
			out = append(out, m)
		}
	}
	return out
}
