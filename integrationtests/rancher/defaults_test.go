package rancher_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// cluster is a Fleet Cluster; nil where there is none.
func (w *world) cluster(namespace, name string) *fleet.Cluster {
	w.Helper()
	c, ok := harness.Read[*fleet.Cluster](w, w.hub, namespace, name)
	if !ok {
		return nil
	}
	return c
}

// Scenario 3: a display name that cannot be a label is none, and becomes one when
// it can.
func displayName(w *world) {
	long := strings.Repeat("n", 70)
	w.rancher.Triple(w, fleet.NamespaceDefault, "named", "c-m-named000", "")
	w.rancher.Triple(w, fleet.NamespaceDefault, "named-long", "c-m-named001", "")
	for cluster, name := range map[string]string{"c-m-named000": "a cluster", "c-m-named001": long} {
		w.rancher.Patch(w, rancher.Clusters, "", cluster, `{"spec":{"displayName":"`+name+`"}}`)
	}
	label := func(name string) (string, bool) {
		c := w.cluster(fleet.NamespaceDefault, name)
		if c == nil {
			return "", false
		}
		text, ok := c.Labels[fleet.LabelDisplayName]
		return text, !ok
	}
	for _, name := range []string{"named", "named-long"} {
		w.until("it is mapped without the label", func() bool { _, none := label(name); return none })
	}
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-named000", `{"spec":{"displayName":"a-cluster"}}`)
	w.until("a name that can be one becomes a label", func() bool { text, _ := label("named"); return text == "a-cluster" })
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-named000", `{"spec":{"displayName":"not, any more"}}`)
	w.until("and goes again", func() bool { _, none := label("named"); return none })
}

// Scenario 4: the workspace that the setting names is made; the one before stays.
// Without multi-cluster management there is none.
func defaultWorkspace(w *world) {
	set := func(value string) {
		w.rancher.Patch(w, rancher.Settings, "", plan.SettingDefaultWorkspace, `{"value":"`+value+`"}`)
	}
	w.rancher.Put(w, rancher.Settings, "", plan.SettingDefaultWorkspace, `{"value":"team-x","default":"fleet-default"}`)
	w.until("its namespace is there", func() bool { return w.there(rancher.Namespaces, "", "team-x") })
	w.rancher.Put(w, rancher.Clusters, "", "c-xxxxx", `{"spec":{"displayName":"x"}}`)
	workspaceOf := func() string {
		name, _, _ := unstructured.NestedString(w.rancher.Get(w, rancher.Clusters, "", "c-xxxxx").Object, "spec", "fleetWorkspaceName")
		return name
	}
	w.until("a new cluster gets it", func() bool { return workspaceOf() == "team-x" })
	w.rancher.Put(w, rancher.Features, "", plan.FeatureClusters, `{"spec":{"value":false},"status":{"default":true}}`)
	w.stop() // features and settings come on two ways
	w.start(plan.Auto)
	set("team-y")
	w.turns("turn-y")
	if w.there(rancher.Workspaces, "", "team-y") {
		w.Error("without multi-cluster management there are no others")
	}
	w.rancher.Patch(w, rancher.Features, "", plan.FeatureClusters, `{"spec":{"value":true}}`)
	w.until("with it there are", func() bool { return w.there(rancher.Namespaces, "", "team-y") })
	if !w.there(rancher.Workspaces, "", "team-x") || workspaceOf() != "team-x" {
		w.Error("the one before stays, with its clusters")
	}
	set("kube-public")
	w.until("the system is refused", func() bool { return w.event("Setting", plan.SettingDefaultWorkspace, plan.ReasonSetting) })
	set("")
	w.until("a namespace that was there is left alone", func() bool { return w.there(rancher.Workspaces, "", fleet.NamespaceDefault) })
	if ws := w.rancher.Get(w, rancher.Workspaces, "", fleet.NamespaceDefault); ws.GetAnnotations()[plan.AnnotationManaged] != "false" {
		w.Errorf("it would go with its workspace: %v", ws.Object)
	}
}

