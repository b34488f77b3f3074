package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/dependency"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

func zero() *intstr.IntOrString { n := intstr.FromInt32(0); return &n }

type testCase struct {
	why    string
	change func(*world)
}

// cases are named after the link that stops.
func cases() map[string]testCase {
	all := map[string]testCase{
		"well":         {"nothing stops: one line is enough", func(*world) {}},
		"well-offline": {"what an Offline cluster said last is not what it is now", func(w *world) { w.away() }},
		"well-paused": {"a pause of what is as it should be holds nothing back, and is named", func(w *world) {
			w.at.Cluster.Spec.Paused = true
			w.at.Deployment.Spec.Paused = true
		}},
		"well-limits": {"limits that allow the Bundle are named", func(w *world) {
			w.s.Policies = []*fleet.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: w.s.Bundle.Namespace, Name: "tight"}, AllowedServiceAccounts: []string{"a"}}}
		}},
		"well-other-files": {"files of another bundle do not stop this one", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionStalled, "True", "File", "db/fleet.yaml:4: there is no file", time.Hour)}
		}},
		"well-other-clash": {"a name that two other directories give their bundles does not stop this one", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "Name", `db: bundle name "shop-store" is also that of store (and 1 more)`)
		}},
		"well-other-owner": {"nor does the name of another bundle that belongs to another repository", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "Conflict", `db: bundle "shared" exists and belongs to GitRepo "other"; it is not overwritten`)
		}},
		"well-other-chart": {"nor does a chart of another bundle that cannot be had at present", func(w *world) {
			w.incomplete(fleet.ConditionReconciling, "Chart", `db/fleet.yaml:2: "https://charts.invalid/index.yaml" cannot be had: no address is known for this name`)
		}},
		"well-other-path": {"nor does a path of the GitRepo that is not there", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "File", `path "wbe" is not in the repository; nothing is removed until it is there or taken out of spec.paths`)
		}},
		"well-deletion-held": {"a removal that waits to be approved holds back nothing else", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld,
				"would remove 40 of 50 bundles, 10 may go: fleet approve repo/shop 5a8c1f0e", time.Minute)}
		}},
		"bundle-removal-held":     {"but the removal of this bundle is told", removalHeld("")},
		"bundle-removal-approved": {"also when it is approved", removalHeld("5a8c1f0e")},
		"source-protected": {"a protected repository that was deleted waits for a person, and reads nothing", func(w *world) {
			w.s.Repo.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonProtected,
				"would remove 2 of 2 bundles: the GitRepo is protected; to go on: fleet approve -n shops repo/shop 5a8c1f0e", time.Minute)}
		}},
		"well-deletion-approved": {"one that is approved is about to begin", func(w *world) {
			w.s.Repo.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "5a8c1f0e"}
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld,
				"would remove 40 of 50 bundles, 10 may go: fleet approve repo/shop 5a8c1f0e", time.Minute)}
		}},
		"source-protected-approved": {"a protected repository whose deletion is approved is removed", func(w *world) {
			w.s.Repo.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			w.s.Repo.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "5a8c1f0e"}
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonProtected,
				"would remove 2 of 2 bundles: the GitRepo is protected; to go on: fleet approve -n shops repo/shop 5a8c1f0e", time.Minute)}
		}},
		"well-warned": {"what is odd in files of this bundle alone", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "base"}}
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionStalled, "False", "Dependency",
				`web/fleet.yaml:2: dependsOn[0]: there is no bundle "base" in shops; until there is, no change of this bundle is deployed (and 2 more)`, time.Hour)}
			w.s.Findings = []string{"db/cm.yaml:3: there is no kind ConfigMpa", "web/cm.yaml:9: a template that is not rendered"}
		}},
		"well-other-files-first": {"the condition names the first file alone: events tell of this bundle's", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "InvalidYAML", "db/fleet.yaml:4: there is no file (and 1 more)")
			w.s.Findings = []string{"db/fleet.yaml:4: there is no file", "web/values.yaml:7: a tab where spaces indent"}
		}},
		"well-warned-elsewhere": {"files of another bundle are not this one's", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionStalled, "False", "UnknownKind", "db/cm.yaml:3: there is no kind ConfigMpa", time.Hour)}
		}},
		"well-led": {"a mapping leads the Bundle to a cluster of another workspace", func(w *world) {
			w.at.Cluster.Namespace, w.at.Key.Namespace = "lab", "lab"
			w.s.Mappings = []*fleet.BundleNamespaceMapping{{
				ObjectMeta:     metav1.ObjectMeta{Namespace: "shops", Name: "lent"},
				BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"lab": "yes"}},
			}}
			w.s.Spaces = map[string]map[string]string{"lab": {"lab": "yes"}}
			w.deploy()
		}},
		"well-values-hidden": {"and that it is not", func(w *world) {
			w.s.Bundle.Spec.ValuesHash, w.s.Hidden = "some", []Hidden{{Secrets, "shops"}}
		}},
		"well-hidden": {"what may not be read stops nothing", func(w *world) {
			w.s.Repo, w.s.Hidden = nil, []Hidden{{Repositories, "shops"}, {ConfigMaps, "cattle-fleet-system"}}
		}},
		"well-nothing-known": {"without the deployment and a word of it, nobody knows", func(w *world) {
			w.s.Bundle.Status.Summary.Ready = 2
			w.at.Deployment, w.s.Hidden = nil, []Hidden{{Deployments, "cluster-c1"}}
		}},
		"well-unseen": {"that all clusters of the Bundle are Ready says nothing of one that may not be read", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}}
			w.at.Cluster, w.at.Deployment, w.s.Hidden = nil, nil, []Hidden{{Clusters, "shops"}, {Deployments, ""}}
		}},
		"well-groups-unseen": {"nor of one whose cluster groups may not be read", func(w *world) {
			w.s.Bundle.Spec.Targets = append([]fleet.BundleTarget{{ClusterGroup: "stores", DoNotDeploy: true}}, w.s.Bundle.Spec.Targets...)
			w.at.Deployment, w.s.Hidden = nil, []Hidden{{Groups, "shops"}, {Deployments, "cluster-c1"}}
		}},
		"well-told": {"without the deployment the Bundle still says that all are Ready", func(w *world) {
			w.at.Deployment, w.s.Hidden = nil, []Hidden{{Deployments, "cluster-c1"}}
		}},
	}
	for _, more := range []map[string]testCase{sourceCases(), targetCases(), holdCases(), pauseCases(), deliveryCases(), releaseCases(), rivalCases()} {
		for name, c := range more {
			all[name] = c
		}
	}
	return all
}

