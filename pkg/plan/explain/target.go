package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// maxDetails is how many lines a link has at most besides its own.
const maxDetails = 8

// targetLink judges whether targets mean the Bundle for the cluster.
type targetLink struct{ *bundleOnCluster }

// targetingLink looks at whether the Bundle is meant for the cluster, and what it
// becomes there.
func (p targetLink) targetingLink() linkState {
	b, bd := p.Bundle, p.deploymentPlace.Deployment
	switch {
	case p.fault != nil:
		return stop(reasonOf(p.fault), p.fault.Error()).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct that selector in %s", p.faultyPlace())
	case p.place == nil && bd != nil && !view.IsLeaving(bd):
		return ok("it has a deployment for the cluster")
	case p.place == nil:
		return p.hiddenLink(Clusters)
	case withdrawal.IsDeleting(p.deploymentPlace.Cluster):
		return stop(ReasonLeaving, "the cluster is being removed from the fleet; what runs there stays").withSince(p.deploymentPlace.Cluster.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --cluster %s", p.deploymentPlace.Key.Namespace, p.deploymentPlace.Key.Name)
	case withdrawal.IsEmptied(p.deploymentPlace.Cluster) && p.Bundle.Name != naming.AgentBundle(p.deploymentPlace.Key.Name):
		return stop(ReasonLeaving, withdrawal.ReasonEmptied).
			hint("to have everything back", "kubectl -n %s annotate clusters.fleet.cattle.io %s %s-", p.deploymentPlace.Key.Namespace, p.deploymentPlace.Key.Name, fleet.AnnotationUninstall)
	case p.isForbidden(Groups) && p.matcher.ReadsGroups():
		if bd != nil && !view.IsLeaving(bd) {
			return ok("it has a deployment for the cluster; its targets ask for cluster groups, which are not yours to see")
		}
		return p.hiddenLink(Groups)
	case !p.verdict.Deploy:
		return p.untargeted()
	case p.broken != nil:
		text := p.broken.Error()
		return stop(reasonOf(p.broken), text).detail(p.verdict.Reason).withEvidence("target", p.verdict.Target).
			hint("to see what it would become", "fleet get bundles %s -n %s -o yaml > b.yaml && fleet target -b b.yaml", b.Name, b.Namespace).
			hint("or put it right", "the option in %s, or the labels and values of the cluster that it asks for", p.file())
	}
	rule := p.verdict.Reason
	if _, after, found := strings.Cut(rule, "matches: "); found {
		rule = after
	}
	j := ok("%s", p.verdict.Reason).withEvidence("target", p.verdict.Target).withEvidence("rule", rule)
	for _, i := range p.verdict.Customizations {
		j = j.detail("with customization " + preview.TargetName(b, i))
	}
	if _, why := p.reach.Includes(p.deploymentPlace.Key.Namespace); p.deploymentPlace.Key.Namespace != b.Namespace {
		j = j.detail(why)
	}
	for _, text := range unrendered(p.bundleOnCluster) {
		j = j.detail("warning: " + text)
	}
	return j
}

// faultyPlace is where the targets or customizations stand that cannot be compiled.
func (p targetLink) faultyPlace() string {
	spec := p.Bundle.Spec
	spec.Targets = spec.Targets[:max(len(spec.Targets)-len(spec.TargetRestrictions), 0)]
	spec.TargetRestrictions = nil
	if _, err := target.Compile(&spec); err != nil {
		return p.file() // a customization
	}
	return p.targetsPlace()
}

// untargeted is a Bundle that is not meant for the cluster.
func (p targetLink) untargeted() linkState {
	v, bd := p.verdict, p.deploymentPlace.Deployment
	reason := ReasonNotTargeted
	if v.Target >= 0 {
		reason = ReasonDoNotDeploy
	}
	var refusals []string
	if led, _ := p.reach.Includes(p.deploymentPlace.Key.Namespace); led {
		refusals = p.refusals()
	}
	message := v.Reason
	j := stop(reason, message)
	if reason == ReasonNotTargeted && len(refusals) > 1 {
		message = fmt.Sprintf("none of its %d targets matches: %s", len(refusals), v.Reason)
		j = stop(reason, fmt.Sprintf("0 of %d targets match %s", len(refusals), p.deploymentPlace.Key.Name)).reported(message).detail(refusals...)
		if more := len(j.Details) - maxDetails; more > 0 {
			j.Details = append(j.Details[:maxDetails], fmt.Sprintf("and %d more", more))
		}
	}
	j = j.detail(p.missingTargets()...)
	if _, text := p.faultyGroup(); text != "" {
		j = j.detail(text)
	}
	wrong := p.misspelt()
	for _, label := range slices.Sorted(maps.Keys(wrong)) {
		j = j.detail(wrong[label])
	}
	if text := p.unset(); text != "" {
		j = j.detail(text)
	}
	j = j.withEvidence("targets", len(p.Bundle.Spec.Targets)).withEvidence("labels", labels.Set(p.deploymentPlace.Cluster.Labels).String())
	switch {
	case bd != nil && bd.Annotations[fleet.AnnotationWithdrawn] != "":
		j = j.detail("its deployment there was ordered to be uninstalled")
	case bd != nil && view.Approval(p.Bundle, p.Bundle.Status.Conditions) != "":
		j = j.detail("its deployment there is about to be withdrawn: " + view.Approval(p.Bundle, p.Bundle.Status.Conditions))
	case bd != nil && condition.IsTrue(p.Bundle.Status.Conditions, fleet.ConditionDeletionHeld):
		j = j.detail("its deployment there stays for now: " + condition.Find(p.Bundle.Status.Conditions, fleet.ConditionDeletionHeld).Message)
	case bd != nil:
		j = j.detail("its deployment there is about to be withdrawn")
	}
	j.hints = p.targetHints(v)
	return j
}

// unset says which default targets apply because no targets are set. It is empty where the
// GitRepo or overrideTargets sets some.
func (p targetLink) unset() string {
	led, _ := p.reach.Includes(p.deploymentPlace.Key.Namespace)
	byDefault := slices.ContainsFunc(p.Bundle.Spec.Targets, isDefault)
	switch {
	case led && p.overridesWithNothing() && byDefault:
		return "overrideTargets in " + p.file() + " is empty, which means the cluster group default"
	case led && p.overridesWithNothing():
		return "overrideTargets in " + p.file() + " is empty, so that its targetCustomizations count as targets"
	case p.Repo != nil && len(p.Repo.Spec.Targets) == 0 && byDefault:
		return "the GitRepo sets no targets, which means the cluster group default"
	}
	return ""
}

// isDefault reports whether a target is the one that stands in for those that a
// GitRepo does not set.
func isDefault(t fleet.BundleTarget) bool {
	return t.Name == fleet.ClusterGroupDefault && t.ClusterGroup == fleet.ClusterGroupDefault
}

// missingTargets says which clusters and cluster groups that the targets name do not exist,
// with the nearest names. Nothing is said of those that are not known.
func (p targetLink) missingTargets() []string {
	namespace := p.deploymentPlace.Key.Namespace
	if led, _ := p.reach.Includes(namespace); !led {
		return nil
	}
	var groups, said []string
	for _, g := range p.Groups {
		if g.Namespace == namespace {
			groups = append(groups, g.Name)
		}
	}
	clusters := p.Clusters[namespace]
	say := func(kind, name string, known []string) {
		if name == "" || slices.Contains(known, name) {
			return
		}
		if text := view.NoSuch(kind, name, namespace, known); !slices.Contains(said, text) && len(said) < maxDetails {
			said = append(said, text)
		}
	}
	for _, t := range target.PlainTargets(&p.Bundle.Spec) {
		if len(clusters) > 0 {
			say("cluster", t.ClusterName, clusters)
		}
		if !p.isForbidden(Groups) {
			say("cluster group", t.ClusterGroup, groups)
		}
	}
	return said
}

// refusals compares each target with the cluster, in the words of the manager:
// `2 "canary" wants clusterName c9, this is c1`.
func (p targetLink) refusals() []string {
	entries := target.PlainTargets(&p.Bundle.Spec)
	var out []string
	for i := range entries {
		m, err := target.Compile(&fleet.BundleSpec{Targets: entries[i : i+1]})
		if err != nil {
			continue
		}
		v := m.Match(&p.place.Cluster)
		text := strings.TrimPrefix(v.Reason, "target 1")
		if v.Deploy {
			text = " matches, but no restriction of the repository allows it"
			if entries[i].Name != "" {
				text = fmt.Sprintf(" %q%s", entries[i].Name, text)
			}
		}
		out = append(out, fmt.Sprintf("%d%s", i+1, text))
	}
	return out
}

// file returns where the options of the Bundle stand, as far as that is known.
func (s *compiledSubject) file() string {
	if s.Bundle.Labels[fleet.LabelRepoName] != "" {
		return "fleet.yaml of " + s.Bundle.Name
	}
	return "spec of bundle " + s.Bundle.Name
}

// targetHints returns the changes that would make the Bundle target the
// cluster.
func (p targetLink) targetHints(v target.Verdict) []Hint {
	if v.Target >= 0 {
		return linkState{}.hint("to deploy it there", "remove doNotDeploy from what stands in the way, in %s", p.file()).hints
	}
	if led, _ := p.reach.Includes(p.deploymentPlace.Key.Namespace); !led {
		return linkState{}.hint("to let it go there", "make a BundleNamespaceMapping in %s that selects %s and namespace %s",
			p.Bundle.Namespace, p.Bundle.Name, p.deploymentPlace.Key.Namespace).hints
	}
	if group, _ := p.faultyGroup(); group != "" {
		return linkState{}.hint("to put it right", "correct the selector of the cluster group: kubectl -n %s edit clustergroup %s",
			p.deploymentPlace.Key.Namespace, group).hints
	}
	if wrong := p.misspelt(); len(wrong) > 0 {
		label := slices.Min(slices.Collect(maps.Keys(wrong)))
		return linkState{}.hint("to put it right", "correct %s in %s", label, p.askedBy(label)).hints
	}
	if set := p.labelsFor(); set != nil {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(set)) {
			parts = append(parts, k+"="+set[k])
		}
		return linkState{}.hint("to deploy it there", "kubectl -n %s label clusters.fleet.cattle.io %s %s --overwrite",
			p.deploymentPlace.Key.Namespace, p.deploymentPlace.Key.Name, strings.Join(parts, " ")).hints
	}
	if p.overridesTargets() {
		return linkState{}.hint("to deploy it there", "add a target for %s to overrideTargets in %s: they replace those of the repo",
			p.deploymentPlace.Key.Name, p.file()).hints
	}
	repo := p.Bundle.Labels[fleet.LabelRepoName]
	if repo != "" && p.Repo == nil {
		return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of repo %s, or to overrideTargets in %s if that has them",
			p.deploymentPlace.Key.Name, repo, p.file()).hints
	}
	if repo != "" {
		return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of the repo: kubectl -n %s edit gitrepo %s",
			p.deploymentPlace.Key.Name, p.Bundle.Namespace, repo).hints
	}
	return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of the bundle", p.deploymentPlace.Key.Name).hints
}

