package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// block is the first block of YAML in docs/metrics.md that begins with a line.
func block(t *testing.T, first string, into any) {
	t.Helper()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ = strings.Cut(text, "```")
		if !strings.Contains(text, first) {
			continue
		}
		if err := sigsyaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("docs/metrics.md has no block with %q", first)
}

// expressions returns the PromQL expressions of the chart's alerts and dashboards, by where
// they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	readYAML(t, "fleet/files/alerts.yaml", &rules)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = r.Expr
		}
	}
	boards, err := filepath.Glob("fleet/files/dashboards/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatal("no dashboards", err)
	}
	for _, path := range boards {
		var board struct {
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr string }
			}
			Templating struct {
				List []struct {
					Name  string
					Query any
				}
			}
		}
		readYAML(t, path, &board)
		for _, p := range board.Panels {
			for i, target := range p.Targets {
				out[fmt.Sprintf("%s %s %d", path, p.Title, i)] = target.Expr
			}
			if p.Description == "" {
				t.Errorf("%s: panel %q does not say what it shows", path, p.Title)
			}
		}
		for _, v := range board.Templating.List {
			out[path+" variable "+v.Name] = fmt.Sprint(v.Query)
		}
	}
	return out
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := sigsyaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Alerts and dashboards ask for families and labels that docs/metrics.md lists. A test of
// the manager compares that page with what the manager serves.
func TestAlertsAndDashboardsAskForWhatIsServed(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	quoted := regexp.MustCompile("`([a-z_]+)`")
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, found := range quoted.FindAllStringSubmatch(cells[1], -1) {
			labels[found[1]] = cells[3]
		}
	}
	family := regexp.MustCompile(`\b(fleet_[a-z_]+)(\{[^}]*\})?`)
	label := regexp.MustCompile(`([a-z_]+)(=|!=|=~|!~)"`)
	for where, expr := range expressions(t) {
		for _, found := range family.FindAllStringSubmatch(expr, -1) {
			name := found[1]
			if _, ok := labels[name]; !ok {
				name = regexp.MustCompile(`_(count|bucket|sum)$`).ReplaceAllString(name, "")
			}
			known, ok := labels[name]
			if !ok {
				t.Errorf("%s: nothing serves %s", where, found[1])
			}
			for _, l := range label.FindAllStringSubmatch(found[2], -1) {
				if !strings.Contains(known, "`"+l[1]+"`") {
					t.Errorf("%s: %s has no label %s", where, name, l[1])
				}
			}
		}
	}
}

// Each alert has a section in docs/alerts.md, and docs/alerts.md has no other.
func TestAlertsHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, For          string
				Labels, Annotations map[string]string
			}
		}
	}
	readYAML(t, "fleet/files/alerts.yaml", &rules)
	var alerts, sections []string
	for _, r := range rules.Groups[0].Rules {
		alerts = append(alerts, r.Alert)
		if !strings.HasSuffix(r.Annotations["runbook_url"], "docs/alerts.md#"+strings.ToLower(r.Alert)) || r.Annotations["summary"] == "" ||
			r.For == "" || !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: %+v", r.Alert, r)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^## (Fleet\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections = append(sections, found[1])
	}
	if !slices.Equal(alerts, sections) {
		t.Errorf("alerts %v, sections of docs/alerts.md %v", alerts, sections)
	}
}

