package pods

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/node"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// team is the workspace that a cluster moves to.
const team = "team-a"

// rancherValues are the values that Rancher sets in the chart fleet.
func rancherValues(s *site) map[string]any {
	return map[string]any{
		"apiServerURL": s.cluster.URL(), "apiServerCA": string(s.cluster.CA()), "agentTLSMode": "strict",
		"bootstrap": map[string]any{"enabled": false, "agentNamespace": fleet.NamespaceLocalAgent},
		"gitops":    map[string]any{"enabled": true},
		"global":    map[string]any{"cattle": map[string]any{"systemDefaultRegistry": ""}},
		"proxy":     "", "noProxy": "",
	}
}

// Rancher is installed where Fleet is already. It upgrades the charts in place, with
// its values, and its own records of its cluster take the place of those that the
// manager made. The Cluster is the same one, and nothing is started again but the
// manager.
func (w *world) rancherComes() {
	was, gone := get[*fleet.Cluster](w, w.local, fleet.NamespaceLocal, fleet.ClusterLocal)
	if gone != "" {
		w.Fatal(gone)
	}
	workloads, agents := w.allLives(), w.agentLives()
	kinds := time.Now() // from now on the manager sees Rancher's kinds
	w.rancher = rancher.NewAt(w.root, harness.ConnectHub(w.root, w.local.cluster), node.WireAddress)
	began := time.Now()
	w.rancher.Start(w.root)
	w.upgradeWith(w.local, "fleet-crd", nil, true)
	w.upgradeWith(w.local, "fleet", rancherValues(w.local), true)
	w.local.withoutRoles = period{kinds, time.Now()}
	w.until("the manager runs with Rancher's values", func(context.Context) string {
		return w.running(w.local, fleet.NamespaceSystem, after, "fleet-controller", "gitjob", "helmops")
	})
	w.imported(fleet.NamespaceLocal, fleet.ClusterLocal, corev1.ConditionTrue)
	w.allCheckIn(time.Now(), after)
	w.ready(fleet.NamespaceLocal, fleet.ClusterLocal, 2)
	w.Logf("NUMBER Rancher has taken the local cluster over after %s", w.since(began))

	now, gone := get[*fleet.Cluster](w, w.local, fleet.NamespaceLocal, fleet.ClusterLocal)
	switch {
	case gone != "":
		w.Error(gone)
	case now.UID != was.UID || now.Spec.KubeConfigSecret != "local-kubeconfig" || now.Spec.AgentNamespace != fleet.NamespaceLocalAgent:
		w.Errorf("Cluster local was %s and is %s: %+v", was.UID, now.UID, now.Spec)
	}
	if diff := cmp.Diff([]string{"fleet-agent"}, apps(w.pods(w.local, fleet.NamespaceLocalAgent))); diff != "" {
		w.Error("the local agent: " + diff)
	}
	w.unharmed("workloads", workloads, w.allLives())
	w.unharmed("agents", agents, w.agentLives())
}

// apps are the labels app of pods.
func apps(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Labels["app"])
	}
	return slices.Sorted(slices.Values(out))
}

// imported returns when a Cluster has Rancher's kubeconfig, and its condition Imported
// has a status and a message that holds words.
func (w *world) imported(workspace, name string, want corev1.ConditionStatus, words ...string) {
	w.Helper()
	w.until("Cluster "+name+" is Imported="+string(want), func(context.Context) string {
		c, gone := get[*fleet.Cluster](w, w.local, workspace, name)
		if gone != "" {
			return gone
		}
		says := condition.Find(c.Status.Conditions, fleet.ConditionImported)
		if says == nil || says.Status != want || !holds(says.Message, words) || c.Spec.KubeConfigSecret != name+"-kubeconfig" ||
			c.Labels["management.cattle.io/cluster-name"] == "" {
			return c.Spec.KubeConfigSecret + ": " + text(says)
		}
		return ""
	})
}

// westID is west's management Cluster.
const westID = "c-m-00000001"

// wishes are the settings of an administrator of Rancher for an agent.
const wishes = `{
	"overrideAffinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
		{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["linux"]}]}]}}},
	"appendTolerations":[{"key":"edge","operator":"Exists"}],
	"overrideResourceRequirements":{"requests":{"memory":"32Mi"},"limits":{"memory":"512Mi"}},
	"schedulingCustomization":{"priorityClass":{"value":1000},"podDisruptionBudget":{"maxUnavailable":"1"}}}`

