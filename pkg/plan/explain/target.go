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
func (tl targetLink) targetingLink() linkState {
	b, bd := tl.Bundle, tl.deploymentPlace.Deployment
	switch {
	case tl.fault != nil:
		return stop(reasonOf(tl.fault), tl.fault.Error()).withSince(view.ChangedAt(b.Status.Conditions, fleet.ConditionReady)).
			hint("to put it right", "correct that selector in %s", tl.faultyPlace())
	case tl.place == nil && bd != nil && !view.IsLeaving(bd):
		return ok("it has a deployment for the cluster")
	case tl.place == nil:
		return tl.hiddenLink(Clusters)
	case withdrawal.IsDeleting(tl.deploymentPlace.Cluster):
		return stop(ReasonLeaving, "the cluster is being removed from the fleet; what runs there stays").withSince(tl.deploymentPlace.Cluster.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --cluster %s", tl.deploymentPlace.Key.Namespace, tl.deploymentPlace.Key.Name)
	case withdrawal.IsEmptied(tl.deploymentPlace.Cluster) && tl.Bundle.Name != naming.AgentBundle(tl.deploymentPlace.Key.Name):
		return stop(ReasonLeaving, withdrawal.ReasonEmptied).
			hint("to have everything back", "kubectl -n %s annotate clusters.fleet.cattle.io %s %s-", tl.deploymentPlace.Key.Namespace, tl.deploymentPlace.Key.Name, fleet.AnnotationUninstall)
	case tl.isForbidden(Groups) && tl.matcher.ReadsGroups():
		if bd != nil && !view.IsLeaving(bd) {
			return ok("it has a deployment for the cluster; its targets ask for cluster groups, which are not yours to see")
		}
		return tl.hiddenLink(Groups)
	case !tl.verdict.Deploy:
		return tl.untargeted()
	case tl.broken != nil:
		text := tl.broken.Error()
		return stop(reasonOf(tl.broken), text).detail(tl.verdict.Reason).withEvidence("target", tl.verdict.Target).
			hint("to see what it would become", "fleet get bundles %s -n %s -o yaml > b.yaml && fleet target -b b.yaml", b.Name, b.Namespace).
			hint("or put it right", "the option in %s, or the labels and values of the cluster that it asks for", tl.file())
	}
	rule := tl.verdict.Reason
	if _, after, found := strings.Cut(rule, "matches: "); found {
		rule = after
	}
	j := ok("%s", tl.verdict.Reason).withEvidence("target", tl.verdict.Target).withEvidence("rule", rule)
	for _, i := range tl.verdict.Customizations {
		j = j.detail("with customization " + preview.TargetName(b, i))
	}
	if _, why := tl.reach.Includes(tl.deploymentPlace.Key.Namespace); tl.deploymentPlace.Key.Namespace != b.Namespace {
		j = j.detail(why)
	}
	for _, text := range unrendered(tl.bundleOnCluster) {
		j = j.detail("warning: " + text)
	}
	return j
}

// faultyPlace is where the targets or customizations stand that cannot be compiled.
func (tl targetLink) faultyPlace() string {
	spec := tl.Bundle.Spec
	spec.Targets = spec.Targets[:max(len(spec.Targets)-len(spec.TargetRestrictions), 0)]
	spec.TargetRestrictions = nil
	if _, err := target.Compile(&spec); err != nil {
		return tl.file() // a customization
	}
	return tl.targetsPlace()
}

// untargeted is a Bundle that is not meant for the cluster.
func (tl targetLink) untargeted() linkState {
	v, bd := tl.verdict, tl.deploymentPlace.Deployment
	reason := ReasonNotTargeted
	if v.Target >= 0 {
		reason = ReasonDoNotDeploy
	}
	var refusals []string
	if led, _ := tl.reach.Includes(tl.deploymentPlace.Key.Namespace); led {
		refusals = tl.refusals()
	}
	message := v.Reason
	j := stop(reason, message)
	if reason == ReasonNotTargeted && len(refusals) > 1 {
		message = fmt.Sprintf("none of its %d targets matches: %s", len(refusals), v.Reason)
		j = stop(reason, fmt.Sprintf("0 of %d targets match %s", len(refusals), tl.deploymentPlace.Key.Name)).reported(message).detail(refusals...)
		if more := len(j.Details) - maxDetails; more > 0 {
			j.Details = append(j.Details[:maxDetails], fmt.Sprintf("and %d more", more))
		}
	}
	j = j.detail(tl.missingTargets()...)
	if _, text := tl.faultyGroup(); text != "" {
		j = j.detail(text)
	}
	wrong := tl.misspelt()
	for _, label := range slices.Sorted(maps.Keys(wrong)) {
		j = j.detail(wrong[label])
	}
	if text := tl.unset(); text != "" {
		j = j.detail(text)
	}
	j = j.withEvidence("targets", len(tl.Bundle.Spec.Targets)).withEvidence("labels", labels.Set(tl.deploymentPlace.Cluster.Labels).String())
	switch {
	case bd != nil && bd.Annotations[fleet.AnnotationWithdrawn] != "":
		j = j.detail("its deployment there was ordered to be uninstalled")
	case bd != nil && view.Approval(tl.Bundle, tl.Bundle.Status.Conditions) != "":
		j = j.detail("its deployment there is about to be withdrawn: " + view.Approval(tl.Bundle, tl.Bundle.Status.Conditions))
	case bd != nil && condition.IsTrue(tl.Bundle.Status.Conditions, fleet.ConditionDeletionHeld):
		j = j.detail("its deployment there stays for now: " + condition.Find(tl.Bundle.Status.Conditions, fleet.ConditionDeletionHeld).Message)
	case bd != nil:
		j = j.detail("its deployment there is about to be withdrawn")
	}
	j.hints = tl.targetHints(v)
	return j
}

// unset says which default targets apply because no targets are set. It is empty where the
// GitRepo or overrideTargets sets some.
func (tl targetLink) unset() string {
	led, _ := tl.reach.Includes(tl.deploymentPlace.Key.Namespace)
	byDefault := slices.ContainsFunc(tl.Bundle.Spec.Targets, isDefault)
	switch {
	case led && tl.overridesWithNothing() && byDefault:
		return "overrideTargets in " + tl.file() + " is empty, which means the cluster group default"
	case led && tl.overridesWithNothing():
		return "overrideTargets in " + tl.file() + " is empty, so that its targetCustomizations count as targets"
	case tl.Repo != nil && len(tl.Repo.Spec.Targets) == 0 && byDefault:
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
func (tl targetLink) missingTargets() []string {
	namespace := tl.deploymentPlace.Key.Namespace
	if led, _ := tl.reach.Includes(namespace); !led {
		return nil
	}
	var groups, said []string
	for _, g := range tl.Groups {
		if g.Namespace == namespace {
			groups = append(groups, g.Name)
		}
	}
	clusters := tl.Clusters[namespace]
	say := func(kind, name string, known []string) {
		if name == "" || slices.Contains(known, name) {
			return
		}
		if text := view.NoSuch(kind, name, namespace, known); !slices.Contains(said, text) && len(said) < maxDetails {
			said = append(said, text)
		}
	}
	for _, t := range target.PlainTargets(&tl.Bundle.Spec) {
		if len(clusters) > 0 {
			say("cluster", t.ClusterName, clusters)
		}
		if !tl.isForbidden(Groups) {
			say("cluster group", t.ClusterGroup, groups)
		}
	}
	return said
}

// refusals compares each target with the cluster, in the words of the manager:
// `2 "canary" wants clusterName c9, this is c1`.
func (tl targetLink) refusals() []string {
	entries := target.PlainTargets(&tl.Bundle.Spec)
	var out []string
	for i := range entries {
		m, err := target.Compile(&fleet.BundleSpec{Targets: entries[i : i+1]})
		if err != nil {
			continue
		}
		v := m.Match(&tl.place.Cluster)
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
func (tl targetLink) targetHints(v target.Verdict) []Hint {
	if v.Target >= 0 {
		return linkState{}.hint("to deploy it there", "remove doNotDeploy from what stands in the way, in %s", tl.file()).hints
	}
	if led, _ := tl.reach.Includes(tl.deploymentPlace.Key.Namespace); !led {
		return linkState{}.hint("to let it go there", "make a BundleNamespaceMapping in %s that selects %s and namespace %s",
			tl.Bundle.Namespace, tl.Bundle.Name, tl.deploymentPlace.Key.Namespace).hints
	}
	if group, _ := tl.faultyGroup(); group != "" {
		return linkState{}.hint("to put it right", "correct the selector of the cluster group: kubectl -n %s edit clustergroup %s",
			tl.deploymentPlace.Key.Namespace, group).hints
	}
	if wrong := tl.misspelt(); len(wrong) > 0 {
		label := slices.Min(slices.Collect(maps.Keys(wrong)))
		return linkState{}.hint("to put it right", "correct %s in %s", label, tl.askedBy(label)).hints
	}
	if set := tl.labelsFor(); set != nil {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(set)) {
			parts = append(parts, k+"="+set[k])
		}
		return linkState{}.hint("to deploy it there", "kubectl -n %s label clusters.fleet.cattle.io %s %s --overwrite",
			tl.deploymentPlace.Key.Namespace, tl.deploymentPlace.Key.Name, strings.Join(parts, " ")).hints
	}
	if tl.overridesTargets() {
		return linkState{}.hint("to deploy it there", "add a target for %s to overrideTargets in %s: they replace those of the repo",
			tl.deploymentPlace.Key.Name, tl.file()).hints
	}
	repo := tl.Bundle.Labels[fleet.LabelRepoName]
	if repo != "" && tl.Repo == nil {
		return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of repo %s, or to overrideTargets in %s if that has them",
			tl.deploymentPlace.Key.Name, repo, tl.file()).hints
	}
	if repo != "" {
		return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of the repo: kubectl -n %s edit gitrepo %s",
			tl.deploymentPlace.Key.Name, tl.Bundle.Namespace, repo).hints
	}
	return linkState{}.hint("to deploy it there", "add a target for %s to spec.targets of the bundle", tl.deploymentPlace.Key.Name).hints
}

// overridesTargets reports whether the Bundle has overrideTargets, which may be empty,
// instead of the targets of its GitRepo: the manager limits a Bundle without them to
// exactly those of the GitRepo.
func (tl targetLink) overridesTargets() bool {
	if tl.Repo == nil || tl.Repo.Status.ObservedGeneration != tl.Repo.Generation || len(tl.Bundle.Spec.Targets) == 0 {
		return false
	}
	targets := tl.Repo.Spec.Targets
	if len(targets) == 0 {
		targets = []fleet.GitTarget{bundle.DefaultTarget}
	}
	return !slices.EqualFunc(tl.Bundle.Spec.TargetRestrictions, targets, func(r fleet.BundleTargetRestriction, t fleet.GitTarget) bool {
		return equality.Semantic.DeepEqual(fleet.GitTarget(r), t)
	})
}

// overridesWithNothing reports whether overrideTargets of the Bundle is there and empty.
// Without them the Bundle has no restrictions, and its customizations are targets.
func (tl targetLink) overridesWithNothing() bool {
	return tl.overridesTargets() && len(tl.Bundle.Spec.TargetRestrictions) == 0
}

// labelsFor are labels with which the cluster would get the Bundle: those that
// one target or restriction asks for, alone or with those of a cluster group.
// It is nil where there are none.
func (tl targetLink) labelsFor() map[string]string {
	for _, selectors := range tl.selectors() {
		missing := map[string]string{}
		for _, s := range selectors {
			if !missingLabels(s, tl.deploymentPlace.Cluster.Labels, missing) {
				missing = nil
				break
			}
		}
		if len(missing) == 0 {
			continue
		}
		c := tl.place.Cluster
		c.Labels = maps.Clone(c.Labels)
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		maps.Copy(c.Labels, missing)
		c.Groups = tl.groups[c.Namespace].Selecting(c.Labels)
		if tl.matcher.Match(&c).Deploy {
			return missing
		}
	}
	return nil
}

// selectors are lists of selectors, each of which might let the cluster in.
func (tl targetLink) selectors() [][]*metav1.LabelSelector {
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
		for _, g := range tl.Groups {
			if g.Name == c.ClusterGroup && g.Namespace == tl.deploymentPlace.Key.Namespace && g.Spec.Selector != nil {
				out = append(out, append(list, g.Spec.Selector))
			}
		}
	}
	for i := range tl.Bundle.Spec.Targets {
		t := &tl.Bundle.Spec.Targets[i]
		add(target.Criteria{ClusterSelector: t.ClusterSelector, ClusterGroup: t.ClusterGroup})
	}
	for i := range tl.Bundle.Spec.TargetRestrictions {
		r := &tl.Bundle.Spec.TargetRestrictions[i]
		add(target.Criteria{ClusterSelector: r.ClusterSelector, ClusterGroup: r.ClusterGroup})
	}
	if len(tl.Bundle.Spec.Targets) == 0 {
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
