package install

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// CheckLabels refuses labels that no agent may ask for. The error names all.
func CheckLabels(labels map[string]string) error {
	if _, dropped := registration.AcceptedLabels(labels, false); len(dropped) > 0 {
		return fmt.Errorf("label %s", strings.Join(dropped, "; label "))
	}
	return nil
}

// LabelsConfig returns the ConfigMap of the labels that an agent in a namespace asks for
// when it registers.
func LabelsConfig(namespace string, labels map[string]string) (*corev1.ConfigMap, error) {
	if len(labels) == 0 {
		return nil, errors.New("no labels: want --label KEY=VALUE")
	}
	if err := CheckLabels(labels); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(labels)
	if err != nil {
		return nil, fmt.Errorf("write labels: %w", err)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fleet.ConfigMapAgentLabels},
		Data:       map[string]string{fleet.KeyLabels: string(text)},
	}, nil
}