func sourceCases() map[string]testCase {
	return map[string]testCase{
		"source-refused": {"new commits do not come, what is there runs on", func(w *world) {
			w.s.Repo.Spec.ClientSecretName = "git"
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionGitPolling, "False", "AuthenticationRefused", "git.example refuses the credentials of Secret git", 2*time.Hour)}
		}},
		"source-reading": {"a commit that is being read passes by itself", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReconciling, "True", fleet.ReasonProgressing, "commit 9999999 is being read", 4*time.Second)}
		}},
		"source-suspended": {"the brake stops reading too", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReconciling, "True", fleet.ReasonSuspended, "suspended by ana: a drill", time.Minute)}
		}},
		"source-gone":    {"a bundle outlives its repository only for moments", func(w *world) { w.s.Repo = nil }},
		"source-unread":  {"a repository that was never read", func(w *world) { w.s.Repo.Status = fleet.GitRepoStatus{} }},
		"source-removed": {"a repository on its way out", func(w *world) { w.s.Repo.DeletionTimestamp = &metav1.Time{Time: now} }},
		"bundle-finding": {"a mistake in a file of this bundle keeps it at what it was", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionStalled, "True", "InvalidYAML", "web/values.yaml:7: a tab where spaces indent", 5*time.Minute)}
		}},
		"bundle-clash": {"two directories want the name of this bundle", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "Name", `a: bundle name "shop-web" is also that of b (and 1 more)`)
		}},
		"bundle-clash-directory": {"the directory of this bundle wants the name of another", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "Name", `web: bundle name "shop-store" is also that of store (and 1 more)`)
		}},
		"bundle-clash-file": {"the fleet.yaml of this bundle's directory gives it the name of another", func(w *world) {
			w.incomplete(fleet.ConditionStalled, "Name", `web/fleet.yaml:1: bundle name "shop-store" is also that of store (and 1 more)`)
		}},
		"bundle-chart": {"a chart that cannot be had at present is tried again", func(w *world) {
			w.incomplete(fleet.ConditionReconciling, "Chart", `web/fleet.yaml:2: "https://charts.invalid/index.yaml" cannot be had: no address is known for this name`)
		}},
		"bundle-unobserved": {"the manager has not come to it", func(w *world) { w.s.Bundle.Generation = 3 }},
		"bundle-manager-gone": {"the manager does not come to it", func(w *world) {
			heartbeat := now.Add(-2 * time.Hour)
			w.s.Bundle.Generation, w.s.Manager = 3, view.Manager{LastSign: &heartbeat}
		}},
		"bundle-no-shard-manager": {"no manager of the bundle's shard was ever there", func(w *world) {
			w.s.Bundle.Generation, w.s.Manager = 3, view.Manager{Shard: "blue"}
		}},
		"source-unread-shard": {"a repository of a shard without a manager", func(w *world) {
			w.s.Repo.Status, w.s.Manager = fleet.GitRepoStatus{}, view.Manager{Shard: "blue"}
			w.s.Repo.Labels = map[string]string{fleet.LabelShardRef: "blue"}
		}},
		"bundle-values": {"the Bundle waits for the Secret with its values", func(w *world) {
			w.s.Bundle.Spec.ValuesHash = "other"
			w.s.Bundle.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "False", "WaitForValues", `waits for Secret "shop-web" with the values of this version`, time.Minute)}
		}},
		"bundle-source-missing": {"the manager waits for what a new version takes along: it has not finished that version", func(w *world) {
			w.s.Bundle.Generation = 3
			w.s.Bundle.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "False", "DownstreamResourceMissing", `waits for Secret "nosuch" in namespace "shops", which the bundle takes along`, time.Minute)}
		}},
		"bundle-corrected": {"what was wrong with the version before says nothing about this one", func(w *world) {
			w.s.Bundle.Generation = 3
			w.s.Bundle.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "False", "InvalidOptions", "the version before was wrong", time.Minute)}
		}},
		"bundle-removed": {"a Bundle on its way out", func(w *world) { w.s.Bundle.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)} }},
	}
}