// overridesTargets reports whether the Bundle has overrideTargets, which may be empty,
// instead of the targets of its GitRepo: the manager limits a Bundle without them to
// exactly those of the GitRepo.
func (p targetLink) overridesTargets() bool {
	if p.Repo == nil || p.Repo.Status.ObservedGeneration != p.Repo.Generation || len(p.Bundle.Spec.Targets) == 0 {
		return false
	}
	targets := p.Repo.Spec.Targets
	if len(targets) == 0 {
		targets = []fleet.GitTarget{bundle.DefaultTarget}
	}
	return !slices.EqualFunc(p.Bundle.Spec.TargetRestrictions, targets, func(r fleet.BundleTargetRestriction, t fleet.GitTarget) bool {
		return equality.Semantic.DeepEqual(fleet.GitTarget(r), t)
	})
}

// overridesWithNothing reports whether overrideTargets of the Bundle is there and empty.
// Without them the Bundle has no restrictions, and its customizations are targets.
func (p targetLink) overridesWithNothing() bool {
	return p.overridesTargets() && len(p.Bundle.Spec.TargetRestrictions) == 0
}

// labelsFor are labels with which the cluster would get the Bundle: those that
// one target or restriction asks for, alone or with those of a cluster group.
// It is nil where there are none.
func (p targetLink) labelsFor() map[string]string {
	for _, selectors := range p.selectors() {
		missing := map[string]string{}
		for _, s := range selectors {
			if !missingLabels(s, p.deploymentPlace.Cluster.Labels, missing) {
				missing = nil
				break
			}
		}
		if len(missing) == 0 {
			continue
		}
		c := p.place.Cluster
		c.Labels = maps.Clone(c.Labels)
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		maps.Copy(c.Labels, missing)
		c.Groups = p.groups[c.Namespace].Selecting(c.Labels)
		if p.matcher.Match(&c).Deploy {
			return missing
		}
	}
	return nil
}

