package rancher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rancher/wrangler/v3/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

var legacyName = regexp.MustCompile(`^(c-[a-z0-9]{5}|local)$`)

// legacy reports whether the management Cluster comes first.
func legacy(name string) bool { return legacyName.MatchString(name) }

// assign gives a management Cluster without a workspace one, by an update.
func (s *session) assign(m *object) (*object, error) {
	workspace := s.setting(settingWorkspace)
	if truth(m, "spec", "internal") {
		workspace = FleetLocal
	}
	if workspace == "" || text(m, "spec", "fleetWorkspaceName") != "" || !truth(m, "spec", "internal") && external(m) {
		return nil, nil
	}
	set(m, workspace, "spec", "fleetWorkspaceName")
	return s.update(Clusters, m)
}

// external reports whether another controller makes the Fleet Cluster.
func external(m *object) bool {
	v := m.GetAnnotations()["provisioning.cattle.io/externally-managed"]
	return v != "" && !strings.EqualFold(v, "false")
}

// fleetCluster generates the Fleet Cluster of a provisioning Cluster.
func (s *session) fleetCluster(p *object) (*object, error) {
	name, secret := text(p, "status", "clusterName"), text(p, "status", "clientSecretName")
	if name == "" || secret == "" {
		return nil, s.put("fleet-cluster", p, madeOfClusters)
	}
	m := s.cached(Clusters, name)
	switch {
	case m == nil:
		return nil, fmt.Errorf("management Cluster %q is not there", name)
	case conditionOf(m, "Ready") != "True":
		return nil, errSkip
	case text(m, "spec", "fleetWorkspaceName") == "":
		return nil, s.put("fleet-cluster", p, madeOfClusters)
	}
	c, err := s.mapped(p, m)
	if err != nil {
		return nil, err
	}
	objs := []*object{c}
	if truth(m, "spec", "internal") {
		s.addAPIServer(p.GetNamespace(), secret)
		group := blank(FleetGroups, p.GetNamespace(), "default")
		set(group, map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"name": local}}}, "spec")
		objs = append(objs, group)
	}
	return nil, s.put("fleet-cluster", p, madeOfClusters, objs...)
}

// mapped is the Fleet Cluster of a provisioning and its management Cluster.
func (s *session) mapped(p, m *object) (*object, error) {
	c := blank(FleetClusters, text(m, "spec", "fleetWorkspaceName"), p.GetName())
	labels := clean(m.GetLabels())
	labels["management.cattle.io/cluster-name"] = m.GetName()
	if display := text(m, "spec", "displayName"); len(validation.IsValidLabelValue(display)) == 0 {
		labels["management.cattle.io/cluster-display-name"] = display
	}
	custom := []string{"spec", "fleetAgentDeploymentCustomization"}
	spec := map[string]any{"kubeConfigSecret": text(p, "status", "clientSecretName"), "kubeConfigSecretNamespace": p.GetNamespace()}
	for name, value := range map[string]any{
		"agentEnvVars":   field(m, "spec", "agentEnvVars"),
		"agentResources": field(m, append(custom, "overrideResourceRequirements")...),
		"agentAffinity":  field(m, append(custom, "overrideAffinity")...),
	} {
		if value != nil {
			spec[name] = value
		}
	}
	if s, _ := field(p, scheduling...).(map[string]any); s["priorityClass"] != nil || s["podDisruptionBudget"] != nil { // rancher-differences.md, B 7
		spec["agentSchedulingCustomization"] = s
	}
	if preset := s.setting(settingAffinity); spec["agentAffinity"] == nil && preset != "" {
		var affinity map[string]any
		if err := json.Unmarshal([]byte(preset), &affinity); err != nil {
			return nil, err
		}
		spec["agentAffinity"] = affinity
	}
	if url := s.registry(p, m); url != "" {
		spec["privateRepoURL"] = url
	}
	tolerations, _ := field(m, append(custom, "appendTolerations")...).([]any)
	if truth(m, "spec", "internal") {
		labels["name"] = local
		spec["agentNamespace"] = "cattle-fleet-local-system"
		taints, err := s.taints()
		if err != nil {
			return nil, err
		}
		tolerations = append(tolerations, taints...)
	}
	if len(tolerations) > 0 {
		spec["agentTolerations"] = sorted(tolerations)
	}
	if secrets := s.pullSecrets(p, m); secrets != nil {
		spec["agentPullSecrets"] = secrets
	}
	c.SetLabels(labels)
	c.SetAnnotations(clean(m.GetAnnotations()))
	set(c, spec, "spec")
	return c, nil
}

