package dump

import "strings"

// secretNames adds to names the Secrets of a namespace that an object names: those with credentials, those
// with Helm values, and those that are copied to the cluster.
func secretNames(v any, namespace string, names map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			secretNames(item, namespace, names)
		}
	case map[string]any:
		for k, item := range v {
			if name := namedBy(k, item, namespace); name != "" {
				names[name] = true
			}
			if k == "downstreamResources" {
				downstreamSecrets(item, names)
			}
			secretNames(item, namespace, names)
		}
	}
}

// namedBy is the Secret that a field names; empty if the field is another one.
func namedBy(key string, v any, namespace string) string {
	switch key {
	case "clientSecretName", "helmSecretName", "helmSecretNameForPaths", "helmOpSecretName":
		name, _ := v.(string)
		return name
	case "secretKeyRef":
		ref, _ := v.(map[string]any)
		if in, _ := ref["namespace"].(string); in == "" || in == namespace {
			name, _ := ref["name"].(string)
			return name
		}
	}
	return ""
}

func downstreamSecrets(v any, names map[string]bool) {
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		kind, _ := m["kind"].(string)
		if name, _ := m["name"].(string); name != "" && strings.EqualFold(kind, "Secret") {
			names[name] = true
		}
	}
}