// selectors are lists of selectors, each of which might let the cluster in.
func (p targetLink) selectors() [][]*metav1.LabelSelector {
	var out [][]*metav1.LabelSelector
	add := func(c target.Criteria) {
		var list []*metav1.LabelSelector
		if c.ClusterSelector != nil {
			list = append(list, c.ClusterSelector)
		}
		if c.ClusterGroup == "" {
			out = append(out, list)
			return
		}
		for _, g := range p.Groups {
			if g.Name == c.ClusterGroup && g.Namespace == p.deploymentPlace.Key.Namespace && g.Spec.Selector != nil {
				out = append(out, append(list, g.Spec.Selector))
			}
		}
	}
	for i := range p.Bundle.Spec.Targets {
		t := &p.Bundle.Spec.Targets[i]
		add(target.Criteria{ClusterSelector: t.ClusterSelector, ClusterGroup: t.ClusterGroup})
	}
	for i := range p.Bundle.Spec.TargetRestrictions {
		r := &p.Bundle.Spec.TargetRestrictions[i]
		add(target.Criteria{ClusterSelector: r.ClusterSelector, ClusterGroup: r.ClusterGroup})
	}
	if len(p.Bundle.Spec.Targets) == 0 {
		add(target.Criteria{ClusterGroup: "default"})
	}
	return out
}

// missingLabels adds to out what labels have to be given so that a selector
// matches. It is false where adding labels is not enough.
func missingLabels(s *metav1.LabelSelector, have, out map[string]string) bool {
	compiled, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return false
	}
	requirements, _ := compiled.Requirements()
	for i := range requirements {
		r := &requirements[i]
		if r.Matches(labels.Set(have)) {
			continue
		}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			out[r.Key()] = slices.Sorted(maps.Keys(r.Values()))[0]
		case selection.Exists:
			out[r.Key()] = "true"
		default:
			return false
		}
	}
	return true
}
