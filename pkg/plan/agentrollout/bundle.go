package agentrollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// LabelBundle is "true" on the Bundles of agents.
const LabelBundle = "fleet.cattle.io/agent-bundle"

// Annotations of the Bundle of an agent.
const (
	// AnnotationBuild is the Build that the Bundle was made of.
	AnnotationBuild = "fleet.cattle.io/agent-build"
	// AnnotationOwn is the digest of what the Cluster asks for itself.
	AnnotationOwn = "fleet.cattle.io/agent-settings"
	// AnnotationContent is the id of the Content that the Bundle becomes.
	AnnotationContent = "fleet.cattle.io/agent-content"
	// AnnotationMove is the Move that has brought the Build, as JSON.
	AnnotationMove = "fleet.cattle.io/agent-move"
)

// manifestName is the file of a Bundle that holds the objects of the agent.
const manifestName = "agent.yaml"

// A Build is what all agents of a manager have in common.
type Build struct {
	// Image is the agent's, as the settings name it: without a registry of one
	// Cluster's own.
	Image string
	// Shape is a digest of everything else.
	Shape string
}

// String returns "<shape> <image>", the value of AnnotationBuild.
func (b Build) String() string { return b.Shape + " " + b.Image }

// ParseBuild reads what String returns. For any other text it returns the zero Build.
func ParseBuild(s string) Build {
	shape, image, ok := strings.Cut(s, " ")
	if !ok {
		return Build{}
	}
	return Build{Image: image, Shape: shape}
}

// Build returns what the manager's settings and version make of every agent.
func (m Manager) Build() (Build, error) {
	plain := m
	plain.Settings.AgentImage, plain.Settings.SystemDefaultRegistry = "image", ""
	var shapes strings.Builder
	for _, secret := range []string{"", "kubeconfig"} { // both kinds of agents
		objects, err := plain.manifest(&fleet.Cluster{Spec: fleet.ClusterSpec{KubeConfigSecret: secret}}, "image")
		if err != nil {
			return Build{}, err
		}
		shapes.WriteString(objects)
	}
	return Build{Image: m.image(), Shape: digest(shapes.String())}, nil
}

// image is the image that the settings want, without a registry of one Cluster's
// own.
func (m Manager) image() string {
	return Image(m.Settings.SystemDefaultRegistry, "", m.Settings.AgentImage)
}

// SettingsDigest returns a digest of what a Cluster asks for itself: of all that makes its agent
// differ from that of another one.
func (m Manager) SettingsDigest(c *fleet.Cluster) string {
	s := c.Spec
	var inherited []corev1.Toleration
	if m.local(c) {
		inherited = m.Tolerations
	}
	if len(s.AgentEnvVars) == 0 {
		s.AgentEnvVars = nil
	}
	if custom := s.AgentSchedulingCustomization; custom != nil && *custom == (fleet.AgentSchedulingCustomization{}) {
		s.AgentSchedulingCustomization = nil
	}
	asked := []any{
		installed(c), m.namespace(c), s.AgentNamespace, s.ClientID, s.PrivateRepoURL, s.CheckIn, s.AgentEnvVars,
		sortedTolerations(s.AgentTolerations), s.AgentAffinity, s.AgentResources, s.HostNetwork != nil && *s.HostNetwork,
		s.AgentSchedulingCustomization, s.AgentPullSecrets, inherited,
	}
	if from := registration.LocalMoveOf(c).From; from != "" && m.local(c) {
		asked = append(asked, from)
	}
	text, err := json.Marshal(asked)
	if err != nil { // these types always can be
		return err.Error()
	}
	return digest(string(text))
}

// Bundle returns the Bundle of a Cluster's agent, with an image in the place of the
// settings'. It belongs to the Cluster, and goes with it.
func (m Manager) Bundle(c *fleet.Cluster, b Build) (*fleet.Bundle, error) {
	objects, err := m.manifest(c, b.Image)
	if err != nil {
		return nil, err
	}
	resources := []fleet.BundleResource{{Name: manifestName, Content: objects}}
	return &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: naming.AgentBundle(c.Name),
			Labels: map[string]string{LabelBundle: registration.True, fleet.LabelManagerID: m.System.ManagerID},
			Annotations: map[string]string{
				AnnotationBuild: b.String(), AnnotationOwn: m.SettingsDigest(c),
				AnnotationContent: content.IDOf(content.Sum(content.Manifest{Resources: resources})),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: fleet.GroupVersion.String(), Kind: "Cluster", Name: c.Name, UID: c.UID,
			}},
		},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{
				DefaultNamespace: m.namespace(c),
				Helm:             &fleet.HelmOptions{TakeOwnership: true},
			},
			Resources: resources,
			Targets: []fleet.BundleTarget{{
				ClusterName: c.Name,
				ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
					Key: fleet.LabelNonManagedAgent, Operator: metav1.LabelSelectorOpDoesNotExist,
				}}},
			}},
		},
	}, nil
}

