package tenants

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Secrets of this test: in the Secret with the values of a deployment, and in one
// that valuesFrom names.
const (
	inValues = "canary-3b81"
	inSecret = "canary-d94e"
)

// safe is a buffer that several goroutines may write to.
type safe struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safe) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safe) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Whatever a template does with a value, the agent does not disclose it: not in a
// status, an event, a metric or its log. What the chart itself makes of a value on
// its own cluster is the chart's.
func canary(t *testing.T, hub *harness.Hub) {
	s := &site{Site: harness.NewSite(t, hub, hub, "canary")}
	log := &safe{}
	s.Output = log
	s.Config.Metrics = agent.NewMetrics()
	s.Account()
	s.Start()
	templates := map[string]struct {
		why      string
		template string
		reason   string
		says     string // what is left of the text
	}{
		"fail":     {"a template says it", `{{ fail (printf "no %s" .Values.a) }}`, release.ReasonBadTemplate, "no ***"},
		"glued":    {"in the middle of a word", `{{ fail (printf "x%sy and %s" .Values.a (.Values.b | b64enc)) }}`, release.ReasonBadTemplate, "x***y and ***"},
		"required": {"or as what is missing", `{{ required .Values.b .Values.none }}`, release.ReasonBadTemplate, "***"},
		"yaml":     {"a value breaks the YAML", "kind: ConfigMap\nmetadata: [{{ .Values.a }}\n", release.ReasonBadYAML, ""},
		"label":    {"the API server repeats it", configMap(`name: c, labels: {l: "{{ .Values.a }}!"}`, "x"), release.ReasonInvalidObject, "***!"},
		"kind":     {"a kind that there is not", "apiVersion: {{ .Values.a }}.example/v1\nkind: Thing\nmetadata: {name: a}\n", release.ReasonUnknownKind, "***.example"},
		"name":     {"a name, of a hook", configMap(`name: "{{ .Values.a }}!", annotations: {helm.sh/hook: pre-install}`, "x"), release.ReasonInvalidObject, "***!"},
		"lookup":   {"something to look for", `{{ lookup "v1" .Values.a "x" "y" }}{{ lookup (printf "%s.example/v1" .Values.b) "Thing" "" "" }}`, "", "***.example"},
		"host":     {"a namespace", configMap(`name: c, namespace: "{{ .Values.b }}!"`, "x"), "", ""},
	}
	options := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{
		SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "more"}},
	}}}}
	order := func(name, template string) {
		t.Helper()
		s.space(name, nil)
		s.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Home(name), Name: "more"}, StringData: map[string]string{"values.yaml": "b: " + inSecret + "\nt: text\n"},
		})
		s.Order(name, harness.Order{
			Files: chart(template), Options: options,
			Values: map[string]any{"a": inValues, "t": map[string]any{"table": inValues}},
		})
	}
	for name, c := range templates {
		order(name, c.template)
	}
	order("drift", configMap(`name: noted, annotations: {note: "{{ .Values.a }}"}`, "{{ .Values.b }}"))
	for name, c := range templates {
		s.Until(name+": "+c.why, func() bool {
			says, named := false, c.reason == ""
			for _, cond := range s.Deployment(name).Status.Conditions {
				says = says || cond.Type == fleet.ConditionReady && cond.Status == corev1.ConditionFalse && strings.Contains(cond.Message, c.says)
				named = named || cond.Reason == c.reason // of Ready the reason may be that of the reference
			}
			return says && named
		})
	}
	s.State("drift", fleet.Ready)
	_, err := hub.Client.CoreV1().ConfigMaps(s.Home("drift")).Patch(t.Context(), "noted", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"note":"other"}},"data":{"k":"other"}}`), metav1.PatchOptions{})
	s.Must(err)
	s.State("drift", fleet.Modified)
	s.Withdraw("label", "end")
	s.Answered("label", "end")

	families, err := s.Config.Metrics.Gatherer().Gather()
	s.Must(err)
	found := map[string]string{"the log": log.String(), "metrics": fmt.Sprint(families)}
	for name := range templates {
		found["deployment "+name] = text(s.Deployment(name))
	}
	found["deployment drift"] = text(s.Deployment("drift"))
	events, err := hub.Client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	s.Must(err)
	found["events"] = text(events)
	maps, err := hub.Client.CoreV1().ConfigMaps(s.Namespace).List(t.Context(), metav1.ListOptions{})
	s.Must(err)
	found["the agent's ConfigMaps"] = text(maps)
	cluster, err := kube.StoreOf[*fleet.Cluster](hub.Admin).Get(t.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name})
	s.Must(err)
	lines, err := journal.Unpack(cluster.Status.Agent.Journal)
	s.Must(err)
	found["the Cluster"] = text(cluster) + journal.Text(lines)
	for where, text := range found {
		for _, secret := range []string{inValues, inSecret} {
			for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s holds %s: …%s…", where, form, text[max(0, i-80):min(len(text), i+80)])
				}
			}
		}
	}
}

func text(v any) string {
	out, _ := json.Marshal(v)
	return string(out)
}

// configMap is the manifest of a ConfigMap with this metadata and one value.
func configMap(metadata, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {" + metadata + "}\ndata: {k: \"" + value + "\"}\n"
}