func targetCases() map[string]testCase {
	targets := func(list ...fleet.BundleTarget) func(*world) {
		return func(w *world) { w.targeted(list...) }
	}
	byLabel := func(name, key, value string) fleet.BundleTarget {
		return fleet.BundleTarget{Name: name, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	return map[string]testCase{
		"target-one":  {"the only target's words are the answer", targets(byLabel("eu", "region", "eu"))},
		"target-many": {"each of several targets says what it wants", targets(byLabel("eu", "region", "eu"), fleet.BundleTarget{ClusterName: "c9"}, fleet.BundleTarget{ClusterGroup: "stores"})},
		"target-emptied": {"a person has ordered the cluster to be emptied", func(w *world) {
			w.at.Cluster.Annotations = map[string]string{fleet.AnnotationUninstall: "now"}
		}},
		"target-group": {"labels that bring it into the group are what helps", func(w *world) {
			w.s.Groups = []*fleet.ClusterGroup{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "stores"},
				Spec:       fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "store"}}},
			}}
			targets(fleet.BundleTarget{ClusterGroup: "stores"})(w)
		}},
		"target-group-selector": {"a group whose selector cannot be used has no clusters, and no target helps", func(w *world) {
			w.s.Groups = []*fleet.ClusterGroup{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "stores"},
				Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kind", Operator: "Inn", Values: []string{"store"}}},
				}},
			}}
			targets(fleet.BundleTarget{ClusterGroup: "stores"})(w)
		}},
		"target-no-group": {"a group that does not exist is named with the nearest one", func(w *world) {
			w.s.Groups = []*fleet.ClusterGroup{{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "prod"}}}
			targets(fleet.BundleTarget{ClusterGroup: "prdo"})(w)
		}},
		"target-no-cluster": {"a cluster that does not exist is named with the nearest one", func(w *world) {
			w.s.Clusters = map[string][]string{"shops": {"c1", "c2"}}
			targets(fleet.BundleTarget{ClusterName: "c22"})(w)
		}},
		"target-other-cluster": {"one that exists is none to wonder about", func(w *world) {
			w.s.Clusters = map[string][]string{"shops": {"c1", "c2"}}
			targets(fleet.BundleTarget{ClusterName: "c2"})(w)
		}},
		"target-label-misspelt": {"a label that no cluster has is not offered where a near one is in use", func(w *world) {
			w.s.Labels = map[string][]map[string]string{"shops": {{"env": "prod"}, {"env": "prod"}, {"env": "dev"}}}
			targets(byLabel("prod", "env", "prdo"))(w)
		}},
		"target-label-key-misspelt": {"nor one whose key is misspelt", func(w *world) {
			w.s.Labels = map[string][]map[string]string{"shops": {{"env": "prod"}, {"region": "eu"}}}
			targets(byLabel("eu", "regoin", "eu"))(w)
		}},
		"target-label-misspelt-once": {"what is misspelt is put right first", func(w *world) {
			w.s.Labels = map[string][]map[string]string{"shops": {{"env": "prod"}, {"env": "dev"}}}
			targets(byLabel("prod", "env", "prdo"), byLabel("dev", "env", "dev"))(w)
		}},
		"target-label-misspelt-group": {"the label may stand in a cluster group", func(w *world) {
			w.s.Labels = map[string][]map[string]string{"shops": {{"kind": "store"}, {"env": "prod"}}}
			w.s.Groups = []*fleet.ClusterGroup{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "stores"},
				Spec:       fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "stroe"}}},
			}}
			targets(fleet.BundleTarget{ClusterGroup: "stores"})(w)
		}},
		"target-label-new": {"a label that is near none may be new", func(w *world) {
			w.s.Labels = map[string][]map[string]string{"shops": {{"env": "prod"}}}
			targets(byLabel("eu", "region", "eu"))(w)
		}},
		"target-overridden": {"targets of its own replace those of the repository", func(w *world) {
			w.s.Clusters = map[string][]string{"shops": {"c1", "c2"}}
			w.overridden(fleet.BundleTarget{ClusterName: "c2"})
			w.s.Repo.Spec.Targets = []fleet.GitTarget{{ClusterName: "c1"}}
		}},
		"target-overridden-in-part": {"also where each of them is one of the repository's", func(w *world) {
			w.overridden(fleet.BundleTarget{ClusterName: "c2"})
			w.s.Repo.Spec.Targets = []fleet.GitTarget{{ClusterName: "c1"}, {ClusterName: "c2"}}
		}},
		"target-overridden-by-nothing": {"an empty list of them stands in for those of the repository, too", func(w *world) {
			w.overridden()
			w.s.Bundle.Spec.Targets = []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}
		}},
		"target-overridden-customized": {"and makes the customizations targets", func(w *world) {
			w.overridden()
			w.s.Bundle.Spec.Targets = []fleet.BundleTarget{{Name: "eu", ClusterName: "c9"}}
		}},
		"target-repo-unseen": {"who may not see the GitRepo cannot be told which of the two it is", func(w *world) {
			w.overridden(fleet.BundleTarget{ClusterName: "c2"})
			w.s.Repo, w.s.Hidden = nil, []Hidden{{Repositories, "shops"}}
		}},
		"target-none-set": {"a repository without targets is for the group default", targets(fleet.BundleTarget{Name: "default", ClusterGroup: "default"})},
		"target-refused": {"doNotDeploy is a no of its own", func(w *world) {
			w.s.Bundle.Spec.Targets[0].DoNotDeploy = true
			w.at.Deployment = nil
		}},
		"target-restricted": {"a restriction of the repository keeps it out", func(w *world) {
			w.s.Bundle.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{{Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}}}
			w.at.Deployment = nil
		}},
		"target-leaving": {"a cluster that was relabelled loses its deployment by order", func(w *world) {
			w.at.Cluster.Labels = map[string]string{"env": "dev"}
			w.at.Deployment.Annotations[fleet.AnnotationWithdrawn] = "1234"
		}},
		"target-deletion-held": {"what would be removed waits to be approved", func(w *world) {
			w.at.Cluster.Labels = map[string]string{"env": "dev"}
			w.s.Bundle.Status.Conditions = append(w.s.Bundle.Status.Conditions, cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld,
				"would remove 40 of 50 deployments, 5 may go: fleet approve bundle/shop-web 5a8c1f0e", time.Minute))
		}},
		"target-deletion-approved": {"what is approved does not wait for a person any more", func(w *world) {
			w.at.Cluster.Labels = map[string]string{"env": "dev"}
			w.s.Bundle.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "5a8c1f0e"}
			w.s.Bundle.Status.Conditions = append(w.s.Bundle.Status.Conditions, cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld,
				"would remove 40 of 50 deployments, 5 may go: fleet approve bundle/shop-web 5a8c1f0e", time.Minute))
		}},
		"target-selector": {"a selector that cannot be read stops the Bundle everywhere", func(w *world) {
			w.s.Bundle.Spec.Targets[0].ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}}}
			w.s.Bundle.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "False", "InvalidSelector", "target 1", time.Minute)}
		}},
		"target-selector-repo": {"one in the targets of the GitRepo is put right there", func(w *world) {
			w.targeted(fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}}}})
		}},
		"target-selector-customization": {"one of a customization in fleet.yaml", func(w *world) {
			w.targeted(fleet.BundleTarget{ClusterName: "c1"})
			w.s.Bundle.Spec.Targets = append([]fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}},
			}}}, w.s.Bundle.Spec.Targets...)
		}},
		"target-template": {"a template error stops this cluster alone", func(w *world) {
			w.s.Bundle.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"site": "${ .ClusterLabels.tier }"}}}
		}},
		"target-other-workspace": {"nothing leads a Bundle to another workspace", func(w *world) {
			w.at.Cluster.Namespace, w.at.Key.Namespace, w.at.Deployment = "lab", "lab", nil
		}},
		"target-cluster-removed": {"a Cluster that is deleted keeps what runs there", func(w *world) { w.at.Cluster.DeletionTimestamp = &metav1.Time{Time: now} }},
	}
}

