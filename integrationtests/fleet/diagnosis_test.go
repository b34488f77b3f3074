package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// What fleet bundlediff prints, pasted into fleet.yaml and committed, makes the
// bundle Ready again: what was changed by hand stays as it is. What is changed
// after that is found as ever.
func TestBundleDiffIsPasted(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("paste")
	const fleetYAML = "defaultNamespace: paste\ndiff:\n  comparePatches:\n  - {apiVersion: v1, kind: ConfigMap, namespace: paste, name: app, jsonPointers: [/data/never]}\n"
	repo.Write("app/fleet.yaml", fleetYAML)
	repo.Write("app/objects.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: app, annotations: {test/why: "yes"}}
data: {value: one, other: one}
---
apiVersion: v1
kind: Secret
metadata: {name: app}
stringData: {key: one}
`)
	repo.DeployReady("one", 2)
	edit := func(field string) {
		harness.Change(w, w.C1, &corev1.ConfigMap{ObjectMeta: meta("paste", "app")}, func(cm *corev1.ConfigMap) {
			cm.Data[field] = "by hand"
			delete(cm.Annotations, "test/why")
		})
	}
	state := func() string { return repo.Deployment(w.C1, "paste-app").Status.Display.State }
	edit("value")
	harness.Change(w, w.C1, &corev1.Secret{ObjectMeta: meta("paste", "app")}, func(s *corev1.Secret) { s.Data["key"] = []byte("by hand") })
	w.Until("both objects are reported", func() string {
		if n := len(repo.Deployment(w.C1, "paste-app").Status.ModifiedStatus); n != 2 {
			return state()
		}
		return ""
	})

	diff := w.CLI("bundlediff", "paste-app", w.C1.Name, "--fleet-yaml")

	if text := harness.Missing(diff, "diff:\n", "/data/never", "/data/value", "/metadata/annotations/test~1why", "/stringData/key"); text != "" {
		t.Fatal(text)
	}
	repo.Write("app/fleet.yaml", harness.FleetYAML("paste")+diff)
	repo.EventuallyReady(repo.Commit("ignored"), 2)
	if got := harness.Data(w, w.C1, "paste", "app")(); got["value"] != "by hand" {
		t.Errorf("what is ignored was overwritten: %v", got)
	}

	edit("other")
	harness.Eventually(w, "what is not ignored is found", state, string(fleet.Modified))
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// agentStatus has the fields of fleet-agent status -o json that the test reads.
type agentStatus struct {
	Manager struct{ Reached bool }
	Kept    struct{ Bytes int }
	Bundles []struct {
		Name, State string
		Alone       *journal.Entry
	}
	Journal []journal.Entry
}

func statusOnSite(t *testing.T, w *harness.World, m *harness.Member) agentStatus {
	t.Helper()
	var s agentStatus
	out, _ := w.AgentCLI(m, "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return s
}

// lastLine is the last line of a journal about a bundle with a verb, nil if there
// is none.
func lastLine(lines []journal.Entry, bundle, verb string) *journal.Entry {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Deployment == bundle && lines[i].Verb == verb {
			return &lines[i]
		}
	}
	return nil
}

// The decisions of an agent are shown on its site while it is alone, and at the
// manager when it is back, with the times at which they were made.
func TestDecisionsAreReported(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("told")
	repo.Write("app/fleet.yaml", harness.FleetYAML("told")+"correctDrift: {enabled: true}\n")
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 2)

	w.Cut(w.C2)
	w.Until("the site knows that it is alone", func() string {
		if statusOnSite(t, w, w.C2).Manager.Reached {
			return "reached"
		}
		return ""
	})
	cut := time.Now()
	harness.Change(w, w.C2, &corev1.ConfigMap{ObjectMeta: meta("told", "app")}, func(cm *corev1.ConfigMap) { cm.Data["value"] = "by hand" })
	harness.Eventually(w, "it is put back", harness.Data(w, w.C2, "told", "app"), harness.ConfigMapData("one"))
	var line *journal.Entry
	w.Until("the site shows what was put back", func() string {
		s := statusOnSite(t, w, w.C2)
		if line = lastLine(s.Journal, "told-app", "correct"); line == nil {
			return journal.Text(s.Journal)
		}
		for _, b := range s.Bundles {
			if b.Name == "told-app" && (b.State != string(fleet.Ready) || b.Alone == nil || b.Alone.Verb != "correct") {
				return fmt.Sprintf("the site shows %+v", b)
			}
		}
		return ""
	})
	if !strings.Contains(line.Message, "ConfigMap told/app /data/value") || strings.Contains(line.Message, "by hand") {
		t.Errorf("want the field and not its value, got %q", line.Message)
	}
	if out, code := w.AgentCLI(w.C2, "status", "--exit-code"); code != 3 || !strings.Contains(out, "nothing is removed while the manager is away") {
		t.Errorf("exit code %d\n%s", code, out)
	}

	w.Heal(w.C2)
	healed := time.Now()

	var reported struct{ Lines []journal.Entry }
	w.Until("the manager has the journal", func() string {
		out := w.CLI("logs", w.C2.Name, "-o", "json")
		if err := json.Unmarshal([]byte(out), &reported); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		if lastLine(reported.Lines, "told-app", "correct") == nil {
			return out
		}
		return ""
	})
	at := lastLine(reported.Lines, "told-app", "correct").At
	if at.Before(cut.Truncate(time.Second)) || at.After(healed) {
		t.Errorf("put back at %s, and not between %s and %s", at, cut, healed)
	}
	if lastLine(reported.Lines, "told-app", "install") == nil {
		t.Errorf("what was installed before is not reported:\n%s", journal.Text(reported.Lines))
	}
	if text := harness.Missing(w.CLI("logs", w.C2.Name, "--bundle", "told-app"), "install", "told/told-app", "correct"); text != "" {
		t.Error(text)
	}
}
