package registration

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Names of what an agent gets for its scheduling. The class is not namespaced:
// its name says for whom it is and what it holds, because a class can be
// neither shared with another agent nor changed.
const (
	priorityClassName = "fleet-agent-priority-class"
	budgetName        = "fleet-agent-pod-disruption-budget"
)

// Variables that the program fleet-agent reads, each as the default of a flag.
const (
	EnvNamespace   = "NAMESPACE"
	EnvScope       = "AGENT_SCOPE"
	EnvLeaderElect = "FLEET_AGENT_LEADER_ELECT"
	EnvWorkers     = "BUNDLEDEPLOYMENT_RECONCILER_WORKERS"

	// EnvMemoryLimit is read by Go itself: garbage is collected more eagerly before
	// the container's limit is reached.
	EnvMemoryLimit = "GOMEMLIMIT"

	EnvLeaseDuration = "CATTLE_ELECTION_LEASE_DURATION"
	EnvLeaseRenew    = "CATTLE_ELECTION_RENEW_DEADLINE"
	EnvLeaseRetry    = "CATTLE_ELECTION_RETRY_PERIOD"
)

// readyTime is how many seconds a new agent must stay alive before the one that
// it replaces is stopped.
const readyTime = 5

// DefaultResources returns the resources of an agent whose Cluster has no agentResources.
// They are also the defaults of the chart fleet-agent; docs/charts.md says where the
// numbers come from.
func DefaultResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("96Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
	}
}

// Custom are the settings that may differ from agent to agent.
type Custom struct {
	Env         []corev1.EnvVar
	Affinity    *corev1.Affinity             // in the place of the agent's own; nil: that
	Resources   *corev1.ResourceRequirements // nil: DefaultResources
	HostNetwork bool
	Priority    *fleet.PriorityClassSpec
	Disruption  *fleet.PodDisruptionBudgetSpec

	Replicas   int32  // 1 where 0
	Workers    string // how many deployments it works on at once; empty: its own default
	Debug      bool
	Unconfined bool // with whatever rights the cluster gives to pods
	Lease      LeaseTimes
}

// An Object is one of those that an agent consists of.
type Object interface {
	metav1.Object
	runtime.Object
}

// List returns all of the objects, in the order in which they are made.
func (o AgentObjects) List() []Object {
	out := []Object{o.ServiceAccount, o.ClusterRole, o.ClusterRoleBinding, o.NetworkPolicy, o.ConfigMap}
	if o.PriorityClass != nil {
		out = append(out, o.PriorityClass)
	}
	if o.Budget != nil {
		out = append(out, o.Budget)
	}
	return append(out, o.Deployment)
}

// OptionalNames returns the names of the objects that not every agent has: its disruption budget
// and its priority class; empty: it has none.
func (o AgentObjects) OptionalNames() (budget, class string) {
	if o.Budget != nil {
		budget = o.Budget.Name
	}
	if o.PriorityClass != nil {
		class = o.PriorityClass.Name
	}
	return budget, class
}

// strategy replaces an agent once the new one is up, so that one that does not
// come up leaves the old one at work: two never work at once, because of the
// lease. Two in the network of one node would meet at its ports.
func (a Agent) strategy() appsv1.DeploymentStrategy {
	if a.HostNetwork {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one},
	}
}

func (a Agent) minReady() int32 {
	if a.HostNetwork {
		return 0
	}
	return readyTime
}

// customise gives a pod what its agent has of its own.
func (a Agent) customise(pod *corev1.PodSpec) {
	container := &pod.Containers[0]
	if a.Affinity != nil {
		pod.Affinity = a.Affinity
	}
	container.Resources = DefaultResources()
	if a.Resources != nil {
		container.Resources = *a.Resources
	}
	if a.HostNetwork {
		pod.HostNetwork, pod.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	}
	if a.Priority != nil {
		pod.PriorityClassName = a.priorityName()
	}
	if a.Debug {
		container.Args = append(container.Args, "--debug")
	}
	container.Env = withEnv(container.Env, a.env())
	if a.Unconfined {
		pod.SecurityContext, container.SecurityContext = nil, nil
	}
}