func pauseCases() map[string]testCase {
	return map[string]testCase{
		"pause-repo":    {"the pause is where it was set", func(w *world) { w.behind(); w.s.Bundle.Spec.Paused, w.s.Repo.Spec.Paused = true, true }},
		"pause-bundle":  {"a Bundle that is paused by hand", func(w *world) { w.behind(); w.s.Bundle.Spec.Paused = true }},
		"pause-cluster": {"a cluster that is paused", func(w *world) { w.behind(); w.at.Cluster.Spec.Paused = true }},
		"pause-window": {"outside of the change windows: when the next one opens, before the agent has reported it", func(w *world) {
			w.old()
			w.windows("0 0 22 * * ?")
		}},
		"pause-window-reported": {"and after", func(w *world) {
			w.old()
			w.windows("0 0 22 * * ?")
			w.at.Deployment.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionDeployed, Status: "Unknown", Reason: release.ReasonOutsideWindow,
				Message: "outside of the change windows of this cluster: the next one opens at 2026-08-24T22:00:00Z", ObservedGeneration: 3}}
		}},
		"pause-window-broken": {"a Schedule that cannot be used opens none", func(w *world) {
			w.old()
			w.windows("")
		}},
		"pause-window-unknown-agent": {"an agent that knows no windows is held back by the manager", func(w *world) {
			w.old()
			w.at.Deployment.Spec.OffSchedule = true
		}},
		"delivered-override": {"a deployment that is opened by a user does not wait", func(w *world) {
			w.old()
			w.windows("0 0 22 * * ?")
			w.at.Deployment.Annotations[fleet.AnnotationOpenUntil] = now.Add(time.Hour).UTC().Format(time.RFC3339) + " fix for the checkout"
		}},
		"well-window": {"what is as it should be waits for no window", func(w *world) { w.windows("0 0 22 * * ?") }},
		"pause-suspended": {"who suspended it, when and why", func(w *world) {
			w.behind()
			w.s.Bundle.Spec.Paused = true
			w.s.Bundle.Annotations = map[string]string{fleet.AnnotationPausedBy: "ana", fleet.AnnotationPauseReason: "incident 4711",
				fleet.AnnotationPausedAt: now.Add(-2 * time.Hour).Format(time.RFC3339)}
		}},
	}
}

