package agentrollout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A Manager holds what is the same for all agents: who manages them, and how.
type Manager struct {
	Settings registration.Settings
	System   registration.System
	// Tolerations are those of the manager's own pods, which the agent of its own
	// cluster inherits.
	Tolerations []corev1.Toleration
}

// DesiredAgent returns the agent that a Cluster should have, with the image of the settings. The
// error names the setting of the Cluster that cannot be fulfilled.
func (m Manager) DesiredAgent(c *fleet.Cluster) (registration.Agent, error) {
	if err := Check(c); err != nil {
		return registration.Agent{}, err
	}
	s := m.Settings
	a := registration.Agent{
		Namespace: m.namespace(c), Scope: c.Spec.AgentNamespace,
		Image: Image(s.SystemDefaultRegistry, c.Spec.PrivateRepoURL, s.AgentImage), ImagePullPolicy: s.AgentImagePullPolicy,
		ImagePullSecrets: s.ImagePullSecrets, CheckinInterval: 0, CheckIn: c.Spec.CheckIn,
		Config:      registration.AgentConfig{TLSMode: s.AgentTLSMode, ClientID: c.Spec.ClientID},
		Tolerations: sortedTolerations(c.Spec.AgentTolerations),
		Labels:      map[string]string{fleet.LabelManagerID: m.System.ManagerID},
		Custom:      m.custom(c),
	}
	if secrets := c.Spec.AgentPullSecrets; secrets != nil {
		a.ImagePullSecrets = nil
		for _, ref := range *secrets {
			a.ImagePullSecrets = append(a.ImagePullSecrets, ref.Name)
		}
	}
	if m.local(c) {
		a.Tolerations = append(slices.Clone(m.Tolerations), a.Tolerations...)
		a.AdoptFrom = m.System.Namespace // where rancher/fleet has it
		if moved := registration.LocalMoveOf(c); moved.From != "" {
			a.AdoptFrom = moved.From
		}
		if a.AdoptFrom == a.Namespace {
			a.AdoptFrom = ""
		}
	}
	return a, nil
}

// namespace is where the agent of a Cluster lives: where the Cluster says, and
// else where the agent itself says, because its chart has put it there.
func (m Manager) namespace(c *fleet.Cluster) string {
	switch {
	case c.Spec.AgentNamespace != "":
		return c.Spec.AgentNamespace
	case !installed(c) && c.Status.Agent.Namespace != "":
		return c.Status.Agent.Namespace
	}
	return m.System.Namespace
}

func (m Manager) custom(c *fleet.Cluster) registration.Custom {
	s := m.Settings
	out := registration.Custom{
		Env: c.Spec.AgentEnvVars, Affinity: c.Spec.AgentAffinity, Resources: c.Spec.AgentResources,
		HostNetwork: c.Spec.HostNetwork != nil && *c.Spec.HostNetwork,
		Replicas:    s.AgentReplicas, Workers: s.AgentWorkers, Debug: s.AgentDebug, Unconfined: s.AgentUnconfined, Lease: s.AgentLease,
	}
	if custom := c.Spec.AgentSchedulingCustomization; custom != nil {
		out.Priority, out.Disruption = custom.PriorityClass, custom.PodDisruptionBudget
	}
	return out
}

// local reports whether a Cluster is the manager's own.
func (m Manager) local(c *fleet.Cluster) bool {
	return c.Namespace == m.Settings.Bootstrap.Namespace && c.Name == fleet.ClusterLocal
}

// installed reports whether a manager installs the agent of a Cluster, through a
// kubeconfig. Otherwise a user has installed it by its chart, and the values of the chart
// hold where the Cluster sets nothing.
func installed(c *fleet.Cluster) bool { return c.Spec.KubeConfigSecret != "" }

// Image returns an image with a registry before it: the cluster's own, in the place of the
// one for all. An image that begins with it already stays as it is.
func Image(all, own, image string) string {
	image = strings.TrimPrefix(image, all+"/")
	registry := all
	if own != "" {
		registry = own
	}
	registry = strings.TrimSuffix(registry, "/")
	if registry == "" || strings.HasPrefix(image, registry+"/") {
		return image
	}
	return registry + "/" + image
}