// The chart makes a ServiceMonitor, a PrometheusRule and dashboards only where its values
// ask for them.
func TestMonitoringObjects(t *testing.T) {
	on := map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}
	all := map[string]any{"serviceMonitor": on, "prometheusRule": on, "dashboards": map[string]any{"enabled": true, "namespace": "monitoring"}, "allObjects": true}
	keys := []string{"ServiceMonitor/cattle-fleet-system/fleet", "PrometheusRule/cattle-fleet-system/fleet", "ConfigMap/monitoring/fleet-dashboards"}
	objects := mustRender(t, fleetRelease(map[string]any{"metrics": all, "shards": []any{map[string]any{"id": "blue"}}}))
	for _, key := range keys {
		if objects[key] == nil {
			t.Fatalf("no %s", key)
		}
	}
	values, _, _ := unstructured.NestedSlice(objects[keys[0]].Object, "spec", "selector", "matchExpressions")
	want := []any{"fleet-controller", "gitjob", "helmops", "fleet-controller-shard-blue", "gitjob-shard-blue", "helmops-shard-blue"}
	if diff := cmp.Diff(want, values[0].(map[string]any)["values"]); diff != "" {
		t.Error(diff)
	}
	groups, _, _ := unstructured.NestedSlice(objects[keys[1]].Object, "spec", "groups")
	if len(groups) != 1 || objects[keys[1]].GetLabels()["release"] != "prometheus" {
		t.Errorf("PrometheusRule: %v", objects[keys[1]])
	}
	data, _, _ := unstructured.NestedStringMap(objects[keys[2]].Object, "data")
	for name, text := range data {
		if !json.Valid([]byte(text)) {
			t.Errorf("dashboard %s is no JSON", name)
		}
	}
	if len(data) != 2 || objects[keys[2]].GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("dashboards %d, labels %v", len(data), objects[keys[2]].GetLabels())
	}
	var d appsv1.Deployment
	into(t, objects["Deployment/cattle-fleet-system/fleet-controller"], &d)
	if !slices.Contains(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "FLEET_METRICS_ALL_OBJECTS", Value: "true"}) {
		t.Error("metrics.allObjects does not reach fleet-controller")
	}
	all["enabled"] = false
	for name, values := range map[string]map[string]any{"Default": nil, "MetricsOff": {"metrics": all}} {
		objects := mustRender(t, fleetRelease(values))
		for _, key := range keys {
			if objects[key] != nil {
				t.Errorf("%s: there is %s", name, key)
			}
		}
	}
}

// What docs/metrics.md has for Prometheus finds the Services and pods of the chart, and
// no other port of theirs.
func TestMonitoring(t *testing.T) {
	objects := mustRender(t, fleetRelease(map[string]any{"shards": []any{map[string]any{"id": "blue"}}}))
	var monitor struct {
		Metadata metav1.ObjectMeta
		Spec     struct {
			Selector  metav1.LabelSelector
			Endpoints []struct {
				Port        string
				HonorLabels bool
			}
		}
	}
	block(t, "kind: ServiceMonitor", &monitor)
	var scrape struct {
		ScrapeConfigs []struct {
			HonorLabels    bool `json:"honor_labels"`
			RelabelConfigs []struct {
				Regex string
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	block(t, "scrape_configs:", &scrape)
	keep := regexp.MustCompile("^(?:" + scrape.ScrapeConfigs[0].RelabelConfigs[0].Regex + ")$")
	if !monitor.Spec.Endpoints[0].HonorLabels || !scrape.ScrapeConfigs[0].HonorLabels {
		t.Error("the label namespace of a family would be that of the manager")
	}
	apps := monitor.Spec.Selector.MatchExpressions[0].Values
	for _, name := range []string{"fleet-controller", "gitjob", "helmops", "fleet-controller-shard-blue", "gitjob-shard-blue", "helmops-shard-blue"} {
		var s corev1.Service
		into(t, objects["Service/cattle-fleet-system/monitoring-"+name], &s)
		base, _, _ := strings.Cut(name, "-shard-")
		if !slices.Contains(apps, base) || s.Labels["app"] != name || s.Namespace != monitor.Metadata.Namespace || s.Spec.Ports[0].Name != monitor.Spec.Endpoints[0].Port {
			t.Errorf("the ServiceMonitor does not find Service %s: %v, port %q", s.Name, s.Labels, s.Spec.Ports[0].Name)
		}
		var d appsv1.Deployment
		into(t, objects["Deployment/cattle-fleet-system/"+name], &d)
		var kept []string
		for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
			if keep.MatchString(d.Spec.Template.Labels["app"] + ";" + p.Name) {
				kept = append(kept, p.Name)
			}
		}
		if !slices.Equal(kept, []string{"metrics"}) {
			t.Errorf("the job scrapes of %s the ports %v", name, kept)
		}
	}
}