// identity returns what an agent gets to know about itself. It gets it in environment
// variables, because the manager leaves the command line of an agent that a chart has
// installed to that chart.
func (a Agent) identity() []corev1.EnvVar {
	out := []corev1.EnvVar{
		{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
		{Name: EnvMemoryLimit, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			Resource: "limits.memory", Divisor: resource.MustParse("1")}}},
		{Name: EnvNamespace, Value: a.Namespace},
		{Name: EnvLeaderElect, Value: True},
	}
	if a.Scope != "" {
		out = append(out, corev1.EnvVar{Name: EnvScope, Value: a.Scope})
	}
	return out
}

// env are the variables of an agent beside its identity, in a fixed order: only
// those that say something.
func (c Custom) env() []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, v := range []corev1.EnvVar{
		{Name: EnvWorkers, Value: c.Workers},
		{Name: EnvLeaseDuration, Value: c.Lease.Duration},
		{Name: EnvLeaseRenew, Value: c.Lease.Renew},
		{Name: EnvLeaseRetry, Value: c.Lease.Retry},
	} {
		if v.Value != "" {
			out = append(out, v)
		}
	}
	return append(out, c.Env...)
}

// withEnv is a list with others after it; one that names a variable of the list
// takes its place, since the API server wants each once.
func withEnv(list, more []corev1.EnvVar) []corev1.EnvVar {
	out := slices.Clone(list)
	for _, v := range more {
		at := slices.IndexFunc(out, func(o corev1.EnvVar) bool { return o.Name == v.Name })
		if at < 0 {
			out = append(out, v)
			continue
		}
		out[at] = v
	}
	return out
}

// priorityName is the name of an agent's class. It begins with the namespace of
// the agent and ends with what the class holds.
func (a Agent) priorityName() string {
	parts := []string{a.Namespace, priorityClassName, strings.ReplaceAll(strconv.Itoa(a.Priority.Value), "-", "minus")}
	if a.preemption() == corev1.PreemptNever {
		parts = append(parts, "never")
	}
	return naming.SafeConcat(parts...)
}

func (a Agent) preemption() corev1.PreemptionPolicy {
	if p := a.Priority.PreemptionPolicy; p != nil && *p != "" {
		return *p
	}
	return corev1.PreemptLowerPriority
}

func (a Agent) priorityClass() *schedulingv1.PriorityClass {
	if a.Priority == nil {
		return nil
	}
	policy := a.preemption()
	return &schedulingv1.PriorityClass{
		ObjectMeta: a.clusterMeta(a.priorityName()), Value: int32(a.Priority.Value), //nolint:gosec // checked by package agents
		PreemptionPolicy: &policy, Description: a.priorityText(),
	}
}

// priorityText is the description of all PriorityClasses that an agent ever has, by
// which HasHad recognises them: their names end with a digest, and may be cut.
func (a Agent) priorityText() string { return "Of the agent of Fleet in namespace " + a.Namespace }

// HasHad reports whether a class of this manager's is, or was, that of the agent.
func (a Agent) HasHad(c *schedulingv1.PriorityClass) bool { return c.Description == a.priorityText() }

// budget is the agent's disruption budget. Where neither number is given no
// agent may be disrupted.
func (a Agent) budget() *policyv1.PodDisruptionBudget {
	if a.Disruption == nil {
		return nil
	}
	out := &policyv1.PodDisruptionBudget{
		ObjectMeta: a.meta(budgetName),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": agentName}}},
	}
	if isSet(a.Disruption.MinAvailable) {
		out.Spec.MinAvailable = new(intstr.Parse(a.Disruption.MinAvailable))
		return out
	}
	most := a.Disruption.MaxUnavailable
	if most == "" {
		most = "0"
	}
	out.Spec.MaxUnavailable = new(intstr.Parse(most))
	return out
}

// isSet reports whether a number of a disruption budget says something.
func isSet(number string) bool { return number != "" && number != "0" && number != "0%" }
