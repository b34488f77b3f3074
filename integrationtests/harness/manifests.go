package harness

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMapYAML is the manifest of a ConfigMap with one value: see ConfigMapData.
func ConfigMapYAML(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value)
}

// ConfigMapData is the data of the ConfigMap of ConfigMapYAML.
func ConfigMapData(value string) map[string]string { return map[string]string{"value": value} }

// FleetYAML is a fleet.yaml with a default namespace and nothing else.
func FleetYAML(namespace string) string { return "defaultNamespace: " + namespace + "\n" }

// DeploymentYAML is the manifest of a Deployment whose pods run only on nodes with a label:
// see LabelNodes.
func DeploymentYAML(name, label string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
spec:
  selector:
    matchLabels: {app: %[1]s}
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      nodeSelector: {%[2]s: "yes"}
      containers:
      - {name: app, image: example.invalid/app}
`, name, label)
}

// LabelNodes puts a label on the nodes of a cluster, until the test ends.
func (w *World) LabelNodes(m *Member, label string) {
	for _, node := range List[*corev1.Node](w, m, "", "") {
		Change(w, m, node, func(n *corev1.Node) { n.Labels[label] = "yes" })
		w.Cleanup(func() { Change(w, m, node, func(n *corev1.Node) { delete(n.Labels, label) }) })
	}
}

// Missing is empty if all words stand in text, and else says which one does not.
func Missing(text string, words ...string) string {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return fmt.Sprintf("%q is not in %q", word, text)
		}
	}
	return ""
}

// HoldsSecret reports whether a text holds a secret, plain or in base64.
func HoldsSecret(text []byte, secret string) bool {
	for shift := range 3 { // where it begins within three bytes decides how it looks
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		if bytes.Contains(text, []byte(encoded[(shift*8+5)/6:(shift+len(secret))*8/6])) {
			return true
		}
	}
	return bytes.Contains(text, []byte(secret))
}
