package charts_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for _, name := range []string{"fleet-controller", "gitjob", "fleet-controller-shard-blue", "gitjob-shard-blue"} {
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