// manifest is the objects of a Cluster's agent as YAML.
func (m Manager) manifest(c *fleet.Cluster, image string) (string, error) {
	m.Settings.AgentImage = image
	agent, err := m.DesiredAgent(c)
	if err != nil {
		return "", err
	}
	if !installed(c) {
		agent.Workers, agent.Lease = "", registration.LeaseTimes{}
	}
	objects, err := agent.Objects()
	if err != nil {
		return "", err
	}
	if !installed(c) {
		dropChartFields(&objects, agent, c)
	}
	setKeepPolicy(objects.ConfigMap)
	var out strings.Builder
	for _, o := range objects.List() {
		text, err := document(o)
		if err != nil {
			return "", err
		}
		out.WriteString("---\n" + text)
	}
	return out.String(), nil
}

// dropChartFields removes from the objects of an agent the fields that its own chart has set and on
// which the Cluster says nothing. Fields that a release does not set stay as they are. The
// command line is one of them, so the agent gets its settings in environment variables.
func dropChartFields(o *registration.AgentObjects, a registration.Agent, c *fleet.Cluster) {
	d := o.Deployment
	d.Spec.Replicas, d.Spec.MinReadySeconds = nil, 0
	if !a.HostNetwork {
		d.Spec.Strategy.Type, d.Spec.Strategy.RollingUpdate = "", nil
	}
	d.Spec.Template.Annotations = nil
	pod := &d.Spec.Template.Spec
	container := &pod.Containers[0]
	container.Args = nil
	pod.SecurityContext, container.SecurityContext = nil, nil
	if len(c.Spec.AgentTolerations) == 0 {
		pod.Tolerations = nil
	}
	if c.Spec.AgentAffinity == nil {
		pod.Affinity = nil
	}
	if c.Spec.AgentResources == nil {
		container.Resources = corev1.ResourceRequirements{}
	}
	if c.Spec.AgentPullSecrets == nil {
		pod.ImagePullSecrets = nil
	}
	o.ConfigMap.Data = nil
	if a.CheckIn != nil {
		if text, err := heartbeat.Encode(a.CheckIn); err == nil {
			o.ConfigMap.Data = map[string]string{heartbeat.KeyCheckIn: text}
		}
	}
}

// setKeepPolicy makes Helm spare an object when a later release lacks it. rancher/fleet makes
// the ConfigMap of an agent when it registers the cluster, not with the agent's
// bundle, and its agent does not start without it.
func setKeepPolicy(o registration.Object) {
	o.SetAnnotations(map[string]string{fleet.AnnotationHelmResourcePolicy: "keep"})
}

// kinds are those of the objects of an agent.
var kinds = map[string]schema.GroupVersionKind{
	"*v1.ServiceAccount":      {Version: "v1", Kind: "ServiceAccount"},
	"*v1.ConfigMap":           {Version: "v1", Kind: "ConfigMap"},
	"*v1.ClusterRole":         {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	"*v1.ClusterRoleBinding":  {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	"*v1.NetworkPolicy":       {Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	"*v1.PriorityClass":       {Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
	"*v1.PodDisruptionBudget": {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	"*v1.Deployment":          {Group: "apps", Version: "v1", Kind: "Deployment"},
}

// document is one object as YAML: what is meant to be, without a status.
func document(o registration.Object) (string, error) {
	kind, ok := kinds[fmt.Sprintf("%T", o)]
	if !ok {
		return "", fmt.Errorf("write the agent's objects: %T has no kind", o)
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	text, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("write %s %q: %w", kind.Kind, o.GetName(), err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", fmt.Errorf("write %s %q: %w", kind.Kind, o.GetName(), err)
	}
	dropZeroFields(fields)
	out, err := yaml.Marshal(fields)
	return string(out), err
}

// dropZeroFields removes what Go's types write without meaning it.
func dropZeroFields(fields map[string]any) {
	delete(fields, "status")
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			if x["creationTimestamp"] == nil {
				delete(x, "creationTimestamp")
			}
			for key, e := range x {
				if m, ok := e.(map[string]any); ok && len(m) == 0 && (key == "strategy" || key == "resources") {
					delete(x, key)
					continue
				}
				walk(e)
			}
		case []any:
			for _, e := range x {
				walk(e)
			}
		}
	}
	walk(fields)
}

// digest is the first 12 hex digits of the sha256 of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