// A cluster that was Fleet's own is imported into Rancher under the same name, and
// moved to another workspace there. What both workspaces deploy (A) goes on, as the
// same process; what the new one does not deploy is removed (B), or stays where it is
// to be kept (C).
func (w *world) moveImported() {
	shop, west, began := w.lives(w.west, "shop"), w.west.known, time.Now()
	w.rancher.Attach(w, westID, w.west.cluster.REST())
	w.rancher.Provision(w, fleet.NamespaceDefault, west, `{"metadata":{"annotations":{"provisioning.cattle.io/management-cluster-name":"`+westID+`"}},
		"spec":{"fleetAgentDeploymentCustomization":`+wishes+`}}`)
	w.rancher.Ready(w, westID, true)
	w.imported(fleet.NamespaceDefault, west, corev1.ConditionTrue)
	w.agentPod("all wishes", "memory=512Mi edge=true required priority=1000 budget=1")
	w.checksIn(w.local, fleet.NamespaceDefault, west, time.Now(), after)
	w.Logf("NUMBER imported into Rancher, with wishes -> agent checked in: %s", w.since(began))
	for _, folder := range []string{"only", "kept"} {
		w.repo(fleet.NamespaceDefault, folder, fleet.GitTarget{ClusterName: west}, folder == "kept")
		w.webRuns(w.west, folder)
	}
	w.ready(fleet.NamespaceDefault, west, 4)
	w.unharmed("the workload of a cluster that Rancher has imported", shop, w.lives(w.west, "shop"))

	w.rancher.Put(w, rancher.Workspaces, "", team, `{}`)
	w.until("the workspace has its namespace", func(context.Context) string {
		_, gone := get[*corev1.Namespace](w, w.local, "", team)
		return gone
	})
	w.repo(team, "shop", fleet.GitTarget{ClusterSelector: &metav1.LabelSelector{}}, false)
	w.until("the workspace has its Bundle", func(context.Context) string {
		_, gone := get[*fleet.Bundle](w, w.local, team, "shop-shop")
		return gone
	})
	change(w, w.local, fleet.NamespaceDefault, west, func(c *fleet.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations["fleet.cattle.io/move-grace"] = "0s"
	})
	lives := slices.Concat(shop, w.lives(w.west, "kept"), w.lives(w.west, fleet.NamespaceSystem))
	began = time.Now()
	w.rancher.Patch(w, rancher.Clusters, "", westID, `{"spec":{"fleetWorkspaceName":"`+team+`"}}`)
	w.west.workspace = team
	w.checksIn(w.local, team, w.west.known, began, after)
	w.Logf("NUMBER moved to another workspace -> agent checked in there: %s", w.since(began))
	w.until("what the new workspace does not deploy is gone", func(context.Context) string {
		return w.running(w.west, "only", "")
	})
	w.gone(fleet.NamespaceDefault, west)
	w.ready(team, west, 2)
	w.Logf("NUMBER moved to another workspace -> nothing left of the old one: %s", w.since(began))
	w.unharmed("what both workspaces deploy, what is to be kept, and the agent", lives,
		slices.Concat(w.lives(w.west, "shop"), w.lives(w.west, "kept"), w.lives(w.west, fleet.NamespaceSystem)))
}

// gone returns when there is no Cluster of a name, and no namespace for it.
func (w *world) gone(workspace, name string) {
	w.Helper()
	prefix := "cluster-" + workspace + "-" + name + "-"
	w.until("nothing is left of Cluster "+workspace+"/"+name, func(ctx context.Context) string {
		if c, gone := get[*fleet.Cluster](w, w.local, workspace, name); gone == "" {
			return text(c.Status.Conditions)
		}
		list, err := w.local.core.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, n := range list.Items {
			if strings.HasPrefix(n.Name, prefix) {
				return "namespace " + n.Name
			}
		}
		return ""
	})
}

// What Rancher's administrator asks for an agent is what its pod gets, and it goes
// again when he takes it back.
func (w *world) customize() {
	reported := func(inBoth, inManagement string) {
		w.Helper()
		w.rancher.Patch(w, rancher.ProvClusters, fleet.NamespaceDefault, w.west.known, `{"spec":{"fleetAgentDeploymentCustomization":{`+inBoth+`}}}`)
		w.rancher.Patch(w, rancher.Clusters, "", westID, `{"spec":{"fleetAgentDeploymentCustomization":{`+inBoth+inManagement+`}}}`)
	}
	began := time.Now()
	reported(`"schedulingCustomization":{"priorityClass":{"value":2000},"podDisruptionBudget":null}`,
		`,"overrideAffinity":null,"appendTolerations":null,"overrideResourceRequirements":null`)
	w.agentPod("another priority, and nothing else", "memory=2Gi edge=false preferred priority=2000 budget=0")
	w.checksIn(w.local, team, w.west.known, time.Now(), after)
	w.Logf("NUMBER settings changed in Rancher -> another agent runs and has checked in: %s", w.since(began))
	reported(`"schedulingCustomization":null`, "")
	w.agentPod("as all agents are", "memory=2Gi edge=false preferred priority=0 budget=0")
	w.checksIn(w.local, team, w.west.known, time.Now(), after)
	w.until("no priority class is left", func(ctx context.Context) string {
		classes, err := w.west.core.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range classes.Items {
			if strings.Contains(c.Name, "fleet") {
				return c.Name
			}
		}
		return ""
	})
	w.ready(team, w.west.known, 2)
}

