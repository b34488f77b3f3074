package workspace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonSetting is the reason of a setting of Rancher that cannot be read.
const ReasonSetting = "InvalidSetting"

// pullSecret is the end of the name of the Secret that Rancher keeps downstream for
// a private registry.
const pullSecret = "rancher-managed-pull-secret"

var legacy = regexp.MustCompile(`^(c-[a-z0-9]{5}|local)$`)

// Legacy reports, by the name of a management Cluster, whether it comes first and its
// provisioning Cluster is made from it. That is so for clusters that were imported or are
// hosted, and for the local one. For all others the provisioning Cluster comes first.
func Legacy(managementName string) bool { return legacy.MatchString(managementName) }

// ExternallyManaged reports whether another program makes the Fleet Cluster.
func ExternallyManaged(m *management.Cluster) bool {
	v := m.Annotations[AnnotationExternallyManaged]
	return v != "" && !strings.EqualFold(v, "false")
}

// Assign returns the workspace that a management Cluster without one is to have; false
// where nothing is to be written. preset is the effective value of the setting
// SettingDefaultWorkspace; empty: new clusters get none.
func Assign(m *management.Cluster, preset string) (workspace string, ok bool) {
	switch {
	case m.Spec.FleetWorkspaceName != "":
		return "", false
	case m.Spec.Internal:
		return fleet.NamespaceLocal, true
	case ExternallyManaged(m) || preset == "":
		return "", false
	}
	return preset, true
}

// homeless is the namespace of provisioning Clusters whose management Clusters have
// no workspace, as Rancher's own engine of sets has it.
const homeless = "default"

// ProvisioningFor returns what the provisioning Cluster of a legacy management Cluster is to
// say; nil where there is to be none. A management Cluster that is managed externally has
// one even without a workspace.
func ProvisioningFor(m *management.Cluster) *provisioning.Cluster {
	if !Legacy(m.Name) || m.Spec.FleetWorkspaceName == "" && !ExternallyManaged(m) {
		return nil
	}
	annotations := naming.UserKeys(m.Annotations)
	annotations[AnnotationDisplayName] = m.Spec.DisplayName
	annotations[AnnotationMappedFrom] = m.Name
	return &provisioning.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cmp.Or(m.Spec.FleetWorkspaceName, homeless), Name: m.Name,
			Labels: naming.UserKeys(m.Labels), Annotations: annotations,
		},
		Spec: provisioning.ClusterSpec{
			ClusterAgentDeploymentCustomization: m.Spec.ClusterAgentDeploymentCustomization,
			FleetAgentDeploymentCustomization:   m.Spec.FleetAgentDeploymentCustomization,
			WebhookDeploymentCustomization:      m.Spec.WebhookDeploymentCustomization,
		},
	}
}

// WithoutMappedFields returns the provisioning Cluster live without what is mapped to its spec; false
// where that is not all that want takes back. Where the last field of a spec goes by
// server-side apply, the API server makes null of the spec, and refuses that.
func WithoutMappedFields(live, want *provisioning.Cluster) (*provisioning.Cluster, bool) {
	mapped := func(s provisioning.ClusterSpec) provisioning.ClusterSpec {
		return provisioning.ClusterSpec{
			ClusterAgentDeploymentCustomization: s.ClusterAgentDeploymentCustomization,
			FleetAgentDeploymentCustomization:   s.FleetAgentDeploymentCustomization,
			WebhookDeploymentCustomization:      s.WebhookDeploymentCustomization,
		}
	}
	none := provisioning.ClusterSpec{}
	if !reflect.DeepEqual(mapped(want.Spec), none) || reflect.DeepEqual(mapped(live.Spec), none) {
		return nil, false
	}
	out := live.DeepCopy()
	out.Spec.ClusterAgentDeploymentCustomization, out.Spec.FleetAgentDeploymentCustomization, out.Spec.WebhookDeploymentCustomization = nil, nil, nil
	return out, true
}

// A Verdict says what to do with the Fleet Cluster of a provisioning Cluster.
type Verdict int

