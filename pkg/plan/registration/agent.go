package registration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// KeyKubeconfig is the key of an agent's Secret fleet-agent that is there once
// the agent has registered.
const KeyKubeconfig = "kubeconfig"

// agentName is the name of an agent's Deployment, account, ConfigMap and
// container.
const agentName = "fleet-agent"

// A Bootstrapping is what an agent needs to register: the data of its Secret
// fleet-agent-bootstrap.
type Bootstrapping struct {
	APIServerURL          string
	APIServerCA           []byte // PEM
	Token                 string
	TokenName             string
	ClusterNamespace      string // the workspace
	RegistrationNamespace string
}

// Data returns the bootstrapping as it stands in the Secret.
func (b Bootstrapping) Data() map[string][]byte {
	return map[string][]byte{
		"apiServerURL":                []byte(b.APIServerURL),
		"apiServerCA":                 b.APIServerCA,
		"token":                       []byte(b.Token),
		"tokenName":                   []byte(b.TokenName),
		"clusterNamespace":            []byte(b.ClusterNamespace),
		"systemRegistrationNamespace": []byte(b.RegistrationNamespace),
	}
}

// ReadBootstrapping reads what Data wrote. It does not check the values.
func ReadBootstrapping(data map[string][]byte) Bootstrapping {
	return Bootstrapping{
		APIServerURL: string(data["apiServerURL"]), APIServerCA: data["apiServerCA"],
		Token: string(data["token"]), TokenName: string(data["tokenName"]),
		ClusterNamespace:      string(data["clusterNamespace"]),
		RegistrationNamespace: string(data["systemRegistrationNamespace"]),
	}
}

// AgentConfig is the configuration of an agent: key "config" of its ConfigMap.
type AgentConfig struct {
	TLSMode  string            `json:"agentTLSMode"`
	ClientID string            `json:"clientID,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"` // wished for when it registers
}

// An Agent is one installation of the agent. The chart fleet-agent renders the
// same objects; a test of the charts compares them.
type Agent struct {
	Namespace        string
	Image            string // with registry and tag
	ImagePullPolicy  string
	ImagePullSecrets []string
	CheckinInterval  time.Duration         // 0: the interval that the manager sets
	CheckIn          *fleet.ClusterCheckIn // nil: as its own settings say; a change restarts nothing
	Scope            string                // separates agents of one cluster; empty: downstream agent
	Config           AgentConfig
	Tolerations      []corev1.Toleration // added to the agent's own
	Labels           map[string]string   // of every object, not of pods
	AdoptFrom        string              // namespace of an agent that it takes over from; empty: none

	Custom // what a Cluster may ask for
}

// AgentObjects are the objects of an installed agent, in the order in which
// they are made.
type AgentObjects struct {
	ServiceAccount     *corev1.ServiceAccount
	ClusterRole        *rbacv1.ClusterRole
	ClusterRoleBinding *rbacv1.ClusterRoleBinding
	NetworkPolicy      *networkingv1.NetworkPolicy
	ConfigMap          *corev1.ConfigMap
	PriorityClass      *schedulingv1.PriorityClass   // nil: none
	Budget             *policyv1.PodDisruptionBudget // nil: none
	Deployment         *appsv1.Deployment
}

// Objects returns the objects of an agent. Its bootstrap Secret is not among them: the
// agent deletes that once it has registered.
func (a Agent) Objects() (AgentObjects, error) {
	config, err := json.MarshalIndent(a.Config, "", "  ")
	if err != nil {
		return AgentObjects{}, fmt.Errorf("configuration of the agent: %w", err)
	}
	data := map[string]string{fleet.KeyConfig: string(config) + "\n"}
	if a.CheckIn != nil {
		if data[heartbeat.KeyCheckIn], err = heartbeat.Encode(a.CheckIn); err != nil {
			return AgentObjects{}, fmt.Errorf("configuration of the agent: %w", err)
		}
	}
	if a.AdoptFrom != "" {
		data[KeyAdoptFrom] = a.AdoptFrom
	}
	role := a.Namespace + "-fleet-agent-role"
	return AgentObjects{
		ServiceAccount: &corev1.ServiceAccount{ObjectMeta: a.meta(agentName)},
		ClusterRole: &rbacv1.ClusterRole{
			ObjectMeta: a.clusterMeta(role),
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
				{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
			},
		},
		ClusterRoleBinding: &rbacv1.ClusterRoleBinding{
			ObjectMeta: a.clusterMeta(role + "-binding"),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{accountSubject(a.Namespace, agentName)},
		},
		NetworkPolicy: &networkingv1.NetworkPolicy{
			ObjectMeta: a.meta("default-allow-all"),
			Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": agentName}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
				Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
			},
		},
		ConfigMap: &corev1.ConfigMap{
			ObjectMeta: a.meta(fleet.ConfigMapAgent),
			Data:       data,
		},
		PriorityClass: a.priorityClass(),
		Budget:        a.budget(),
		Deployment:    a.deployment(string(config)),
	}, nil
}

func (a Agent) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: a.Namespace, Name: name, Labels: a.Labels}
}

func (a Agent) clusterMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: a.Labels}
}

func (a Agent) deployment(config string) *appsv1.Deployment {
	replicas := max(a.Replicas, 1)
	app := map[string]string{"app": agentName}
	meta := a.meta(agentName)
	meta.Labels = withEntry(a.Labels, "app", agentName)
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas:        &replicas,
			Strategy:        a.strategy(),
			MinReadySeconds: a.minReady(),
			Selector:        &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      app,
					Annotations: map[string]string{"checksum/config": digest(config)},
				},
				Spec: a.pod(),
			},
		},
	}
}

func (a Agent) pod() corev1.PodSpec {
	yes, user := true, int64(1000)
	var pull []corev1.LocalObjectReference
	for _, name := range a.ImagePullSecrets {
		pull = append(pull, corev1.LocalObjectReference{Name: name})
	}
	pod := corev1.PodSpec{
		ServiceAccountName: agentName,
		ImagePullSecrets:   pull,
		NodeSelector:       map[string]string{corev1.LabelOSStable: "linux"},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1,
				Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: fleet.LabelAgentNode, Operator: corev1.NodeSelectorOpIn, Values: []string{True},
				}}},
			}},
		}},
		Tolerations: a.tolerations(),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{a.container()},
		Volumes:    []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	a.customise(&pod)
	return pod
}

// tolerations are those that every agent has, and the added ones, each once.
func (a Agent) tolerations() []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Operator: corev1.TolerationOpEqual, Value: True, Effect: corev1.TaintEffectNoSchedule},
		{Key: "cattle.io/os", Operator: corev1.TolerationOpEqual, Value: "linux", Effect: corev1.TaintEffectNoSchedule},
	}
	for _, t := range a.Tolerations {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

func (a Agent) container() corev1.Container {
	yes, no := true, false
	return corev1.Container{
		Name: agentName, Image: a.Image, ImagePullPolicy: corev1.PullPolicy(a.ImagePullPolicy),
		Command: []string{agentName}, Args: []string{"--checkin-interval=" + heartbeat.FormatInterval(a.CheckinInterval)},
		Env: a.identity(),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Privileged: &no,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
	}
}

// ObjectHash returns the digest of an object as it is meant to be. It stands in the
// annotation fleet.cattle.io/input-hash of what the manager applies, so that an unchanged
// object is not applied again.
func ObjectHash(o any) (string, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("hash of an object: %w", err)
	}
	return digest(string(text)), nil
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
