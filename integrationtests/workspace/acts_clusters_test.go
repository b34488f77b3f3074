package workspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// made by Rancher in the first act; more are names of the management Clusters.
func (w *world) provision(name, more string) string {
	w.Helper()
	cluster := w.rancher.Provision(w, "fleet-default", name, `{"metadata":{`+more+`},"spec":{"rkeConfig":{}}}`)
	w.rancher.Ready(w, cluster, true)
	w.mapped("fleet-default", name)
	return cluster
}

// managed is the management Cluster of a provisioning Cluster.
func (w *world) managed(namespace, name string) string {
	w.Helper()
	return w.text(rancher.ProvClusters, namespace, name, "status", "clusterName")
}

func mappedByRancher(w *world, since time.Time) {
	w.provision("m1", `"labels":{"env":"dev","foo.cattle.io/x":"1"}`)
	c := w.cluster("fleet-default", "m1")
	if c.Labels["env"] != "dev" || c.Labels["foo.cattle.io/x"] != "" || c.Spec.KubeConfigSecret != "m1-kubeconfig" {
		w.Errorf("%+v %+v", c.ObjectMeta, c.Spec)
	}
	w.by(rancher.User, since, "spec.kubeConfigSecret", fleetClusters, "fleet-default", "m1")
}

func mappedByUs(w *world, since time.Time) {
	w.rancher.Patch(w, rancher.Clusters, "", w.managed("fleet-default", "m1"), `{"metadata":{"labels":{"env":"prod"}}}`)
	w.rancher.Triple(w, "fleet-default", "m1b", "c-m-00000001", `"labels":{"env":"dev"}`)
	w.mapped("fleet-default", "m1b")
	w.by(manager, since, "spec.kubeConfigSecret", fleetClusters, "fleet-default", "m1b")
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-00000001", `{"metadata":{"labels":{"env":"test"}}}`)
	w.sees("a change arrives", "test", func() string { return w.label("fleet-default", "m1b", "env") })
	w.untouched(manager, since, fleetClusters, "fleet-default", "m1") // that is Rancher's
}

func mappedByRancherAgain(w *world, since time.Time) {
	w.sees("what has changed meanwhile arrives", "prod", func() string { return w.label("fleet-default", "m1", "env") })
	w.adopted(since, fleetClusters, "fleet-default", "m1b")
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-00000001", `{"metadata":{"labels":{"env":"prod"}}}`)
	w.sees("Rancher goes on with it", "prod", func() string { return w.label("fleet-default", "m1b", "env") })
	w.untouched(manager, since, fleetClusters, "fleet-default", "m1b")
}

func readyLives(w *world, _ time.Time) {
	cluster := w.rancher.Provision(w, "fleet-default", "r1", `{"spec":{"rkeConfig":{}}}`)
	w.provision("r0", "") // Rancher has seen the other one before
	if w.cluster("fleet-default", "r1") != nil {
		w.Error("mapped before it is ready")
	}
	w.rancher.Ready(w, cluster, true)
	w.mapped("fleet-default", "r1")
	w.rancher.Ready(w, cluster, false)
}

func readyAway(w *world, since time.Time) {
	if w.cluster("fleet-default", "r1") == nil {
		w.Error("a cluster that is not ready any more is kept")
	}
	w.rancher.Triple(w, "fleet-default", "r1b", "c-m-00000002", "")
	w.mapped("fleet-default", "r1b")
	w.rancher.Ready(w, "c-m-00000002", false)
	before := time.Now()
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-00000002", `{"metadata":{"labels":{"late":"yes"}}}`)
	w.turns("r02")
	w.untouched(manager, before, fleetClusters, "fleet-default", "r1b")
	w.untouched(manager, since, fleetClusters, "fleet-default", "r1")
}

func readyBack(w *world, since time.Time) {
	w.rancher.Ready(w, "c-m-00000002", true)
	w.sees("it goes on", "yes", func() string { return w.label("fleet-default", "r1b", "late") })
	w.by(rancher.User, since, "metadata.labels.late", fleetClusters, "fleet-default", "r1b")
}

func assignedByRancher(w *world, since time.Time) {
	w.rancher.Import(w, "", "c-aaaa1", "My Cluster", invented)
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-aaaa1", "spec", "fleetWorkspaceName") })
	w.until("its provisioning Cluster is made", func() bool { return w.managed("fleet-default", "c-aaaa1") != "" })
	w.untouched(manager, since, mgmtClusters, "", "c-aaaa1")
}

