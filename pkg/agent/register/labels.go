package register

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// withRequestedLabels returns the agent's configuration with all labels that it asks
// for. It adds those of the ConfigMap that was applied before the agent started. If
// both have a label, the configuration wins.
func withRequestedLabels(ctx context.Context, cfg Config) (registration.AgentConfig, error) {
	settings, err := settingsOf(ctx, cfg)
	if err != nil {
		return settings, err
	}
	cm, err := kube.StoreOf[*corev1.ConfigMap](cfg.Down).Get(ctx, kube.Key{Namespace: cfg.Namespace, Name: fleet.ConfigMapAgentLabels})
	if kube.IsGone(err) {
		return settings, nil
	}
	if err != nil {
		return settings, err
	}
	labels := map[string]string{}
	if err := yaml.Unmarshal([]byte(cm.Data[fleet.KeyLabels]), &labels); err != nil {
		return settings, fmt.Errorf("config map %q, key %q: %w", cm.Name, fleet.KeyLabels, err)
	}
	maps.Copy(labels, settings.Labels)
	settings.Labels = labels
	return settings, nil
}
