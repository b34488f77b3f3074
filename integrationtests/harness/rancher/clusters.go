package rancher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/util/rand"
)

// Annotations between the two cluster kinds.
const (
	annotationDisplayName = "provisioning.cattle.io/management-cluster-display-name"
	annotationForcedName  = "provisioning.cattle.io/management-cluster-name"
	annotationForcedSpace = "provisioning.cattle.io/fleet-workspace-name"
)

// provisioning generates the provisioning Cluster of a legacy management Cluster.
func (s *session) provisioning(m *object) (*object, error) {
	workspace := text(m, "spec", "fleetWorkspaceName")
	if !legacy(m.GetName()) || workspace == "" && !external(m) {
		return nil, s.put("provisioning-cluster-create", m, madeOfManagement)
	}
	p := blank(ProvClusters, workspace, m.GetName())
	p.SetLabels(clean(m.GetLabels()))
	annotations := clean(m.GetAnnotations())
	annotations[annotationDisplayName] = text(m, "spec", "displayName")
	p.SetAnnotations(annotations)
	spec := customizations(m)
	if webhook := field(m, "spec", "webhookDeploymentCustomization"); webhook != nil { // rancher-differences.md, C 11
		spec["webhookDeploymentCustomization"] = webhook
	}
	set(p, spec, "spec")
	return nil, s.put("provisioning-cluster-create", m, madeOfManagement, p)
}

// customizations are those of both agents, with the parts that Rancher copies.
func customizations(from *object) map[string]any {
	spec := map[string]any{}
	for _, name := range []string{"clusterAgentDeploymentCustomization", "fleetAgentDeploymentCustomization"} {
		whole, ok := field(from, "spec", name).(map[string]any)
		if !ok {
			continue
		}
		part := map[string]any{}
		for _, key := range []string{"appendTolerations", "overrideAffinity", "overrideResourceRequirements", "schedulingCustomization"} {
			if v := whole[key]; v != nil {
				part[key] = v
			}
		}
		spec[name] = part
	}
	return spec
}

// displayName keeps the display name of a provisioning Cluster that came first.
func (s *session) displayName(p *object) (*object, error) {
	annotations := p.GetAnnotations()
	if legacy(p.GetName()) || annotations[annotationDisplayName] == p.GetName() {
		return nil, nil
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationDisplayName] = p.GetName()
	p.SetAnnotations(annotations)
	return s.update(ProvClusters, p)
}

// cluster generates the management Cluster of a provisioning Cluster that came
// first, and brings the status of any provisioning Cluster up to date.
func (s *session) cluster(p *object) (*object, error) {
	if legacy(p.GetName()) {
		m := s.cached(Clusters, p.GetName())
		if m == nil {
			return nil, fmt.Errorf("management Cluster %q is not there", p.GetName())
		}
		return s.status(p, m, "")
	}
	name, known := managementName(p)
	live, m, since := s.find(Clusters, "", name), s.generated(p, name), ""
	if live != nil {
		if since = live.GetResourceVersion(); known && field(p, "spec", "rkeConfig") == nil {
			m = reduced(live) // from now on the management Cluster goes first
		}
		if workspace := cmp.Or(s.forced(p), text(live, "spec", "fleetWorkspaceName")); workspace != "" {
			set(m, workspace, "spec", "fleetWorkspaceName")
		}
	}
	return s.status(p, m, since, m)
}

// managementName is the name of the management Cluster of a provisioning Cluster,
// and whether that has it in its status.
func managementName(p *object) (string, bool) {
	if name := text(p, "status", "clusterName"); name != "" {
		return name, true
	}
	return cmp.Or(p.GetAnnotations()[annotationForcedName], "c-m-"+rand.String(8)), false
}

// forced is the workspace that a provisioning Cluster has its management Cluster in,
// whatever that says; "" if that may say it.
func (s *session) forced(p *object) string {
	switch forced := p.GetAnnotations()[annotationForcedSpace]; {
	case s.on[featureBackPopulation]:
		return forced
	case field(p, "spec", "rkeConfig") != nil:
		return p.GetNamespace()
	}
	return ""
}

// reduced is a management Cluster without what Rancher's sets do not apply.
func reduced(m *object) *object {
	out := blank(Clusters, "", m.GetName())
	out.SetLabels(m.GetLabels())
	out.SetAnnotations(m.GetAnnotations())
	spec, _ := field(m, "spec").(map[string]any)
	delete(spec, "localClusterAuthEndpoint")
	set(out, spec, "spec")
	return out
}