const (
	// Keep leaves what is there as it is, and makes nothing.
	Keep Verdict = iota
	// Remove says that there is to be none.
	Remove
	// Want says that it is to be as MapCluster says.
	Want
)

// Surroundings are the other inputs of a mapping.
type Surroundings struct {
	Registry string         // setting SettingRegistry
	Secrets  string         // setting SettingPullSecrets: names, separated by commas
	Affinity string         // setting SettingAffinity, JSON; empty: the agent's own
	Taints   []corev1.Taint // of all nodes of the control plane; for the local cluster
}

// MapCluster returns the Fleet Cluster of a provisioning and its management Cluster (nil: there
// is none), with the fields that this manager owns and no others, the verdict, and why it
// is not Want. A setting that cannot be read is Terminal, InvalidSetting.
func MapCluster(p *provisioning.Cluster, m *management.Cluster, with Surroundings) (*fleet.Cluster, Verdict, string, error) {
	if v, why := decideCluster(p, m); v != Want {
		return nil, v, why, nil
	}
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Spec.FleetWorkspaceName, Name: p.Name,
		Labels: naming.UserKeys(m.Labels), Annotations: naming.UserKeys(m.Annotations),
	}}
	c.Labels[fleet.LabelManagementCluster] = m.Name
	if len(validation.IsValidLabelValue(m.Spec.DisplayName)) == 0 {
		c.Labels[fleet.LabelDisplayName] = m.Spec.DisplayName
	}
	custom := m.Spec.FleetAgentDeploymentCustomization
	if custom == nil {
		custom = &management.AgentDeploymentCustomization{}
	}
	affinity, err := affinityOf(custom, with.Affinity)
	if err != nil {
		return nil, Keep, err.Error(), err
	}
	c.Spec = fleet.ClusterSpec{
		KubeConfigSecret: p.Status.ClientSecretName, KubeConfigSecretNamespace: p.Namespace,
		AgentEnvVars:   m.Spec.AgentEnvVars,
		PrivateRepoURL: registryOf(p, m, with.Registry),
		AgentAffinity:  affinity, AgentResources: custom.OverrideResourceRequirements,
		AgentTolerations:             custom.AppendTolerations,
		AgentSchedulingCustomization: scheduling(p),
		AgentPullSecrets:             pullSecrets(p, m, with),
	}
	if m.Spec.Internal {
		c.Labels[LabelName] = Local
		c.Spec.AgentNamespace = fleet.NamespaceLocalAgent
		c.Spec.AgentTolerations = append(tolerated(with.Taints), custom.AppendTolerations...)
	}
	c.Spec.AgentTolerations = sortedTolerations(c.Spec.AgentTolerations)
	return c, Want, "", nil
}

// decideCluster says whether there is to be a Fleet Cluster.
func decideCluster(p *provisioning.Cluster, m *management.Cluster) (Verdict, string) {
	switch {
	case p.Status.ClusterName == "":
		return Remove, "it has no management Cluster yet"
	case p.Status.ClientSecretName == "":
		return Remove, "it has no kubeconfig yet"
	case m == nil:
		return Keep, fmt.Sprintf("management Cluster %q is not there", p.Status.ClusterName)
	case ready(m) != corev1.ConditionTrue:
		return Keep, fmt.Sprintf("management Cluster %q is not Ready", m.Name)
	case m.Spec.FleetWorkspaceName == "":
		return Remove, fmt.Sprintf("management Cluster %q has no workspace", m.Name)
	case OldHalf(p, m):
		return Keep, fmt.Sprintf("management Cluster %q has moved to workspace %q, where it has another provisioning Cluster", m.Name, m.Spec.FleetWorkspaceName)
	}
	return Want, ""
}

// OldHalf reports whether a provisioning Cluster was made from a management Cluster that
// has moved to another workspace since. A new one is made there, with a kubeconfig of its
// own. This one is deleted when the new one has its Fleet Cluster. A provisioning Cluster
// that came first stays where it is.
func OldHalf(p *provisioning.Cluster, m *management.Cluster) bool {
	return Legacy(m.Name) && p.Namespace != cmp.Or(m.Spec.FleetWorkspaceName, homeless)
}