// The defaults of scheduling are filled in where a cluster asks for them, by a
// patch of these fields alone; Rancher's other defaults come with the mapping.
func schedulingDefaults(w *world) {
	w.rancher.Put(w, rancher.Settings, "", plan.SettingPriorityClass, `{"default":"{\"value\":999999999,\"preemptionPolicy\":\"PreemptLowerPriority\"}","value":""}`)
	w.rancher.Put(w, rancher.Settings, "", plan.SettingBudget, `{"default":"{\"minAvailable\":\"1\",\"maxUnavailable\":\"0\"}","value":""}`)
	w.rancher.Put(w, rancher.Settings, "", plan.SettingAffinity, `{"value":"{\"nodeAffinity\":{}}"}`)
	w.rancher.Put(w, rancher.Settings, "", plan.SettingRegistry, `{"value":"registry.example"}`)
	w.rancher.Put(w, rancher.Features, "", plan.FeatureScheduling, `{"status":{"default":false}}`)
	w.rancher.Triple(w, fleet.NamespaceDefault, "asks", "c-m-asks0000", "")
	asks := `{"metadata":{"annotations":{"` + plan.AnnotationScheduling + `":"true"}},"spec":{"kubernetesVersion":"v1","fleetAgentDeploymentCustomization":{"appendTolerations":[{"key":"mine"}],"overrideResourceRequirements":{"limits":{"cpu":"7"}}}}}`
	w.rancher.Patch(w, rancher.ProvClusters, fleet.NamespaceDefault, "asks", asks)
	w.rancher.Put(w, rancher.Clusters, "", "c-asks0", `{"spec":{"displayName":"asks"}}`) // legacy
	w.rancher.Patch(w, rancher.Clusters, "", "c-asks0", `{"metadata":{"annotations":{"`+plan.AnnotationScheduling+`":"true"}}}`)
	w.until("it is mapped, by the settings", func() bool { // which may come after the cluster
		c := w.cluster(fleet.NamespaceDefault, "asks")
		return c != nil && c.Spec.PrivateRepoURL == "registry.example" && c.Spec.AgentAffinity != nil && c.Spec.AgentAffinity.NodeAffinity != nil
	})
	if c := w.cluster(fleet.NamespaceDefault, "asks"); c.Spec.AgentSchedulingCustomization != nil {
		w.Errorf("with the feature off: %+v", c.Spec)
	}
	w.rancher.Patch(w, rancher.Features, "", plan.FeatureScheduling, `{"spec":{"value":true}}`)
	w.until("the agent's wishes are the defaults", func() bool {
		s := w.cluster(fleet.NamespaceDefault, "asks").Spec.AgentSchedulingCustomization
		return s != nil && s.PriorityClass.Value == 999999999 && s.PodDisruptionBudget.MinAvailable == "1"
	})
	p := w.rancher.Get(w, rancher.ProvClusters, fleet.NamespaceDefault, "asks")
	tolerations, _, _ := unstructured.NestedSlice(p.Object, "spec", "fleetAgentDeploymentCustomization", "appendTolerations")
	limit, _, _ := unstructured.NestedString(p.Object, "spec", "fleetAgentDeploymentCustomization", "overrideResourceRequirements", "limits", "cpu")
	version, _, _ := unstructured.NestedString(p.Object, "spec", "kubernetesVersion")
	if _, asked := p.GetAnnotations()[plan.AnnotationScheduling]; asked || len(tolerations) != 1 || limit != "7" || version != "v1" {
		w.Errorf("nothing else changes but that it asks: %s", text(p.Object))
	}
	legacy := func() (class, asked bool) {
		m := w.rancher.Get(w, rancher.Clusters, "", "c-asks0")
		_, class, _ = unstructured.NestedMap(m.Object, "spec", "fleetAgentDeploymentCustomization", "schedulingCustomization", "priorityClass")
		_, asked = m.GetAnnotations()[plan.AnnotationScheduling]
		return class, asked
	}
	w.until("a legacy cluster has them, too", func() bool { class, asked := legacy(); return class && !asked })

	w.rancher.Patch(w, rancher.ProvClusters, fleet.NamespaceDefault, "asks", `{"metadata":{"annotations":{"`+plan.AnnotationScheduling+`":"false"}}}`)
	w.until("who wants none has none", func() bool {
		return w.cluster(fleet.NamespaceDefault, "asks").Spec.AgentSchedulingCustomization == nil
	})
	w.rancher.Patch(w, rancher.Settings, "", plan.SettingRegistry, `{"value":"elsewhere.example"}`)
	w.until("another registry comes through", func() bool {
		return w.cluster(fleet.NamespaceDefault, "asks").Spec.PrivateRepoURL == "elsewhere.example"
	})
}

// A manager that may not read Rancher's settings reports that and gives agents
// nothing; with the right it goes on.
func settingsRefused(w *world) {
	const reads = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: follower}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}
- {apiGroups: [management.cattle.io], resources: [RESOURCE], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: follower}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: follower}
subjects: [{kind: ServiceAccount, namespace: cattle-fleet-system, name: follower}]
`
	w.rancher.Put(w, rancher.Settings, "", plan.SettingServerURL, `{"value":"https://rancher.example"}`)
	account := w.hub.Account(w, fleet.NamespaceSystem, "follower")
	w.hub.Grant(w, strings.Replace(reads, "RESOURCE", "features", 1))
	client, err := kube.Connect(kube.Config{REST: account, UserAgent: "fleet-follower/test", FieldManager: "test"})
	w.must(err)
	log, said := logtest.NewNullLogger()
	reported, since := make(chan registration.Settings, 1), time.Now()
	w.run(func(ctx context.Context) error {
		return workspace.Follower{Client: client, Log: logrus.NewEntry(log)}.Follow(ctx, chart(), func(ctx context.Context, s registration.Settings) error {
			reported <- s
			<-ctx.Done()
			return nil
		})
	})
	w.until("it says that it may not", func() bool {
		return slices.ContainsFunc(said.AllEntries(), func(e *logrus.Entry) bool {
			err, _ := e.Data[logrus.ErrorKey].(error)
			return e.Level == logrus.WarnLevel && strings.Contains(e.Message, "Rancher's settings cannot be read") && kube.IsForbidden(err)
		})
	})
	select {
	case s := <-reported:
		w.Errorf("agents get %q", s.APIServerURL)
	default:
	}
	refused := func() (n int) {
		list, err := w.hub.Requests(since)
		w.must(err)
		for _, r := range list {
			if strings.HasPrefix(r.Agent, "fleet-follower") && r.Code == http.StatusForbidden {
				n++
			}
		}
		return n
	}
	w.until("it has tried again", func() bool { return refused() > 1 })
	if n := len(said.AllEntries()); n != 1 {
		w.Errorf("it says so %d times", n)
	}
	w.hub.Grant(w, strings.Replace(reads, "RESOURCE", "settings", 1))
	w.until("agents have it", func() bool {
		select {
		case s := <-reported:
			if s.APIServerURL != "https://rancher.example" {
				w.Errorf("agents get %q", s.APIServerURL)
			}
			return true
		default:
			return false
		}
	})
}
