package rancher

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FleetLocal is the workspace of the local cluster.
const FleetLocal = "fleet-local"

// startup makes what Rancher has at every start: settings, features, with the feature fleet
// its kinds and the workspace of the local cluster (rancher-differences.md, B 8), the base
// roles, and the records of the cluster that it runs in.
func (s *session) startup(t testing.TB) error {
	for name, preset := range map[string]string{
		"server-url": s.proxy.url(), "cacerts": s.proxy.ca(), "internal-server-url": s.proxy.url(), "internal-cacerts": s.proxy.ca(),
		settingWorkspace: "fleet-default", settingRegistry: "", settingAffinity: defaultAffinity, settingPullSecrets: "", "agent-tls-mode": "strict",
		settingPriorityClass: `{"value":999999999,"preemptionPolicy":"PreemptLowerPriority"}`, // rancher-differences.md, D
		settingBudget:        `{"minAvailable":"1","maxUnavailable":"0"}`,
	} {
		setting := blank(Settings, "", name)
		set(setting, "", "value")
		set(setting, preset, "default")
		if err := s.make(Settings, setting); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	if err := s.features(); err != nil {
		return err
	}
	if err := s.roles(); err != nil {
		return err
	}
	if s.on[featureFleet] {
		Install(t, s.Hub)
		ns := blank(Namespaces, "", FleetLocal)
		ns.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "rancher"})
		if err := s.make(Namespaces, ns); err != nil {
			return err
		}
	}
	if !s.Local {
		return nil
	}
	m := blank(Clusters, "", local)
	set(m, map[string]any{"displayName": local, "internal": true, "fleetWorkspaceName": FleetLocal, "importedConfig": map[string]any{}}, "spec")
	ready := map[string]any{"type": "Ready", "status": "True"}
	if err := s.make(Clusters, m); err != nil {
		return err
	}
	made, err := s.objects.Resource(Clusters).Get(s.ctx, local, metav1.GetOptions{})
	if err != nil || field(made, "status") != nil {
		return err
	}
	set(made, map[string]any{"driver": "imported", "conditions": []any{ready, map[string]any{"type": "Connected", "status": "True"}}}, "status")
	_, err = s.updateStatus(Clusters, made)
	return err
}

// Settings that the rules read.
const (
	settingWorkspace = "fleet-default-workspace-name"
	settingRegistry  = "system-default-registry"
	settingAffinity  = "fleet-agent-default-affinity"
	// rancher-differences.md, A 3
	settingPullSecrets = "system-default-registry-pull-secrets"
)

// defaultAffinity is what agents get where no user has set an affinity.
const defaultAffinity = `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":` +
	`[{"key":"fleet.cattle.io/agent","operator":"In","values":["true"]}]}}]}}`

// features makes those that are not there, and reads all.
func (s *session) features() error {
	s.on = map[string]bool{}
	for name, preset := range map[string]bool{featureFleet: true, featureMCM: true, featureBackPopulation: true, featureScheduling: false} {
		f := blank(Features, "", name)
		set(f, map[string]any{"value": nil}, "spec")
		set(f, map[string]any{"default": preset, "dynamic": false, "description": ""}, "status")
		if err := s.make(Features, f); err != nil {
			return fmt.Errorf("feature %s: %w", name, err)
		}
		found, err := s.objects.Resource(Features).Get(s.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.on[name] = truth(found, "status", "default")
		for _, path := range [][]string{{"spec", "value"}, {"status", "lockedValue"}} {
			if v, ok, err := unstructured.NestedBool(found.Object, path...); ok && err == nil {
				s.on[name] = v
			}
		}
	}
	return nil
}

// roles makes the base roles of workspaces; without the feature fleet it deletes them
// (rancher-differences.md, C 15).
func (s *session) roles() error {
	tied := "clusterregistrationtokens gitreporestrictions clusterregistrations clusters clustergroups"
	for name, verbs := range map[string][2]string{ // on what ties clusters, and on what is deployed
		"fleetworkspace-admin": {"*", "*"}, "fleetworkspace-member": {"get list watch", "*"}, "fleetworkspace-readonly": {"get list watch", "get list watch"},
	} {
		rules := []any{grant("fleet.cattle.io", tied, verbs[0]), grant("fleet.cattle.io", "gitrepos bundles", verbs[1])}
		if name == "fleetworkspace-admin" {
			rules = append(rules, grant("rbac.authorization.k8s.io", "rolebindings", "*"))
		}
		if !s.on[featureFleet] {
			if err := s.delete(ClusterRoles, "", name); err != nil {
				return fmt.Errorf("role %s: %w", name, err)
			}
			continue
		}
		role := blank(ClusterRoles, "", name)
		role.SetLabels(map[string]string{"management.cattle.io/ui-product": "fleet"})
		set(role, rules, "rules")
		if err := s.make(ClusterRoles, role); err != nil {
			return fmt.Errorf("role %s: %w", name, err)
		}
	}
	return nil
}

// grant is a rule of a role; words are separated by spaces.
func grant(group, resources, verbs string) map[string]any {
	return map[string]any{"apiGroups": []any{group}, "resources": words(resources), "verbs": words(verbs)}
}

func words(list string) []any {
	var out []any
	for _, w := range strings.Fields(list) {
		out = append(out, w)
	}
	return out
}

// setting is the effective value of a setting.
func (s *session) setting(name string) string {
	found := s.cached(Settings, name)
	if found == nil {
		return ""
	}
	if v := text(found, "value"); v != "" {
		return v
	}
	return text(found, "default")
}
