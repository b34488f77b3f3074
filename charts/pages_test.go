package charts_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// settings are the values that a page gives a chart with --set, in the block of
// commands that has a text.
func settings(t *testing.T, page, text string) obj {
	t.Helper()
	raw, err := os.ReadFile("../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(raw), "```sh\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, text) {
			continue
		}
		out := obj{}
		for _, m := range regexp.MustCompile(`--set (\S+)\.(\w+)=(\S+)`).FindAllStringSubmatch(block, -1) {
			group, ok := out[m[1]].(obj)
			if !ok {
				group = obj{}
				out[m[1]] = group
			}
			group[m[2]] = m[3]
		}
		return out
	}
	t.Fatalf("docs/%s has no commands with %q", page, text)
	return nil
}

// The upgrades that pages show use the images that the pages say, for the manager and
// for agents.
func TestImagesOfPages(t *testing.T) {
	registry := obj{"global": obj{"cattle": obj{"systemDefaultRegistry": "registry.example.com"}}}
	for name, c := range map[string]struct {
		values         obj
		manager, agent string
	}{
		"TakeoverEnds":    {settings(t, "takeover.md", "--reset-then-reuse-values"), "registry.example.com/fleet/fleet:v0.1.0", "registry.example.com/fleet/fleet-agent:v0.1.0"},
		"Rancher":         {settings(t, "rancher.md", "--set image.repository"), "registry.example.com/fleet/fleet:v0.1.0", "registry.example.com/fleet/fleet-agent:v0.1.0"},
		"RancherRegistry": {registry, "registry.example.com/fleetworkspace/fleet:v0.1.0", "fleetworkspace/fleet-agent:v0.1.0"}, // the manager adds the registry
	} {
		t.Run(name, func(t *testing.T) {
			objects := mustRender(t, fleetRelease(c.values))
			for _, deployment := range []string{"fleet-controller", "gitjob"} {
				var d appsv1.Deployment
				into(t, objects["Deployment/cattle-fleet-system/"+deployment], &d)
				if got := d.Spec.Template.Spec.Containers[0].Image; got != c.manager {
					t.Errorf("%s runs %s, want %s", deployment, got, c.manager)
				}
			}
			var m corev1.ConfigMap
			into(t, objects["ConfigMap/cattle-fleet-system/fleet-controller"], &m)
			if !strings.Contains(m.Data["config"], `"agentImage": "`+c.agent+`"`) {
				t.Errorf("agents do not run %s:\n%s", c.agent, m.Data["config"])
			}
		})
	}
}

// The pull Secret that docs/registration.md names reaches the agent's pod by the value
// that it names.
func TestPullSecretOfPages(t *testing.T) {
	raw, err := os.ReadFile("../docs/registration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), "--set 'global.cattle.imagePullSecrets[0].name=fleet-pull'") {
		t.Error("docs/registration.md names another value")
	}
	values := obj{"global": obj{"cattle": obj{"imagePullSecrets": []any{obj{"name": "fleet-pull"}}}}}
	var d appsv1.Deployment
	into(t, mustRender(t, agentRelease(values))["Deployment/cattle-fleet-system/fleet-agent"], &d)
	if s := d.Spec.Template.Spec.ImagePullSecrets; len(s) != 1 || s[0].Name != "fleet-pull" {
		t.Errorf("the agent pulls with %v", s)
	}
}