// MadeOf reports whether a provisioning Cluster was made of a management Cluster, by this
// manager or by Rancher.
func MadeOf(p *provisioning.Cluster, m *management.Cluster) bool {
	a := p.Annotations
	return a[AnnotationMappedFrom] == m.Name || a[fleet.AnnotationObjectSetID] == setProvisioning && a[annotationSetOwner] == m.Name
}

func ready(m *management.Cluster) corev1.ConditionStatus {
	for _, c := range m.Status.Conditions {
		if c.Type == management.ConditionReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// affinityOf is the agent's affinity: the cluster's own, else the setting's.
func affinityOf(custom *management.AgentDeploymentCustomization, setting string) (*corev1.Affinity, error) {
	if custom.OverrideAffinity != nil || setting == "" {
		return custom.OverrideAffinity, nil
	}
	out := &corev1.Affinity{}
	if err := json.Unmarshal([]byte(setting), out); err != nil {
		return nil, reconcile.TerminalError(ReasonSetting, fmt.Errorf("setting %s of Rancher is no affinity: %w", SettingAffinity, err))
	}
	return out, nil
}

// scheduling is read from the provisioning Cluster alone, as Rancher does; without any
// part it is nil.
func scheduling(p *provisioning.Cluster) *fleet.AgentSchedulingCustomization {
	custom := p.Spec.FleetAgentDeploymentCustomization
	if custom == nil || custom.SchedulingCustomization == nil {
		return nil
	}
	s := custom.SchedulingCustomization
	if s.PriorityClass == nil && s.PodDisruptionBudget == nil {
		return nil
	}
	return s
}

// registryOf is where the agent's image comes from: what the cluster says, else
// preset.
func registryOf(p *provisioning.Cluster, m *management.Cluster, preset string) string {
	if own := ownRegistry(p, m); own != "" {
		return own
	}
	return preset
}

const keyRegistry = "system-default-registry"

// ownRegistry is the registry of one cluster: of those that Rancher has made by
// the configuration of all their machines.
func ownRegistry(p *provisioning.Cluster, m *management.Cluster) string {
	rke := p.Spec.RKEConfig
	if rke == nil {
		if m.Spec.ImportedConfig == nil {
			return ""
		}
		return m.Spec.ImportedConfig.PrivateRegistryURL
	}
	if s, ok := rke.MachineGlobalConfig.Data[keyRegistry].(string); ok {
		return s
	}
	for i := range rke.MachineSelectorConfig {
		c := &rke.MachineSelectorConfig[i]
		if s, ok := c.Config.Data[keyRegistry].(string); ok && c.MachineLabelSelector == nil {
			return s
		}
	}
	return ""
}

// pullSecrets are those of the agent of a legacy cluster whose images come from a
// registry: with a registry of its own those that are configured with it, else those of
// the setting. Downstream they bear the names of the copies that Rancher makes. Without
// any the list is nil, and the manager's count; an empty list means none.
func pullSecrets(p *provisioning.Cluster, m *management.Cluster, with Surroundings) *[]corev1.LocalObjectReference {
	if !Legacy(m.Name) || registryOf(p, m, with.Registry) == "" {
		return &[]corev1.LocalObjectReference{}
	}
	names := strings.FieldsFunc(with.Secrets, func(r rune) bool { return r == ',' })
	if own := m.Spec.ImportedConfig; own != nil && own.PrivateRegistryURL != "" {
		names = own.PrivateRegistryPullSecrets
	}
	var out []corev1.LocalObjectReference
	for _, name := range names {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if m.Name != Local {
			name = naming.SafeConcat(name, pullSecret)
		}
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	if out == nil {
		return nil
	}
	return &out
}

// LocalGroup returns the ClusterGroup of the local cluster, which standalone installations have
// too.
func LocalGroup(namespace string) *fleet.ClusterGroup {
	return &fleet.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"},
		Spec:       fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelName: Local}}},
	}
}