func holdCases() map[string]testCase {
	return map[string]testCase{
		"source-limits": {"a GitRepo that violates a limit names the rule and its object", func(w *world) {
			w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionStalled, "True", fleet.EventPolicyViolation, "serviceAccount is required by Policy but is not set", time.Hour)}
			w.s.Policies = []*fleet.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: w.s.Bundle.Namespace, Name: "tight"}, RequireServiceAccount: true}}
		}},
		"policy-limits": {"a limit that the Bundle violates is named, with its object", func(w *world) {
			w.behind()
			w.s.Policies = []*fleet.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: w.s.Bundle.Namespace, Name: "tight"}, RequireServiceAccount: true}}
		}},
		"policy-namespace": {"options that the Bundle gets on the cluster are judged", func(w *world) {
			w.behind()
			w.s.Restrictions = []*fleet.GitRepoRestriction{{ObjectMeta: metav1.ObjectMeta{Namespace: w.s.Bundle.Namespace, Name: "tight"}, AllowedTargetNamespaces: []string{"a", "b"}}}
		}},
		"policy-blocks": {"a field that would limit it is not ignored", func(w *world) {
			w.s.Bundle.Spec.Targets = append([]fleet.BundleTarget{{BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				AllowedTargetNamespaceSelector: &metav1.LabelSelector{}}}}, w.s.Bundle.Spec.Targets...)
		}},
		"pause-brake": {"the brake, since when, by whom and why", func(w *world) {
			w.behind()
			since := now.Add(-9 * time.Minute)
			w.s.Brake = view.GlobalPause{On: true, By: "ana", Reason: "a drill", Since: &since}
		}},
		"pause-brake-unseen": {"who may not see the brake is told by the Bundle's status", func(w *world) {
			w.behind()
			w.held(fleet.OutOfSync, "suspended by ana: a drill")
			w.s.Hidden = []Hidden{{ConfigMaps, "cattle-fleet-system"}}
		}},
		"rollout-frozen": {"a limit of 0 does not pass by itself", func(w *world) {
			w.behind()
			w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{
				{Name: "canary", MaxUnavailable: zero(), ClusterName: "c9"}, {Name: "all", ClusterSelector: &metav1.LabelSelector{}},
			}}
			w.held(fleet.OutOfSync, `waits for partition "canary"`)
		}},
		"rollout-frozen-new": {"nor does a limit of 0 for clusters that are new", func(w *world) {
			n := 0
			w.at.Deployment, w.s.Bundle.Spec.RolloutStrategy = nil, &fleet.RolloutStrategy{MaxNew: &n}
			w.held(fleet.Pending, "new deployments are not created: maxNew is 0")
		}},
		"rollout-frozen-unseen": {"who may not read deployments is not told that the cluster is new where the Bundle says otherwise", func(w *world) {
			w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: zero()}
			w.at.Deployment, w.s.Hidden = nil, []Hidden{{Deployments, "cluster-c1"}}
			w.held(fleet.OutOfSync, "waits for room: 0 may be unavailable")
		}},
		"rollout-held": {"the manager's own words about this cluster", func(w *world) {
			w.behind()
			w.held(fleet.OutOfSync, `waits for partition "ring-1"`)
			w.s.Bundle.Status.PartitionStatus = []fleet.PartitionStatus{
				{Name: "ring-1", Count: 200, MaxUnavailable: 10, Unavailable: 15, Summary: fleet.BundleSummary{Ready: 181, DesiredReady: 200}},
				{Name: "ring-2", Count: 300, MaxUnavailable: 10, Summary: fleet.BundleSummary{OutOfSync: 300, DesiredReady: 300}},
			}
			w.s.Bundle.Status.Conditions = append(w.s.Bundle.Status.Conditions, cond(fleet.ConditionWaiting, "True", fleet.ReasonDeferred,
				`partition "ring-2" waits for partition "ring-1": 15 not there yet, 10 allowed: shops/c7, shops/c8, shops/c9 and 12 more; 4 clusters are deferred: they are offline, silent or outside of their change windows`, 9*time.Minute))
		}},
		"rollout-like-others": {"a cluster that the status does not name waits for what others of its partition wait for", func(w *world) {
			w.behind()
			w.at.Deployment.Spec.StagedDeploymentID = "s-new:o"
			w.s.Bundle.Status.PartitionStatus[0].Summary.NonReadyResources = []fleet.NonReadyResource{{
				Name: "shops/c9", State: fleet.OutOfSync, Message: "waits for room: 1 may be unavailable",
			}}
		}},
		"rollout-release-held": {"a release that is not replaced without an approval waits for no limit, whatever the objects of the old one say", func(w *world) {
			w.behind()
			w.at.Deployment.Status.Ready = false
			w.held(fleet.NotReady, "")
			w.holds("shop", "bundle shop-web: release web/web becomes shop/web")
		}},
		"rollout-release-held-alone": {"nor does one of a bundle without a repository, of which the deployments are listed", func(w *world) {
			w.behind()
			w.at.Deployment.Status.Ready = false
			w.s.Repo, w.s.Bundle.Labels = nil, nil
			w.holds("", "PersistentVolumeClaim web/data on shops/c1", "deployment shops/c1: release web/web becomes shop/web")
		}},
		"rollout-release-approved": {"what is approved does not wait for a person", func(w *world) {
			w.behind()
			w.held(fleet.OutOfSync, "waits for room: 1 may be unavailable")
			w.holds("shop", "bundle shop-web: release web/web becomes shop/web")
			w.s.Repo.Annotations[fleet.AnnotationApproveDeletion] = "5a8c1f0e"
		}},
		"rollout-no-partition": {"a cluster in no partition never gets it", func(w *world) {
			w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{{Name: "first", ClusterName: "c9"}}}
			w.at.Deployment = nil
		}},
		"rollout-selector": {"a partition whose selector cannot be read stops the Bundle everywhere", func(w *world) {
			w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{{Name: "first", ClusterSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Is"}},
			}}}}
			w.at.Deployment = nil
		}},
		"rollout-no-partition-any-more": {"or keeps what it has", func(w *world) {
			w.s.Bundle.Spec.RolloutStrategy = &fleet.RolloutStrategy{Partitions: []fleet.Partition{{Name: "first", ClusterName: "c9"}}}
			w.behind()
		}},
		"rollout-values-hidden": {"who may not read the values is told by the content that it is behind", func(w *world) {
			w.s.Bundle.Spec.ValuesHash, w.s.Hidden = "some", []Hidden{{Secrets, "shops"}}
			w.at.Deployment.Spec.DeploymentID, w.at.Deployment.Spec.StagedDeploymentID = "s-old:o", "s-old:o"
			w.at.Deployment.Status.AppliedDeploymentID = "s-old:o"
		}},
		"rollout-invalid": {"a strategy that cannot be read", func(w *world) {
			w.behind()
			w.s.Bundle.Status.Conditions = []fleet.Condition{cond(fleet.ConditionReady, "False", "InvalidRolloutStrategy", `maxUnavailable: "many" is neither a number nor a percentage like "25%"`, time.Minute)}
		}},
	}
}

// dependsReported hides the deployment, of which the Bundle's status has a message about what
// it depends on.
func dependsReported(message string) func(*world) {
	return func(w *world) {
		w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "shop-db"}}
		w.held(fleet.ErrApplied, message)
		w.at.Deployment, w.s.Hidden = nil, []Hidden{{Deployments, "cluster-c1"}}
	}
}