// sortedTolerations puts tolerations in an order of their own, so that one list in another
// order starts no agent again.
func sortedTolerations(list []corev1.Toleration) []corev1.Toleration {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	key := func(t corev1.Toleration) string {
		seconds := ""
		if t.TolerationSeconds != nil {
			seconds = strconv.FormatInt(*t.TolerationSeconds, 10)
		}
		return strings.Join([]string{t.Key, t.Value, string(t.Operator), string(t.Effect), seconds}, "\x00")
	}
	slices.SortFunc(out, func(a, b corev1.Toleration) int { return strings.Compare(key(a), key(b)) })
	return out
}

// The greatest and the least priority that a class of users may have.
const priorityLimit = 1_000_000_000

// Check reports which wishes of a Cluster about its agent cannot be fulfilled; nil
// where all can.
func Check(c *fleet.Cluster) error {
	var errs []error
	if _, err := heartbeat.Read(c.Spec.CheckIn, time.LoadLocation, c.CreationTimestamp.Time); err != nil {
		errs = append(errs, fmt.Errorf("checkIn: %w", err))
	}
	custom := c.Spec.AgentSchedulingCustomization
	if custom == nil {
		return errors.Join(errs...)
	}
	if p := custom.PriorityClass; p != nil {
		if p.Value < -priorityLimit || p.Value > priorityLimit {
			errs = append(errs, fmt.Errorf("priorityClass: value %d is not within %d to %d", p.Value, -priorityLimit, priorityLimit))
		}
		if policy := p.PreemptionPolicy; policy != nil && *policy != "" && *policy != corev1.PreemptNever && *policy != corev1.PreemptLowerPriority {
			errs = append(errs, fmt.Errorf("priorityClass: preemptionPolicy %q is neither Never nor PreemptLowerPriority", *policy))
		}
	}
	if b := custom.PodDisruptionBudget; b != nil {
		errs = append(errs, checkBudget(b)...)
	}
	return errors.Join(errs...)
}

func checkBudget(b *fleet.PodDisruptionBudgetSpec) []error {
	var errs []error
	for _, n := range []struct{ name, value string }{{"minAvailable", b.MinAvailable}, {"maxUnavailable", b.MaxUnavailable}} {
		if n.value != "" && !validNumber(n.value) {
			errs = append(errs, fmt.Errorf("podDisruptionBudget: %s %q is neither a number nor 0%% to 100%%", n.name, n.value))
		}
	}
	if isPositive(b.MinAvailable) && isPositive(b.MaxUnavailable) {
		errs = append(errs, fmt.Errorf("podDisruptionBudget: minAvailable %q and maxUnavailable %q cannot both be set", b.MinAvailable, b.MaxUnavailable))
	}
	return errs
}

func validNumber(text string) bool {
	number, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	return err == nil && n >= 0 && strconv.Itoa(n) == number && (!percent || n <= 100)
}

func isPositive(number string) bool { return number != "" && number != "0" && number != "0%" }

// DrainBlockedReason says, for users, that the disruption budget of an agent prevents draining its
// node. It is empty where the budget does not.
func DrainBlockedReason(c *fleet.Cluster, replicas int32) string {
	custom := c.Spec.AgentSchedulingCustomization
	if custom == nil || custom.PodDisruptionBudget == nil {
		return ""
	}
	b := custom.PodDisruptionBudget
	least, err := strconv.Atoi(b.MinAvailable)
	switch {
	case isPositive(b.MaxUnavailable):
		return ""
	case !isPositive(b.MinAvailable):
		return "the disruption budget allows no agent to be moved, so its node cannot be drained"
	case b.MinAvailable == "100%", err == nil && int32(least) >= max(replicas, 1): //nolint:gosec // small
		return fmt.Sprintf("the disruption budget wants %s of %d agents, so the agent's node cannot be drained", b.MinAvailable, max(replicas, 1))
	}
	return ""
}