// agentPod returns when the one pod of west's agent runs, and is as it should be.
func (w *world) agentPod(what, want string) {
	w.Helper()
	w.until("west's agent: "+what, func(ctx context.Context) string {
		if why := w.running(w.west, fleet.NamespaceSystem, after, "fleet-agent"); why != "" {
			return why
		}
		pods, err := w.west.pods(ctx, fleet.NamespaceSystem)
		if err != nil || len(pods) != 1 {
			return fmt.Sprintf("%d pods, %v", len(pods), err)
		}
		pod := pods[0]
		memory := pod.Spec.Containers[0].Resources.Limits.Memory().String()
		edge := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "edge" })
		affinity := "preferred"
		if a := pod.Spec.Affinity; a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			affinity = "required"
		}
		budgets, err := w.west.core.PolicyV1().PodDisruptionBudgets(fleet.NamespaceSystem).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		have := fmt.Sprintf("memory=%s edge=%t %s priority=%d budget=%d", memory, edge, affinity, *pod.Spec.Priority, len(budgets.Items))
		if have != want || len(pod.Spec.Containers) != 1 {
			return have
		}
		return ""
	})
}

// The authority of the API server's certificate changes in the manager's settings.
// With a wrong one both sides report it and all agents go on; with the right one
// the imported cluster's agent registers once more, and no other agent does.
func (w *world) authorityChanges() {
	foreign, err := pki.NewAuthority("stranger")
	w.must(err)
	w.until("west's agent has come to rest after its settings", func(context.Context) string {
		for _, p := range w.pods(w.west, fleet.NamespaceSystem) {
			if age := time.Since(p.CreationTimestamp.Time); age < 20*time.Second {
				return fmt.Sprintf("pod %s is %s old", p.Name, age)
			}
		}
		return ""
	})
	lives := slices.Concat(w.allLives(), w.agentLives())
	w.upgrade(w.local, "fleet", map[string]any{"apiServerCA": string(foreign.Cert)})
	w.said(w.local, team, "WrongCertificateAuthority", "agents do not trust the certificate at "+w.local.cluster.URL(), "set apiServerCA to the authority that signed it")
	w.said(w.west, fleet.NamespaceSystem, "certificate", "apiServerCA", "does not vouch for")
	w.allCheckIn(time.Now(), after)

	began := time.Now()
	fresh := w.registersAgain(w.local, func() {
		w.upgrade(w.local, "fleet", map[string]any{"apiServerCA": string(w.local.cluster.CA()) + string(foreign.Cert)})
	})
	w.imported(team, w.west.known, corev1.ConditionTrue)
	w.allCheckIn(time.Now(), after)
	w.Logf("NUMBER right authority set -> registered again and checked in: %s", w.since(began))
	if all := fresh(); len(all) != 1 || !strings.HasPrefix(all[0], team+"/") {
		w.Errorf("registrations since the authority is the right one: %v", all)
	}
	w.unharmed("workloads and agents", lives, slices.Concat(w.allLives(), w.agentLives()))
}

// registersAgain does something, returns when an agent of a manager's has registered
// since, and gives what lists those that have.
func (w *world) registersAgain(manager *site, do func()) (fresh func() []string) {
	w.Helper()
	before := w.registrations(manager)
	fresh = func() []string {
		return slices.DeleteFunc(w.registrations(manager), func(r string) bool { return slices.Contains(before, r) })
	}
	do()
	w.until("an agent of "+manager.name+"'s manager has registered again", func(context.Context) string {
		if len(fresh()) == 0 {
			return "no registration"
		}
		return ""
	})
	return fresh
}

// registrations are those of all clusters of a manager, each with its UID.
func (w *world) registrations(manager *site) []string {
	w.Helper()
	list, err := kube.StoreOf[*fleet.ClusterRegistration](manager.client).List(w.Context(), "", "")
	w.must(err)
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s/%s %s", r.Namespace, r.Name, r.UID))
	}
	return out
}

// Rancher is removed, and the chart is set to manage its own cluster again. What is
// committed then reaches all clusters, also those that Rancher had imported.
func (w *world) rancherGoes() {
	was, gone := get[*fleet.Cluster](w, w.local, fleet.NamespaceLocal, fleet.ClusterLocal)
	if gone != "" {
		w.Fatal(gone)
	}
	workloads := w.allLives()
	w.rancher.Uninstall(w)
	began := time.Now()
	w.upgrade(w.local, "fleet", map[string]any{"bootstrap": map[string]any{"enabled": true}})
	w.publish("farewell")
	for _, s := range w.sites() {
		w.greets(s, "farewell")
	}
	w.allCheckIn(began, after)
	if now, gone := get[*fleet.Cluster](w, w.local, fleet.NamespaceLocal, fleet.ClusterLocal); gone != "" || now.UID != was.UID {
		w.Errorf("Cluster local was %s and is another one: %s", was.UID, gone)
	}
	w.unharmed("workloads", workloads, w.allLives())
}