// removalHeld makes the Bundle one that its repository does not have any more, and that waits
// at the GitRepo until a person approves it.
func removalHeld(approved string) func(*world) {
	return func(w *world) {
		w.s.Bundle.Annotations = map[string]string{fleet.AnnotationPrune: "5-0123"}
		w.s.Repo.Annotations = map[string]string{fleet.AnnotationPrune: "5-0123", fleet.AnnotationApproveDeletion: approved}
		w.s.Repo.Status.Conditions = []fleet.Condition{cond(fleet.ConditionDeletionHeld, "True", fleet.ReasonDeletionHeld,
			"would remove 1 of 2 bundles with 1 Namespace; to go on: fleet approve -n shops repo/shop 5a8c1f0e", time.Minute)}
	}
}

func deliveryCases() map[string]testCase {
	return map[string]testCase{
		"depends-bundle": {"the agent waits for another bundle", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "shop-db"}}
			w.deploy()
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", "DependenciesNotReady",
				"dependent bundle(s) are not ready: [shop-db]; depends on shop-db, which is NotReady", time.Minute))
		}},
		"depends-reference": {"in the words of an agent of the reference", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "shop-db"}}
			w.deploy()
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", "Error", "dependent bundle(s) are not ready: [shop-db]", time.Minute))
		}},
		"depends-circle": {"bundles that wait for each other", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Name: "shop-db"}}
			w.deploy()
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", dependency.ReasonCycle, "dependent bundle(s) are not ready: [shop-db]; dependsOn goes in a circle: shop-web -> shop-db -> shop-web; take out one of them", time.Minute))
		}},
		"depends-labels": {"or for all with a label", func(w *world) {
			w.s.Bundle.Spec.DependsOn = []fleet.BundleRef{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}}}
			w.deploy()
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", "DependenciesNotReady", "depends on bundles with labels tier=db, which is not on this cluster", time.Minute))
		}},
		"depends-told": {"who may not read deployments is told by the Bundle's status", dependsReported("dependent bundle(s) are not ready: [shop-db]; depends on shop-db, which is NotReady")},
		"depends-told-missing": {"that the bundle is not on the cluster", dependsReported(`list bundledeployments: no bundles matching labels ` +
			`fleet.cattle.io/bundle-name=shop-db,fleet.cattle.io/bundle-namespace=shops in namespace shops; not on this cluster: bundle "shop-db"`)},
		"depends-told-circle": {"or that bundles wait for each other", dependsReported(
			"dependent bundle(s) are not ready: [shop-db]; dependsOn goes in a circle: shop-web -> shop-db -> shop-web; take out one of them")},
		"delivered-offline":     {"an Offline cluster is behind, and nothing is to be done", func(w *world) { w.old(); w.away() }},
		"delivered-offline-new": {"an Offline cluster that never had it", func(w *world) { w.at.Deployment.Status = fleet.BundleDeploymentStatus{}; w.away() }},
		"delivered-locked-out": {"an agent whose credential has ended for good does not come back by itself", func(w *world) {
			w.old()
			w.away()
			w.at.Cluster.Status.Conditions = append(w.at.Cluster.Status.Conditions, cond(fleet.ConditionCredential, "False", credential.ReasonGraceOver,
				"not seen for longer than credentialGrace (30d): its credential has ended", time.Hour))
		}},
		"delivered-credential-ended": {"and one that may still renew it does", func(w *world) {
			w.old()
			w.away()
			w.at.Cluster.Status.Conditions = append(w.at.Cluster.Status.Conditions, cond(fleet.ConditionCredential, "False", credential.ReasonExpired,
				"its credential (credentialTTL 24h) has ended while it was away", time.Hour))
		}},
		"delivered-never-seen": {"an agent that never came", func(w *world) {
			w.at.Deployment.Status = fleet.BundleDeploymentStatus{}
			w.at.Cluster.Status.Conditions = nil
			w.at.Cluster.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		}},
		"delivered-unreported": {"an agent that has not answered yet", func(w *world) {
			w.old()
			w.at.Deployment.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionDeployed, Status: "True", ObservedGeneration: 2}}
		}},
		"delivered-stale-failure": {"a failure of an older version is not one of this", func(w *world) {
			w.old()
			w.at.Deployment.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionDeployed, Status: "False", Reason: "TimedOut", Message: "timed out", ObservedGeneration: 2}}
		}},
		"delivered-content": {"the agent waits for the manager's content", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", "ContentMissing", "the content is not there yet", time.Minute))
		}},
		"delivered-unwritten": {"a deployment that the manager is about to write", func(w *world) { w.at.Deployment = nil }},
		"delivered-no-manager": {"or would, if it ran", func(w *world) {
			heartbeat := now.Add(-2 * time.Hour)
			w.at.Deployment, w.s.Manager = nil, view.Manager{LastSign: &heartbeat}
		}},
		"delivered-no-manager-behind": {"nobody promotes a version while the manager is away", func(w *world) {
			heartbeat := now.Add(-2 * time.Hour)
			w.behind()
			w.s.Manager = view.Manager{LastSign: &heartbeat}
		}},
		"delivered-no-namespace": {"a cluster whose namespace cannot be", func(w *world) {
			w.at.Deployment = nil
			w.at.Cluster.Status.Conditions = append(w.at.Cluster.Status.Conditions,
				cond(fleet.ConditionProcessed, "False", "NamespaceTaken", `namespace "cluster-c1" exists and was not made by Fleet: delete it`, time.Hour))
		}},
		"delivered-too-large": {"an agent that cannot read so much", func(w *world) {
			w.at.Deployment = nil
			w.held(fleet.ErrApplied, "above 1 MiB, the limit of this agent (the reference's)")
		}},
		"delivered-withdrawn-by-mistake": {"wanted again while the agent uninstalls", func(w *world) { w.at.Deployment.Annotations[fleet.AnnotationWithdrawn] = "1234" }},
	}
}