// generated is the management Cluster of a provisioning Cluster.
func (s *session) generated(p *object, name string) *object {
	m := blank(Clusters, "", name)
	m.SetLabels(p.GetLabels())
	annotations := map[string]string{"provisioning.cattle.io/administrated": strconv.FormatBool(field(p, "spec", "rkeConfig") != nil)}
	maps.Copy(annotations, p.GetAnnotations())
	m.SetAnnotations(annotations)
	spec := customizations(p)
	spec["displayName"], spec["description"] = p.GetName(), p.GetAnnotations()["field.cattle.io/description"]
	spec["internal"], spec["importedConfig"] = false, map[string]any{}
	if env := field(p, "spec", "agentEnvVars"); env != nil {
		spec["agentEnvVars"] = env
	}
	spec["fleetWorkspaceName"] = cmp.Or(s.forced(p), p.GetNamespace())
	set(m, spec, "spec")
	return m
}

// status generates objs and the binding of the technical user, and then writes the
// status of a provisioning Cluster. It changes nothing of a management Cluster that is
// not at version since any more: a user may be moving it.
func (s *session) status(p, m *object, since string, objs ...*object) (*object, error) {
	before, _ := field(p, "status").(map[string]any)
	status, _ := field(p, "status").(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	live := s.cached(Clusters, m.GetName())
	if live != nil {
		status["conditions"] = conditionsOf(p, live)
		status["agentDeployed"] = conditionOf(live, "AgentDeployed") == "True"
	}
	ready := status["ready"] == true || live != nil && conditionOf(live, "Connected") == "True" // never false again (rancher-differences.md, C 14)
	status["ready"], status["clusterName"] = ready, m.GetName()
	status["observedGeneration"] = p.GetGeneration()
	if ready {
		secret, err := s.kubeconfig(p, m.GetName())
		if err != nil {
			return nil, err
		}
		status["clientSecretName"] = secret
		objs = append(objs, s.owner(p, m.GetName()))
	}
	status["fleetWorkspaceName"] = text(m, "spec", "fleetWorkspaceName")
	if err := s.putSince(since, "cluster-create", p, madeOfProvision, objs...); err != nil {
		return nil, err
	}
	if same(before, status) {
		return nil, nil
	}
	p.Object["status"] = status
	return s.updateStatus(ProvClusters, p)
}

// same compares as JSON does.
func same(a, b map[string]any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && reflect.DeepEqual(x, y)
}

// conditionsOf are those of a provisioning Cluster: its own, and most of its
// management Cluster's.
func conditionsOf(p, m *object) []any {
	own, _ := field(p, "status", "conditions").([]any)
	theirs, _ := field(m, "status", "conditions").([]any)
	for _, one := range theirs {
		c, _ := one.(map[string]any)
		switch c["type"] {
		case "Updated", "Provisioned", "Removed":
			continue
		case "Ready":
			if field(p, "spec", "rkeConfig") != nil {
				continue
			}
		}
		own = replaced(own, c)
	}
	return own
}

// replaced is a list of conditions with one of them changed, or added.
func replaced(list []any, c map[string]any) []any {
	for i, one := range list {
		if o, _ := one.(map[string]any); o["type"] == c["type"] {
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// owner returns the binding that gives the technical user of a cluster its
// rights there.
func (s *session) owner(p *object, cluster string) *object {
	user := technicalUser(p.GetNamespace(), p.GetName())
	if s.on[featureMCM] {
		b := blank(ClusterRoleTemplateBindings, cluster, cluster+"-"+p.GetNamespace()+"-owner")
		for name, value := range map[string]string{
			"clusterName": cluster, "userName": user, "userPrincipalName": principal(p.GetNamespace(), p.GetName()), "roleTemplateName": "cluster-owner",
		} {
			set(b, value, name)
		}
		return b
	}
	b := blank(ClusterRoleBindings, "", "fleet-local-cluster-admin")
	set(b, []any{map[string]any{"kind": "User", "apiGroup": ClusterRoles.Group, "name": user}}, "subjects")
	set(b, map[string]any{"kind": "ClusterRole", "apiGroup": ClusterRoles.Group, "name": "cluster-admin"}, "roleRef")
	return b
}

// backing makes the namespace that a management Cluster stands for.
func (s *session) backing(m *object) (*object, error) {
	if s.cached(Namespaces, m.GetName()) != nil {
		return nil, nil
	}
	ns := blank(Namespaces, "", m.GetName())
	ns.SetAnnotations(map[string]string{"management.cattle.io/system-namespace": "true"})
	return nil, s.make(Namespaces, ns)
}

// registrationToken makes the token by which a cluster registers with Rancher.
func (s *session) registrationToken(m *object) (*object, error) {
	token := blank(RegistrationTokens, m.GetName(), "default-token")
	set(token, map[string]any{"clusterName": m.GetName()}, "spec")
	return nil, s.make(RegistrationTokens, token)
}