// registry is where a cluster's images come from.
func (s *session) registry(p, m *object) string {
	const key = "system-default-registry"
	if field(p, "spec", "rkeConfig") == nil {
		return cmp.Or(text(m, "spec", "importedConfig", "privateRegistryURL"), s.setting(settingRegistry))
	}
	if url := text(p, "spec", "rkeConfig", "machineGlobalConfig", key); url != "" {
		return url
	}
	list, _ := field(p, "spec", "rkeConfig", "machineSelectorConfig").([]any)
	for _, one := range list {
		config, _ := one.(map[string]any)
		if url, _, _ := unstructured.NestedString(config, "config", key); url != "" && config["machineLabelSelector"] == nil {
			return url
		}
	}
	return s.setting(settingRegistry)
}

// pullSecrets are those of the agent; nil, which is null, where a registry has none
// (rancher-differences.md, A 3).
func (s *session) pullSecrets(p, m *object) any {
	if !legacy(m.GetName()) || s.registry(p, m) == "" {
		return []any{}
	}
	names := strings.Split(s.setting(settingPullSecrets), ",")
	if text(m, "spec", "importedConfig", "privateRegistryURL") != "" {
		names, _, _ = unstructured.NestedStringSlice(m.Object, "spec", "importedConfig", "privateRegistryPullSecrets")
	}
	var out []any
	for _, one := range names {
		switch one = strings.TrimSpace(one); {
		case one == "":
		case m.GetName() == local:
			out = append(out, map[string]any{"name": one})
		default:
			out = append(out, map[string]any{"name": name.SafeConcatName(one, "rancher-managed-pull-secret")})
		}
	}
	if out == nil {
		return nil
	}
	return out
}

// taints are tolerations of those of the control plane's nodes.
func (s *session) taints() ([]any, error) {
	for _, label := range []string{"node-role.kubernetes.io/control-plane=true", "node-role.kubernetes.io/controlplane=true"} {
		nodes, err := s.client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return nil, err
		}
		var out []any
		for _, n := range nodes.Items {
			for _, t := range n.Spec.Taints {
				one := map[string]any{"key": t.Key, "operator": "Equal", "effect": string(t.Effect)}
				if t.Value != "" {
					one["value"] = t.Value
				}
				if !slices.ContainsFunc(out, func(o any) bool { return reflect.DeepEqual(o, one) }) { // rancher-differences.md, B 10
					out = append(out, one)
				}
			}
		}
		if len(nodes.Items) > 0 {
			return out, nil
		}
	}
	return nil, nil
}

// sorted are tolerations in Rancher's order.
func sorted(list []any) []any {
	order := func(one any) string {
		t, _ := one.(map[string]any)
		return fmt.Sprintf("%v\x00%v\x00%v\x00%v\x00%v", t["key"], t["value"], t["operator"], t["effect"], t["tolerationSeconds"])
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(order(a), order(b)) })
	return list
}

// addAPIServer puts the local API server's own address into the kubeconfig Secret
// of the local cluster, if it is missing there.
func (s *session) addAPIServer(namespace, name string) {
	secret, err := s.client.CoreV1().Secrets(namespace).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		s.log("address of the local API server: %v", err)
		return
	}
	if string(secret.Data["apiServerURL"]) == s.Hub.Cluster.URL() {
		return
	}
	secret.Data["apiServerURL"], secret.Data["apiServerCA"] = []byte(s.Hub.Cluster.URL()), s.Hub.Cluster.CA()
	if _, err := s.client.CoreV1().Secrets(namespace).Update(s.ctx, secret, metav1.UpdateOptions{}); err != nil {
		s.log("address of the local API server: %v", err)
	}
}

// conditionOf is the status of a condition; "" where there is none.
func conditionOf(obj *object, kind string) string {
	list, _ := field(obj, "status", "conditions").([]any)
	for _, one := range list {
		if c, _ := one.(map[string]any); c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}