// fails is an attempt of the agent that it makes again.
func fails(reason, message string) func(*world) {
	return func(w *world) {
		w.old()
		w.at.Deployment.Status.Release = "web/web:3"
		w.says(cond(fleet.ConditionDeployed, "False", reason, message, 41*time.Second), cond(fleet.ConditionReady, "False", reason, message, 41*time.Second))
	}
}

// failsForGood is one that it does not.
func failsForGood(reason, message string) func(*world) {
	return func(w *world) {
		w.at.Deployment.Status.Release, w.at.Deployment.Status.Ready = "", false
		w.says(cond(fleet.ConditionDeployed, "False", reason, "not installed: "+message, time.Minute),
			cond(fleet.ConditionInstalled, "False", reason, "not installed: "+message, time.Minute),
			cond(fleet.ConditionStalled, "True", reason, message, time.Minute), cond(fleet.ConditionReady, "False", reason, "not ready: "+message, time.Minute))
	}
}

// failsUpgrade is failsForGood where another release was there before.
func failsUpgrade(reason, message string) func(*world) {
	return func(w *world) {
		failsForGood(reason, message)(w)
		for i, c := range w.at.Deployment.Status.Conditions {
			if c.Type == fleet.ConditionStalled {
				w.at.Deployment.Status.Conditions[i].Message = "upgrade failed, web/web:3 still runs: " + message
			}
		}
	}
}

// rivalCases are about an object or a release that two bundles, or two agents, want.
func rivalCases() map[string]testCase {
	return map[string]testCase{
		"applied-rival": {"an object of another bundle: neither taking it over nor deleting it ends that", failsForGood("NotOwned",
			release.ForeignText("Service web/web", "other-web", release.ID{Namespace: "web", Name: "other"}))},
		"applied-upgrade": {"the release before runs on", failsUpgrade("NotOwned", "Service web/web exists")},
		"applied-rival-old-agent": {"in the words of an older agent", failsForGood("NotOwned",
			"Service web/web exists and does not belong to this release: it belongs to release web/other of bundle other-web; set helm.takeOwnership to take it over")},
		"applied-shared": {"an object of another bundle of the repository", fails("SharedObject",
			release.SharedText("Service web/web", "shop-web", "shop-api", release.ID{Namespace: "web", Name: "shop-api"}))},
		"applied-shared-waits": {"in its first minute it waits", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", "SharedObject",
				release.SharedText("Service web/web", "shop-web", "shop-api", release.ID{Namespace: "web", Name: "shop-api"}), time.Minute))
		}},
		"applied-release-rival": {"a release that another bundle wants, too", failsForGood("ForeignRelease", "release web/web exists and belongs to bundle other-web")},
		"applied-release-agent": {"a release of another agent, which takeOwnership does not take", failsForGood("ForeignRelease",
			"release web/web exists and belongs to the Fleet agent in namespace other-system")},
		"applied-release-left": {"a release of a bundle that is gone", failsForGood("ForeignRelease",
			"release web/web exists and belongs to bundle other-web; set helm.takeOwnership to take it over")},
	}
}