func assignedByUs(w *world, since time.Time) {
	w.rancher.Import(w, "", "c-aaaa2", "My Cluster", invented+`,"webhookDeploymentCustomization":{"replicaCount":2}`)
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-aaaa2", "spec", "fleetWorkspaceName") })
	w.until("its provisioning Cluster is made", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-aaaa2") != nil })
	if got := w.fields(manager, since, mgmtClusters, "", "c-aaaa2"); !slices.Equal(got, []string{"spec.fleetWorkspaceName"}) {
		w.Errorf("the manager has written %v", got)
	}
	w.rancher.Patch(w, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"team-4"}`)
	w.until("that workspace is made", func() bool { return w.namespace("team-4") != nil })
	w.by(manager, since, "metadata.annotations["+plan.AnnotationOrigin+"]", namespaces, "", "team-4")
	w.rancher.Import(w, "", "c-aaaa3", "Another", "")
	w.sees("a new one goes elsewhere", "team-4", func() string { return w.text(rancher.Clusters, "", "c-aaaa3", "spec", "fleetWorkspaceName") })
	w.rancher.Patch(w, rancher.Settings, "", "fleet-default-workspace-name", `{"value":""}`)
}

func assignedByRancherAgain(w *world, since time.Time) {
	w.adopted(since, provClusters, "fleet-default", "c-aaaa2")
	for cluster, want := range map[string]string{"c-aaaa1": "fleet-default", "c-aaaa2": "fleet-default", "c-aaaa3": "team-4"} {
		w.sees(cluster+" does not move", want, func() string { return w.text(rancher.Clusters, "", cluster, "spec", "fleetWorkspaceName") })
	}
	w.rancher.Ready(w, "c-aaaa2", true) // it connects
	c := w.mapped("fleet-default", "c-aaaa2")
	if c.Labels[fleet.LabelDisplayName] != "" || c.Labels[fleet.LabelManagementCluster] != "c-aaaa2" {
		w.Errorf("%v", c.Labels)
	}
	w.by(rancher.User, since, "spec.kubeConfigSecret", fleetClusters, "fleet-default", "c-aaaa2")
}

// external takes a cluster out of its workspace for who manages it externally. Rancher's
// webhook refuses that, where it runs.
const external = `{"metadata":{"annotations":{"provisioning.cattle.io/externally-managed":"true"}},"spec":{"fleetWorkspaceName":null}}`

func externalLives(w *world, since time.Time) {
	w.rancher.Import(w, "", "c-eeee1", "External", "")
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-eeee1", "spec", "fleetWorkspaceName") })
	w.rancher.Ready(w, "c-eeee1", true)
	w.mapped("fleet-default", "c-eeee1")
	w.rancher.Unreviewed(func() { w.rancher.Patch(w, rancher.Clusters, "", "c-eeee1", external) })
	w.until("it is given up", func() bool { return w.cluster("fleet-default", "c-eeee1") == nil })
	w.until("Rancher has a provisioning Cluster where no user has set one", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "default", "c-eeee1") != nil })
	w.untouched(manager, since, fleetClusters, "fleet-default", "c-eeee1")
}

func externalAway(w *world, since time.Time) {
	w.rancher.TripleImported(w, "fleet-default", "e1b", "c-m-00000005") // as such clusters are
	w.mapped("fleet-default", "e1b")
	w.rancher.Unreviewed(func() { w.rancher.Patch(w, rancher.Clusters, "", "c-m-00000005", external) })
	w.until("it is given up", func() bool { return w.cluster("fleet-default", "e1b") == nil })
	w.made("fleet-default", "e1b", nil) // by who manages it
	w.rancher.Put(w, rancher.Clusters, "", "c-eeee2", `{"metadata":{"annotations":{"provisioning.cattle.io/externally-managed":"yes"}},"spec":{"displayName":"x"}}`)
	w.until("it has a provisioning Cluster where Rancher has it", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "default", "c-eeee2") != nil })
	w.turns("e05")
	w.untouched(manager, since, mgmtClusters, "", "c-eeee2")
	w.untouched(manager, since, mgmtClusters, "", "c-m-00000005")
}

func externalBack(w *world, since time.Time) {
	w.adopted(since, provClusters, "default", "c-eeee2")
	if w.cluster("fleet-default", "e1b") == nil {
		w.Error("what others have made stays")
	}
	w.untouched(rancher.User, w.started, fleetClusters, "fleet-default", "e1b")
}

// asks gives an object the annotation that asks for the defaults of scheduling, or none.
func asks(answer string) string {
	return `{"metadata":{"annotations":{"` + plan.AnnotationScheduling + `":"` + answer + `"}}}`
}

// scheduled waits until a Fleet Cluster has the default priority class, or none.
func (w *world) scheduled(name string, want bool) {
	w.Helper()
	w.until(fmt.Sprintf("%s has the default priority class: %t", name, want), func() bool {
		c := w.cluster("fleet-default", name)
		if c == nil || c.Spec.AgentSchedulingCustomization == nil {
			return c != nil && !want
		}
		class := c.Spec.AgentSchedulingCustomization.PriorityClass
		return class != nil && (class.Value == 999999999) == want
	})
}

func schedulingLives(w *world, since time.Time) {
	w.provision("s1", "")
	w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", "s1", asks("true"))
	w.scheduled("s1", true)
	w.by(rancher.User, since, "spec.fleetAgentDeploymentCustomization.schedulingCustomization.priorityClass.value", provClusters, "fleet-default", "s1")
}

func schedulingAway(w *world, since time.Time) {
	w.rancher.Triple(w, "fleet-default", "s1b", "c-m-00000009", "")
	w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", "s1b", asks("true"))
	w.scheduled("s1b", true)
	w.by(manager, since, "spec.fleetAgentDeploymentCustomization.schedulingCustomization.priorityClass.value", provClusters, "fleet-default", "s1b")
	w.rancher.Import(w, "fleet-default", "c-ssss2", "legacy", "")
	w.rancher.Patch(w, rancher.Clusters, "", "c-ssss2", asks("true"))
	w.until("what it asks for is in its provisioning Cluster", func() bool {
		p := w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-ssss2")
		return p != nil && strings.Contains(fmt.Sprint(p.Object["spec"]), "999999999")
	})
}

func schedulingBack(w *world, since time.Time) {
	w.adopted(since, fleetClusters, "fleet-default", "s1b")
	w.adopted(since, provClusters, "fleet-default", "c-ssss2")
	w.rancher.Patch(w, rancher.ProvClusters, "fleet-default", "s1b", asks("false"))
	w.scheduled("s1b", false)
}

// ownRegistry is part of a management Cluster: a registry of its own, with a login.
const ownRegistry = `"importedConfig":{"privateRegistryURL":"own.example","privateRegistryPullSecrets":["login"]}`

// pulls waits until the agent of a Fleet Cluster has these pull secrets; none are an empty
// list, and not the manager's.
func (w *world) pulls(name string, want ...string) {
	w.Helper()
	w.sees("pull secrets of "+name, strings.Join(want, " "), func() string {
		c := w.cluster("fleet-default", name)
		if c == nil || c.Spec.AgentPullSecrets == nil {
			return "those of the manager"
		}
		var names []string
		for _, s := range *c.Spec.AgentPullSecrets {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	})
}

// pullsBySettings checks that the agent of a Fleet Cluster without a registry of its own has
// the pull secrets of Rancher's settings, which change and go.
func (w *world) pullsBySettings(name string) {
	w.Helper()
	set := func(setting, value string) {
		w.rancher.Patch(w, rancher.Settings, "", setting, fmt.Sprintf(`{"value":%q}`, value))
	}
	w.pulls(name)
	set(plan.SettingRegistry, "preset.example")
	w.pulls(name, "those of the manager")
	set(plan.SettingPullSecrets, "one, two")
	w.pulls(name, "one-rancher-managed-pull-secret", "two-rancher-managed-pull-secret")
	set(plan.SettingPullSecrets, "")
	w.pulls(name, "those of the manager")
	set(plan.SettingRegistry, "")
	w.pulls(name)
}

func pullSecretsLive(w *world, since time.Time) {
	w.rancher.Import(w, "fleet-default", "c-pppp1", "own", ownRegistry)
	w.rancher.Import(w, "fleet-default", "c-pppp2", "preset", "")
	for _, name := range []string{"c-pppp1", "c-pppp2"} {
		w.rancher.Ready(w, name, true)
		w.mapped("fleet-default", name)
	}
	w.pulls("c-pppp1", "login-rancher-managed-pull-secret")
	w.pullsBySettings("c-pppp2")
	w.untouched(manager, since, fleetClusters, "fleet-default", "c-pppp2")
}

func pullSecretsAway(w *world, _ time.Time) {
	w.rancher.Import(w, "fleet-default", "c-pppp3", "own", ownRegistry)
	w.rancher.Import(w, "fleet-default", "c-pppp4", "preset", "")
	for _, name := range []string{"c-pppp3", "c-pppp4"} {
		w.rancher.Ready(w, name, true)
		w.until("its provisioning Cluster is made", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", name) != nil })
		w.rancher.Says(w, rancher.ProvClusters, "fleet-default", name, fmt.Sprintf(`{"status":{"clusterName":%q,"clientSecretName":"%s-kubeconfig"}}`, name, name))
		w.mapped("fleet-default", name)
	}
	w.pulls("c-pppp3", "login-rancher-managed-pull-secret")
	w.pullsBySettings("c-pppp4")
}

func pullSecretsBack(w *world, since time.Time) {
	for _, name := range []string{"c-pppp3", "c-pppp4"} {
		w.adopted(since, fleetClusters, "fleet-default", name)
	}
	w.pulls("c-pppp3", "login-rancher-managed-pull-secret")
}

const mine = `{"metadata":{"labels":{"mine":"l"},"annotations":{"mine":"a"}},"spec":{"paused":true,"hostNetwork":true,"templateValues":{"x":1},"kubeConfigSecret":"other"}}`

// minded checks that users' fields of a Fleet Cluster are as they have set them.
func (w *world) minded(name string) {
	w.Helper()
	c := w.cluster("fleet-default", name)
	if !c.Spec.Paused || c.Spec.HostNetwork == nil || c.Spec.TemplateValues == nil || c.Labels["mine"] != "l" || c.Annotations["mine"] != "a" {
		w.Errorf("what users have set is gone: %+v %+v", c.ObjectMeta, c.Spec)
	}
}

func (w *world) secretOf(name string) func() string {
	return func() string { return w.cluster("fleet-default", name).Spec.KubeConfigSecret }
}

func foreignLives(w *world, since time.Time) {
	cluster := w.provision("f1", "")
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "f1", mine)
	w.rancher.Patch(w, rancher.Clusters, "", cluster, `{"metadata":{"labels":{"tier":"1"}}}`) // Rancher looks only then
	w.sees("what is Rancher's is put back", "f1-kubeconfig", w.secretOf("f1"))
	w.minded("f1")
	w.untouched(manager, since, fleetClusters, "fleet-default", "f1")
}

func foreignAway(w *world, since time.Time) {
	w.rancher.Triple(w, "fleet-default", "f1b", "c-m-00000006", "")
	w.mapped("fleet-default", "f1b")
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "f1b", mine)
	w.sees("what is ours is put back", "f1b-kubeconfig", w.secretOf("f1b"))
	w.minded("f1b")
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "f1", `{"spec":{"kubeConfigSecret":"other"}}`)
	w.turns("f06")
	w.untouched(manager, since, fleetClusters, "fleet-default", "f1")
}

func foreignBack(w *world, since time.Time) {
	w.sees("what is Rancher's is put back", "f1-kubeconfig", w.secretOf("f1"))
	w.adopted(since, fleetClusters, "fleet-default", "f1b")
	w.minded("f1")
	w.minded("f1b")
}

func unknownLives(w *world, _ time.Time) {
	w.rancher.Import(w, "", "c-cccc1", "x", invented)
	w.sees("it is assigned", "fleet-default", func() string { return w.text(rancher.Clusters, "", "c-cccc1", "spec", "fleetWorkspaceName") })
}

func unknownAway(w *world, _ time.Time) {
	before := w.plain(rancher.Clusters, "", "c-cccc1")
	w.rancher.Import(w, "", "c-cccc2", "x", invented)
	w.until("it has a provisioning Cluster", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-cccc2") != nil })
	w.same("left", before, w.plain(rancher.Clusters, "", "c-cccc1"), "status")
	other := w.plain(rancher.Clusters, "", "c-cccc2")
	for _, obj := range []map[string]any{before, other} {
		delete(obj, "metadata")
		delete(obj, "status")
	}
	w.same("assigned by us as by Rancher", before, other, "status")
}

func unknownBack(w *world, since time.Time) {
	w.adopted(since, provClusters, "fleet-default", "c-cccc2")
	if w.rancher.Get(w, rancher.Clusters, "", "c-cccc2").Object["spec"].(map[string]any)["invented"] == nil {
		w.Error("unknown fields are gone")
	}
}

func localLives(w *world, _ time.Time) {
	w.node("n1")
	w.node("n2")
	w.rancher.Patch(w, rancher.Clusters, "", "local", `{"metadata":{"labels":{"seen":"1"}}}`) // Rancher looks only then
	w.until("it is mapped", func() bool {
		c := w.cluster("fleet-local", "local")
		return c != nil && len(c.Spec.AgentTolerations) == 1
	})
	c := w.cluster("fleet-local", "local")
	if c.Spec.AgentNamespace != fleet.NamespaceLocalAgent || c.Labels["name"] != "local" || c.Spec.AgentTolerations[0].Key != controlPlane {
		w.Errorf("%+v %+v", c.Labels, c.Spec)
	}
	w.until("the group is there", func() bool { return w.group("fleet-local") })
	w.by(rancher.User, time.Time{}, "spec.agentNamespace", fleetClusters, "fleet-local", "local")
}

func localAway(w *world, since time.Time) {
	w.rancher.Patch(w, nodes, "", "n2", `{"metadata":{"labels":{"seen":"1"}}}`)
	w.rancher.Patch(w, rancher.Clusters, "", "local", `{"metadata":{"labels":{"seen":"2"}}}`)
	w.turns("l08")
	w.untouched(manager, since, fleetClusters, "fleet-local", "local")
}

func localBack(w *world, _ time.Time) {
	w.sees("Rancher goes on", "2", func() string { return w.label("fleet-local", "local", "seen") })
	w.by(rancher.User, w.started, "metadata.labels.seen", fleetClusters, "fleet-local", "local")
}
