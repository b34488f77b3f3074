package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// hookAnnotation makes an object of a chart a hook of Helm.
const hookAnnotation = "helm.sh/hook"

// helmHooks are the events of hooks that Helm knows, except testSuccess. Helm makes neither
// a hook nor an ordinary object from an object with another event.
var helmHooks = []string{
	"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback", "pre-delete", "post-delete", "test",
}

// testSuccess is an older name of test.
const testSuccess = "test-success"

// unknownHook is the first event of an annotation that Helm does not know; it is empty
// where Helm knows all.
func unknownHook(events string) string {
	for event := range strings.SplitSeq(events, ",") {
		event = strings.TrimSpace(event)
		if name := strings.ToLower(event); !slices.Contains(helmHooks, name) && name != testSuccess {
			return event
		}
	}
	return ""
}

// crdHook is the hook of Helm 2 for CRDs.
const crdHook = "crd-install"

// misspeltHook is the finding about an event that Helm does not know, with what would help.
func misspeltHook(event, effect string) finding.Finding {
	last := len(helmHooks) - 1
	f := finding.Finding{
		Severity: finding.Warning, Rule: finding.RuleValue, Message: fmt.Sprintf("%q is no hook of Helm, so %s", printable.Line(position.ShortName(event)), effect),
		Hint: fmt.Sprintf("Helm knows %s and %s", strings.Join(helmHooks[:last], ", "), helmHooks[last]),
	}
	if event == crdHook {
		f.Hint = "Helm 3 installs the CRDs in crds/ of a chart before its templates"
	} else if near := spelling.Nearest(strings.ToLower(event), helmHooks); near != "" {
		f.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return f
}

// hookOfManifest checks the hook of an object of a plain manifest. Fleet adds these objects
// to what Helm renders, so none of them is a hook.
func (m manifestChecks) hookOfManifest(o manifestObject, at documentPosition) {
	if !bytes.Contains(o.Metadata.Annotations, []byte(hookAnnotation)) {
		return
	}
	annotations := map[string]any{}
	if json.Unmarshal(o.Metadata.Annotations, &annotations) != nil {
		return
	}
	events, _ := annotations[hookAnnotation].(string)
	if strings.TrimSpace(events) == "" {
		return
	}
	f := finding.Finding{
		Severity: finding.Warning, Rule: finding.RuleValue,
		Message: "helm.sh/hook has no effect here: the object is deployed like any other", Hint: "only objects of a chart can be hooks",
	}
	if event := unknownHook(events); event != "" {
		f = misspeltHook(event, "the object is deployed like any other")
		f.Hint = "only objects of a chart can be hooks; " + f.Hint
	}
	m.addAt(at, f, true, "metadata", "annotations", hookAnnotation)
}

// Annotations of hooks in templates, which are no YAML: on a line of its own, or between
// braces.
var (
	hookLine = regexp.MustCompile(`^\s*["']?helm\.sh/hook["']?\s*:\s+(.*?)\s*$`)
	hookFlow = regexp.MustCompile(`[{,]\s*["']?helm\.sh/hook["']?\s*:\s+("[^"]*"|'[^']*'|[^,}"']*)`)
)

// hooksOfTemplate checks the hooks that a template names as they stand: what a template makes
// of values is not looked at.
func (t templateChecks) hooksOfTemplate(name string, data []byte) {
	if !bytes.Contains(data, []byte(hookAnnotation)) {
		return
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		text, _, _ := strings.Cut(line, " #")
		m := hookLine.FindStringSubmatch(text)
		if m == nil {
			m = hookFlow.FindStringSubmatch(text)
		}
		if m == nil || strings.Contains(text, "{{") || strings.HasPrefix(strings.TrimSpace(text), "#") {
			continue
		}
		events := strings.Trim(strings.TrimSpace(m[1]), `"'`)
		if event := unknownHook(events); events != "" && event != "" {
			f := misspeltHook(event, "Helm does not deploy the object")
			f.Path, f.Line, f.Column = path.Join(t.a.dir.Path, name), number, strings.Index(text, hookAnnotation)+1
			t.a.addFinding(f)
		}
	}
}