func releaseCases() map[string]testCase {
	return map[string]testCase{
		"applied-not-owned":      {"an object of somebody else, and both ways out", failsForGood("NotOwned", "Service web/web exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")},
		"applied-not-owned-file": {"the file before the object", failsForGood("NotOwned", "svc.yaml: Service web/web exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")},
		"applied-again":          {"a failure that is tried again", fails("Error", "helm: connection refused")},
		"applied-forbidden":      {"rights that somebody has to give", fails("Forbidden", "deployments.apps is forbidden")},
		"applied-unknown":        {"a CRD that is missing", fails("UnknownKind", "Gadget web/x: the cluster does not know kind Gadget of example.com/v1; its CRD must be installed first")},
		"applied-unknown-removed": {"a kind that Kubernetes has in another version", fails("UnknownKind",
			"ing.yaml: Ingress web/x: the cluster does not serve Ingress of extensions/v1beta1; use Ingress of networking.k8s.io/v1")},
		"applied-unknown-version": {"a kind that the cluster serves in another version", fails("UnknownKind",
			"x.yaml: Gadget web/x: the cluster does not serve Gadget of example.com/v1alpha1; it serves v1")},
		"applied-unknown-own": {"a kind that the bundle brings itself", fails("UnknownKind",
			"x.yaml: Gadget web/x: the cluster does not know kind Gadget of example.com/v1 yet; its CRD is in this bundle: "+
				"move the CRD into a bundle of its own, or into the crds folder of a chart")},
		"applied-unknown-built-in": {"a kind that there is not", fails("UnknownKind",
			"x.yaml: Deploymnet web/x: the cluster does not serve Deploymnet of apps/v1, which no CRD can bring")},
		"applied-values-no-map": {"values on the cluster that are no map", fails("InvalidValues",
			`helm.valuesFrom: Secret web/vals, key "values.yaml": not a YAML map`)},
		"applied-no-namespace": {"an object in a namespace that is not there", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", "NamespaceMissing",
				`ConfigMap elsewhere/a in a.yaml: namespace "elsewhere" does not exist; create it, or add it to the bundle`, time.Minute))
		}},
		"applied-timeout":  {"objects that did not get ready in time", failsForGood("TimedOut", "timed out waiting for the condition")},
		"applied-template": {"a chart that cannot be rendered", failsForGood("TemplateFailed", "deploy.yaml:21: no value for tier")},
		"applied-template-unlabelled": {"a value that is the text of a template, since the cluster has no labels", func(w *world) {
			w.targeted(fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}})
			w.s.Bundle.Spec.Helm, w.at.Cluster.Labels = &fleet.HelmOptions{TemplateValues: map[string]string{"region": "${ .ClusterName }"}}, nil
			w.deploy()
			failsForGood("InvalidYAML", "templates/deploy.yaml: line 11 of what it renders to: did not find expected ',' or '}'")(w)
		}},
		"applied-invalid": {"a value that only an API server refuses", failsForGood("InvalidObject", "web/s.yaml: Service web/web: [spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive]")},
		"applied-invalid-chart": {"such a value in what a chart renders", failsForGood("InvalidObject",
			`templates/s.yaml: Service web/web: [spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive]`)},
		"applied-immutable": {"a field that cannot be changed", failsUpgrade("ImmutableField",
			"DaemonSet web/tuning in a.yaml: spec.selector: field is immutable; delete the object or give it another name")},
		"applied-immutable-old-agent": {"in the words of an older agent", failsForGood("ImmutableField", "spec.selector: field is immutable")},
		"applied-taken": {"a release that another bundle still has", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", "ReleaseTaken", "waits until bundle shop-old gives up release web/web", time.Minute))
		}},
		"applied-values": {"a Secret with values that nobody has made", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", release.ReasonNoValues, release.MissingValues("Secret", "web", "creds", `does not exist; its key "values.yaml" is wanted`), time.Minute))
		}},
		"applied-values-key": {"one that lacks the key", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "Unknown", release.ReasonNoValues, release.MissingValues("ConfigMap", "web", "more", `has no key "a.yaml"`), time.Minute))
		}},
		"applied-namespace": {"a namespace that the bundle must not create", func(w *world) {
			w.old()
			w.says(cond(fleet.ConditionDeployed, "False", release.ReasonNoNamespace, release.MissingNamespace("web"), time.Minute))
		}},
		"applied-immutable-claim": {"who deletes a claim is told that its data goes, too", failsUpgrade("ImmutableField",
			"PersistentVolumeClaim web/data in a.yaml: spec: immutable; delete the object or give it another name")},
		"applied-not-owned-claim": {"also where somebody else has made it", failsForGood("NotOwned",
			"PersistentVolumeClaim web/data exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")},
		"applied-not-owned-namespace": {"who deletes a namespace is told that all in it goes, too", failsForGood("NotOwned",
			"ns.yaml: Namespace shop exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")},
		"applied-not-owned-system": {"no API server deletes the namespace kube-system, and nobody is told to", failsForGood("NotOwned",
			"ns.yaml: Namespace kube-system exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")},
		"applied-and-modified": {"an upgrade that failed, and an object that was changed by hand: both are named", func(w *world) {
			failsForGood("NotOwned", "Service web/web exists and does not belong to this release: it was made by somebody else; set helm.takeOwnership to take it over")(w)
			w.at.Deployment.Status.ModifiedStatus = []fleet.ModifiedStatus{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "web", Patch: `{"spec":{"replicas":0}}`}}
		}},
		"applied-undisclosed": {"without the deployment the Bundle's status has its message", func(w *world) {
			w.held(fleet.ErrApplied, "out of luck")
			w.at.Deployment, w.s.Hidden = nil, []Hidden{{Deployments, "cluster-c1"}}
		}},
		"healthy-starting": {"objects that are starting get ready by themselves", func(w *world) {
			w.at.Deployment.Status.Ready = false
			w.at.Deployment.Status.NonReadyStatus = []fleet.NonReadyStatus{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "web", Summary: fleet.Summary{Transitioning: true, Message: []string{"0/1 available"}}}}
			w.says(cond(fleet.ConditionReady, "False", "NotReady", "x", 9*time.Minute))
		}},
		"healthy-broken": {"objects that say that they failed do not", func(w *world) {
			w.at.Deployment.Status.Ready = false
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				w.at.Deployment.Status.NonReadyStatus = append(w.at.Deployment.Status.NonReadyStatus,
					fleet.NonReadyStatus{APIVersion: "batch/v1", Kind: "Job", Namespace: "web", Name: name, Summary: fleet.Summary{Error: true, Message: []string{"Job has failed"}}})
			}
			w.says(cond(fleet.ConditionReady, "False", "NotReady", "x", 9*time.Minute))
		}},
		"healthy-modified": {"what others have changed", func(w *world) {
			w.at.Deployment.Status.NonModified = false
			w.at.Deployment.Status.ModifiedStatus = []fleet.ModifiedStatus{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "web", Patch: `{"spec":{"replicas":0}}`}}
			w.says(cond(fleet.ConditionReady, "False", "Modified", "x", time.Minute))
		}},
		"healthy-uncorrected-old-agent": {"in the words of an older agent", func(w *world) {
			w.at.Deployment.Status.NonModified = false
			w.says(cond(fleet.ConditionReady, "False", "CorrectionFailed", "drift not corrected: conflict", time.Minute))
		}},
		"healthy-uncorrected": {"drift that cannot be corrected", func(w *world) {
			w.at.Deployment.Status.NonModified = false
			w.says(cond(fleet.ConditionReady, "False", "Error", "drift not corrected: conflict", time.Minute))
		}},
		"healthy-blind": {"objects that cannot be looked at", func(w *world) {
			w.at.Deployment.Status.Ready = false
			w.says(cond(fleet.ConditionMonitored, "False", "Error", "look at the release: forbidden", time.Minute))
		}},
	}
}
