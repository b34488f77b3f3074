package schema

import (
	"path"
	"slices"
	"strings"

	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// How PEM begins, and how its base64 does.
const (
	beginPEM        = "-----BEGIN "
	beginEncodedPEM = "LS0tLS1CRUdJTi"
)

func isPEM(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), beginPEM) }

func isEncodedPEM(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), beginEncodedPEM)
}

// plainHint is the hint for plain text where base64 is required.
func plainHint(path []any) string {
	if len(path) > 0 && path[0] == "data" {
		return "a Secret takes plain text in stringData"
	}
	return "write what \"base64 -w0 FILE\" prints"
}

// certificateFiles are the ends of keys of a ConfigMap that hold PEM.
var certificateFiles = []string{".crt", ".pem", ".key"}

// encoded warns of the base64 of PEM where it is not decoded.
func (o *objectCheck) encoded(object map[string]any, gvk kube.GroupVersionKind) {
	field := ""
	switch gvk.GroupKind() {
	case kube.GroupKind{Kind: "Secret"}:
		field = "stringData"
	case kube.GroupKind{Kind: "ConfigMap"}:
		field = "data"
	default:
		return
	}
	entries, _ := object[field].(map[string]any)
	for key, v := range inOrder(entries) {
		text, ok := v.(string)
		if !ok || !isEncodedPEM(text) || field == "data" && !slices.Contains(certificateFiles, path.Ext(key)) {
			continue
		}
		at := []any{field, key}
		hint := "write the PEM itself"
		if field == "stringData" {
			hint += ", or move it to data"
		}
		o.addWarning(at, position.Path(at)+" is the base64 of PEM, and "+field+" of a "+gvk.Kind+" takes the text as it is", hint)
	}
}

// addWarning adds a fault that may be meant.
func (o *objectCheck) addWarning(path []any, message, hint string) {
	if len(o.faults) < maxFaults {
		o.faults = append(o.faults, Fault{
			Path: append([]any(nil), path...), Severity: finding.Warning, Rule: finding.RuleValue, Message: message, Hint: hint,
		})
	}
}
