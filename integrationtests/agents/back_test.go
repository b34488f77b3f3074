package agents_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// TestBackToTheReference: the manager of the reference replaces the bundles of the
// agents by its own, which contain less. What its agent needs at its start stays.
func TestBackToTheReference(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.manage("x/agent:v1.0.0")
	local, edge := w.localAgent(), w.join("edge", "v1.0.0", nil)
	sites := []*site{local, edge}
	w.until("both have their bundles", func() bool { return local.deployed() && edge.deployed() })
	before := map[string]*corev1.ConfigMap{}
	for _, s := range sites {
		before[s.namespace] = s.config()
	}

	w.halt()
	w.breaks(referenceImage) // no program of the reference is there
	for _, s := range sites {
		id := s.referenceBundle()
		w.until("the agent of the reference is installed for "+s.key.String(), func() bool {
			bd := s.agentDeployment()
			return bd.Status.AppliedDeploymentID == id && s.image() == referenceImage
		})
		if now := s.config(); now.UID != before[s.namespace].UID || now.Data[fleet.KeyConfig] != before[s.namespace].Data[fleet.KeyConfig] {
			t.Errorf("%s: the configuration of the agent was changed: %v", s.key, now.Data)
		}
		if _, err := w.client.CoreV1().Secrets(s.namespace).Get(t.Context(), fleet.SecretAgent, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: the credential of the agent: %v", s.key, err)
		}
	}
}

const referenceImage = "rancher/fleet-agent:v0.16.0"

// config is the ConfigMap that an agent reads when it starts.
func (s *site) config() *corev1.ConfigMap {
	s.Helper()
	m, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(s.Context(), fleet.ConfigMapAgent, metav1.GetOptions{})
	if err != nil {
		s.Fatalf("configuration of the agent of %s: %v", s.key, err)
	}
	return m
}

// agentDeployment is the BundleDeployment of the agent's bundle.
func (s *site) agentDeployment() *fleet.BundleDeployment {
	s.Helper()
	key := kube.Key{Namespace: s.cluster().Status.Namespace, Name: naming.AgentBundle(s.key.Name)}
	bd, err := kube.StoreOf[*fleet.BundleDeployment](s.admin).Get(s.Context(), key)
	if err != nil {
		s.Fatal(err)
	}
	return bd
}

// referenceBundle deploys the agent's bundle of the reference, as its manager writes
// it: other contents, the same options, and labels that are all its own. It returns
// the deployment id.
func (s *site) referenceBundle() string {
	s.Helper()
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "agent.yaml", Content: referenceObjects(s.namespace)}}}
	c, err := content.New(m)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := kube.StoreOf[*fleet.Content](s.admin).Create(s.Context(), c); err != nil {
		s.Fatal(err)
	}
	bd := s.agentDeployment()
	id, err := options.DeploymentID(content.ID(m), bd.Spec.Options)
	if err != nil {
		s.Fatal(err)
	}
	harness.Revise(s, s.admin, kube.KeyOf(bd), func(bd *fleet.BundleDeployment) {
		bd.Labels = map[string]string{
			fleet.LabelBundleName: bd.Name, fleet.LabelBundleNamespace: s.key.Namespace, fleet.LabelManaged: "true",
			fleet.LabelCluster: s.key.Name, fleet.LabelClusterNamespace: s.key.Namespace, fleet.LabelContentName: c.Name,
		}
		harness.Want(bd, id, bd.Spec.Options, nil)
	})
	return id
}

// referenceObjects are all objects of the reference's bundle of an agent.
func referenceObjects(namespace string) string {
	return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s-fleet-agent-role}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
- {nonResourceURLs: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s-fleet-agent-role-binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s-fleet-agent-role}
subjects: [{kind: ServiceAccount, name: fleet-agent, namespace: %[1]s}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: fleet-agent, namespace: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: %[1]s}
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: fleet-agent, namespace: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: fleet-agent}}
  template:
    metadata: {labels: {app: fleet-agent}}
    spec:
      serviceAccountName: fleet-agent
      containers:
      - name: fleet-agent
        image: %[2]s
        command: [fleetagent]
        env: [{name: NAMESPACE, value: %[1]s}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-allow-all, namespace: %[1]s}
spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}
`, namespace, referenceImage)
}
