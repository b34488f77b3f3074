package install

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What the reference's charts, v0.16, consist of: names, kinds, selectors and
// references between objects, since those are what an upgrade in place meets.
// What only the reference's own programs read is left out.

// referenceProcess is one Deployment of the reference's manager.
type referenceProcess struct {
	name       string
	containers []string
}

var referenceProcesses = []referenceProcess{
	{"fleet-controller", []string{"fleet-controller", "fleet-cleanup", "fleet-agentmanagement"}},
	{"gitjob", []string{"gitjob"}},
	{"helmops", []string{"helmops"}},
}

// referenceManager is the chart fleet.
func referenceManager() *chart.Chart {
	var docs []string
	for _, p := range referenceProcesses {
		docs = append(docs, account(p.name), deployment(p.name, p.containers), clusterRole(p.name), role("Role", p.name))
		binding := p.name
		if p.name != "fleet-controller" {
			binding += "-binding"
		}
		docs = append(docs, bind("ClusterRole", binding, p.name), bind("Role", p.name, p.name))
	}
	docs = append(docs,
		account("fleet-controller-bootstrap"), clusterRole("fleet-controller-bootstrap"),
		bind("ClusterRole", "fleet-controller-bootstrap", "fleet-controller-bootstrap"),
		service("monitoring-fleet-controller", "fleet-controller", 8080, 8080), service("monitoring-gitjob", "gitjob", 8081, 8081),
		service("gitjob", "gitjob", 80, 8080),
		configMap("fleet-controller", "config", "{}"), configMap("known-hosts", "known_hosts", "example.com ssh-ed25519 AAAA"))
	return chartOf("fleet", "110.0.1+up0.16.1", docs)
}

// referenceKinds is the chart fleet-crd: one template, kinds without a schema that
// would prune.
func referenceKinds() *chart.Chart {
	var docs []string
	for _, k := range fleet.Kinds() {
		scope := "Namespaced"
		if !k.Namespaced {
			scope = "Cluster"
		}
		docs = append(docs, fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: %[3]s
  names: {plural: %[1]s, singular: %[4]s, kind: %[5]s, listKind: %[5]sList}
  versions:
  - {name: v1alpha1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, k.Plural, fleet.Group, scope, strings.ToLower(k.Kind), k.Kind))
	}
	return chartOf("fleet-crd", "110.0.1+up0.16.1", docs)
}

// referenceAgent is the chart fleet-agent.
func referenceAgent() *chart.Chart {
	return chartOf("fleet-agent", "110.0.1+up0.16.1", []string{
		account("fleet-agent"), deployment("fleet-agent", []string{"fleet-agent"}), clusterRole("fleet-agent-system-fleet-agent-role"),
		bind("ClusterRole", "fleet-agent-system-fleet-agent-role-binding", "fleet-agent"), configMap("fleet-agent", "config", "{}"),
		`apiVersion: v1
kind: Secret
metadata: {name: fleet-agent-bootstrap}
stringData: {apiServerURL: "https://fleet.invalid", token: t0ken, tokenName: old, clusterNamespace: fleet-default}
`, `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: default-allow-all}
spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}
`,
	})
}

func chartOf(name, version string, documents []string) *chart.Chart {
	return &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: version},
		Templates: []*chart.File{{Name: "templates/all.yaml", Data: []byte(strings.Join(documents, "---\n"))}},
	}
}

func account(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s}\n", name)
}

func clusterRole(name string) string { return role("ClusterRole", name) }

func role(kind, name string) string {
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: %s
metadata: {name: %s}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
`, kind, name)
}

// bind binds an account of the release's namespace to a role, which has the
// account's name but for agents.
func bind(kind, name, who string) string {
	to := who
	if who == "fleet-agent" {
		to = "fleet-agent-system-fleet-agent-role"
	}
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata: {name: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[3]s}
subjects:
- {kind: ServiceAccount, name: %[4]s, namespace: cattle-fleet-system}
`, kind, name, to, who)
}

func service(name, app string, port, target int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s, labels: {app: %s}}
spec:
  selector: {app: %s, fleet.cattle.io/shard-default: "true"}
  ports: [{name: p, port: %d, targetPort: %d}]
`, name, app, app, port, target)
}

func configMap(name, key, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %q}\n", name, key, value)
}

// deployment has the pod labels of a process that is no shard.
func deployment(name string, containers []string) string {
	program := "fleetcontroller"
	if name == "fleet-agent" {
		program = "fleetagent"
	}
	var list []string
	for _, c := range containers {
		list = append(list, fmt.Sprintf(`{name: %s, image: "none.invalid/fleet:v0.16.1", args: [%s]}`, c, program))
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, fleet.cattle.io/shard-id: "", fleet.cattle.io/shard-default: "true"}}
    spec:
      serviceAccountName: %[1]s
      securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000}
      containers: [%[2]s]
`, name, strings.Join(list, ", "))
}
