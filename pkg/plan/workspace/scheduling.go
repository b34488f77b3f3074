package workspace

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// More settings of Rancher that count here.
const (
	SettingPriorityClass = "fleet-agent-default-priority-class"
	SettingBudget        = "fleet-agent-default-pod-disruption-budget"
	SettingServerURL     = "server-url"
	SettingCACerts       = "cacerts"
	SettingTLSMode       = "agent-tls-mode"
)

// Features of Rancher that count here.
const (
	// FeatureFleet is Rancher's switch for all of this.
	FeatureFleet = "fleet"
	// FeatureClusters is multi-cluster management. Without it there is only the
	// local cluster, and no workspace for others.
	FeatureClusters = "multi-cluster-management"
	// FeatureScheduling lets clusters ask for the defaults of scheduling.
	FeatureScheduling = "cluster-agent-scheduling-customization"
)

// AnnotationScheduling on a provisioning Cluster, or on a legacy management
// Cluster, asks once for something: "true" for the default priority class and
// disruption budget of Fleet's agent, where it has none of its own, "false" for
// none. It is taken off when that is done.
const AnnotationScheduling = "provisioning.cattle.io/enable-fleet-scheduling-customization"

// Scheduling returns the defaults of agents' scheduling, from two settings of Rancher.
// Without either it is nil. A setting that cannot be read is Terminal, InvalidSetting, and
// broken is its name.
func Scheduling(setting func(string) string) (defaults *fleet.AgentSchedulingCustomization, broken string, err error) {
	out := &fleet.AgentSchedulingCustomization{}
	if text := setting(SettingPriorityClass); text != "" {
		out.PriorityClass = &fleet.PriorityClassSpec{}
		if err := json.Unmarshal([]byte(text), out.PriorityClass); err != nil {
			return nil, SettingPriorityClass, unreadable(SettingPriorityClass, "priority class", err)
		}
	}
	if text := setting(SettingBudget); text != "" {
		out.PodDisruptionBudget = &fleet.PodDisruptionBudgetSpec{}
		if err := json.Unmarshal([]byte(text), out.PodDisruptionBudget); err != nil {
			return nil, SettingBudget, unreadable(SettingBudget, "disruption budget", err)
		}
	}
	if out.PriorityClass == nil && out.PodDisruptionBudget == nil {
		return nil, "", nil // there are none
	}
	return out, "", nil
}

func unreadable(setting, what string, err error) error {
	return reconcile.TerminalError(ReasonSetting, fmt.Errorf("setting %s of Rancher is no %s in JSON: %w", setting, what, err))
}

// Backfill returns what a cluster's annotations and its customization of Fleet's agent
// become where AnnotationScheduling asks for something; false where it does not. It changes
// nothing that it is given.
func Backfill(annotations map[string]string, custom *management.AgentDeploymentCustomization, defaults *fleet.AgentSchedulingCustomization) (
	rest map[string]string, changed *management.AgentDeploymentCustomization, ok bool,
) {
	on := strings.EqualFold(annotations[AnnotationScheduling], yes)
	if !on && !strings.EqualFold(annotations[AnnotationScheduling], "false") {
		return annotations, custom, false
	}
	rest = maps.Clone(annotations)
	delete(rest, AnnotationScheduling)
	has := custom != nil && custom.SchedulingCustomization != nil
	switch {
	case on && has, on && defaults == nil, !on && !has:
		return rest, custom, true
	case custom == nil:
		changed = &management.AgentDeploymentCustomization{}
	default:
		changed = custom.DeepCopy()
	}
	changed.SchedulingCustomization = nil
	if on {
		changed.SchedulingCustomization = defaults
	}
	return rest, changed, true
}

// DefaultWorkspace returns the workspace that new clusters get, if it has to be made, or
// nil. ns is the namespace of its name, nil where there is none. A namespace that exists
// already and has no owner is neither changed nor deleted with the workspace.
func DefaultWorkspace(name string, ns *metav1.PartialObjectMetadata) *management.FleetWorkspace {
	if name == "" || System(name, ns) {
		return nil
	}
	w := &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if action, _ := DecideNamespace(w, ns); action == Refuse {
		return ForOrphan(ns)
	}
	return w
}

// Reported are Rancher's settings for all agents.
type Reported struct {
	URL      string // of the manager
	CA       string // PEM
	TLSMode  string // as registration has them; empty: nothing is said
	Registry string // of images
}

// ReportedBy reads the effective values of Rancher's settings.
func ReportedBy(setting func(string) string) Reported {
	t := Reported{
		URL: setting(SettingServerURL), CA: setting(SettingCACerts),
		TLSMode: setting(SettingTLSMode), Registry: strings.TrimSuffix(setting(SettingRegistry), "/"),
	}
	if t.TLSMode != registration.TLSStrict && t.TLSMode != registration.TLSSystemStore {
		t.TLSMode = ""
	}
	return t
}

// Open reports whether the chart has left something open that Rancher's settings may
// say.
func Open(s registration.Settings) bool { return s.APIServerURL == "" || s.SystemDefaultRegistry == "" }

// Fill returns the settings of the chart, completed by Rancher's. The chart has priority. A
// change of Rancher's settings comes in two ways, by an upgrade of the chart and by the
// settings themselves, and these cannot contradict each other then. Address, certificates
// and TLS mode belong together: either all of them are the chart's, or all are Rancher's.
func (r Reported) Fill(s registration.Settings) registration.Settings {
	if s.APIServerURL == "" && r.URL != "" {
		s.APIServerURL, s.APIServerCA = r.URL, []byte(r.CA)
		if r.CA == "" {
			s.APIServerCA = nil
		}
		if r.TLSMode != "" {
			s.AgentTLSMode = r.TLSMode
		}
	}
	if s.SystemDefaultRegistry == "" {
		s.SystemDefaultRegistry = r.Registry
	}
	return s
}
