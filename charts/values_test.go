package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	yamlv3 "gopkg.in/yaml.v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// section returns the part of a document between two markers, and the whole
// with that part replaced.
func section(t *testing.T, path, name, replacement string) (have, replaced string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section %q", path, name)
	}
	return have, before + begin + replacement + end + after
}

// checkSection keeps a generated part of a document current.
func checkSection(t *testing.T, path, name, want string) {
	t.Helper()
	have, replaced := section(t, path, name, want)
	if *update {
		if err := os.WriteFile(path, []byte(replaced), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s, section %s is not what the code says; run this test with -update\n%s", path, name, diff)
	}
}

// TestValuesTable keeps the tables of values in docs/charts.md current: the
// text is that of the comments in values.yaml.
func TestValuesTable(t *testing.T) {
	for _, chart := range []string{"fleet-crd", "fleet", "fleet-agent"} {
		text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var doc yamlv3.Node
		if err := yamlv3.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		b.WriteString("| value | default | meaning |\n|---|---|---|\n")
		rows(&b, "", doc.Content[0])
		checkSection(t, filepath.Join("..", "docs", "charts.md"), "values of "+chart, b.String())
	}
}

// rows prints one row for each value below a mapping, and one for each mapping
// with a comment.
func rows(b *strings.Builder, prefix string, mapping *yamlv3.Node) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		text := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment, "#", "")), " ")
		text = strings.ReplaceAll(text, "|", "\\|")
		nested := value.Kind == yamlv3.MappingNode && len(value.Content) > 0
		if !nested {
			var plain any
			_ = value.Decode(&plain)
			shown, _ := json.Marshal(plain)
			fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", path, shown, text)
			continue
		}
		if text != "" {
			fmt.Fprintf(b, "| `%s` | | %s |\n", path, text)
		}
		rows(b, path+".", value)
	}
}

// TestValuesAct changes every value of both charts, one by one: each change
// shows in what is rendered. A value that nothing acts on is refused.
func TestValuesAct(t *testing.T) {
	changes := map[string]map[string]any{
		"fleet": {
			"image.repository": "x/y", "image.tag": "t", "image.imagePullPolicy": "Always",
			"agentImage.repository": "x/y", "agentImage.tag": "t", "agentImage.imagePullPolicy": "Always",
			"apiServerURL": "https://x", "apiServerCA": "PEM", "agentTLSMode": "strict", "agentCheckinInterval": "15m",
			"credentialTTL": "24h", "credentialGrace": "240h", "ignoreClusterRegistrationLabels": true, "registration.reclaim": "approve",
			"workspace.mode": "standalone", "takeover": true, "proxy": "http://p:1",
			"allowedReservedCIDRs": []any{"127.0.0.0/8"},
			"proxyCACert":          authority, "gitClientTimeout": "1m",
			"downstreamResources.requireLabel": true,
			"bootstrap.enabled":                false, "bootstrap.namespace": "other", "bootstrap.agentNamespace": "other",
			"bootstrap.localAgentDisabled": true, "bootstrap.clusterLabels": map[string]any{"a": "b"},
			"bootstrap.repo": "https://r", "bootstrap.secret": "s", "bootstrap.branch": "main", "bootstrap.paths": "a,b",
			"global.cattle.systemDefaultRegistry": "reg", "global.cattle.imagePullSecrets": []any{map[string]any{"name": "p"}},
			"nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}},
			"affinity": map[string]any{"nodeAffinity": map[string]any{}}, "priorityClassName": "high",
			"resources":            map[string]any{"limits": map[string]any{"memory": "1Gi"}},
			"additionalKnownHosts": []any{"example.com ssh-ed25519 AAAA"},
			"gitops.enabled":       false, "metrics.enabled": false, "metrics.allObjects": true,
			"metrics.serviceMonitor.enabled": true, "metrics.prometheusRule.enabled": true, "metrics.dashboards.enabled": true, "leaderElection.leaseDuration": "40s",
			"leaderElection.retryPeriod": "11s", "leaderElection.renewDeadline": "26s", "debug": true, "disableSecurityContext": true,
			"controller.replicas": 2, "controller.registrationTokenTTL.required": true, "gitjob.replicas": 2,
			"controller.reconciler.workers.bundle": "50", "controller.reconciler.workers.gitrepo": 50, "gitjob.proxy": "http://q:1",
			"admission.registrations": false, "admission.secrets": false, "admission.agents": false, "registration.maxPending": 5,
			"manageAgent": false, "agent.replicas": 2, "agent.reconciler.workers.bundledeployment": "50",
			"agent.leaderElection.leaseDuration": "40s", "agent.leaderElection.retryPeriod": "11s", "agent.leaderElection.renewDeadline": "26s",
			"gitjob.ingress.host":         "hooks.example.com",
			"debugLevel":                  1,
			"shards":                      []any{map[string]any{"id": "blue"}},
			"extraEnv":                    []any{map[string]any{"name": "A", "value": "b"}},
			"extraLabels.fleetController": map[string]any{"a": "b"}, "extraLabels.gitjob": map[string]any{"a": "b"},
			"extraAnnotations.fleetController": map[string]any{"a": "b"}, "extraAnnotations.gitjob": map[string]any{"a": "b"},
			"helmops.enabled": false, "helmops.replicas": 2, "imagescan.enabled": true, "insecureSkipHostKeyChecks": true,
			"extraLabels.helmops": map[string]any{"a": "b"}, "extraAnnotations.helmops": map[string]any{"a": "b"},
		},
		"fleet-agent": {
			"image.repository": "x/y", "image.tag": "t", "image.imagePullPolicy": "Always",
			"apiServerURL": "https://x", "apiServerCA": "other", "token": "other", "tokenName": "other",
			"clusterNamespace": "other", "systemRegistrationNamespace": "other", "agentTLSMode": "strict",
			"agentCheckinInterval": "15m", "labels": map[string]any{"a": "b"}, "clientID": "c", "proxy": "http://p:1",
			"resources":      map[string]any{"limits": map[string]any{"memory": "1Gi"}},
			"agent.replicas": 2, "metrics.port": 8080, "orphanPolicy": "collect", "debugLevel": 5,
			"agent.reconciler.workers.bundledeployment": 50, "leaderElection.leaseDuration": "40s",
			"leaderElection.retryPeriod": "11s", "leaderElection.renewDeadline": "26s",
			"fleetAgent.nodeSelector": map[string]any{"a": "b"},
			"fleetAgent.tolerations":  []any{map[string]any{"key": "a", "operator": "Exists"}},
			"fleetAgent.hostNetwork":  true, "global.cattle.systemDefaultRegistry": "reg",
			"global.cattle.imagePullSecrets": []any{map[string]any{"name": "p"}}, "debug": true, "disableSecurityContext": true,
		},
	}
	// These show only together with others, or in what is refused.
	elsewhere := map[string]bool{
		"controller.reconciler.workers.imagescan": true,
		"metrics.serviceMonitor.labels":           true, "metrics.serviceMonitor.interval": true, "metrics.prometheusRule.labels": true,
		"metrics.dashboards.namespace": true, "metrics.dashboards.labels.grafana_dashboard": true,
		"gitjob.noProxy": true, "gitjob.ingress.className": true, "gitjob.ingress.tlsSecret": true, "gitjob.ingress.annotations": true, "propagateDebugSettingsToAgents": true, "image.os": true, "kubectl.tolerations": true,
		"checkin.mode": true, "checkin.schedule": true, "checkin.timezone": true, "orphanGracePeriod": true, "noProxy": true, "internal.systemNamespace": true, "internal.managedReleaseName": true}
	for chart, all := range changes {
		plain := asYAML(t, mustRender(t, of(chart, nil)))
		for _, path := range leaves(t, chart) {
			change, ok := all[path]
			if !ok && !elsewhere[path] && given[chart][path] == nil {
				t.Errorf("%s: this test knows no change of %s", chart, path)
			}
			if !ok {
				continue
			}
			if got := asYAML(t, mustRender(t, of(chart, set(path, change)))); got == plain {
				t.Errorf("%s: a change of %s changes nothing", chart, path)
			}
		}
	}
	if got := configured(t, map[string]any{"debug": true, "propagateDebugSettingsToAgents": false}); got["agentDebug"] != false {
		t.Errorf("agents debug all the same: %v", got["agentDebug"])
	}
	if got := configured(t, map[string]any{"debugLevel": 2}); got["agentDebug"] != true {
		t.Errorf("agents do not debug with the manager: %v", got["agentDebug"])
	}
	with := asYAML(t, mustRender(t, fleetRelease(map[string]any{"proxy": "http://p:1", "gitjob": map[string]any{"proxy": "http://q:1", "noProxy": "only-git"}})))
	if strings.Count(with, "value: http://q:1\n") != 2 || strings.Count(with, "value: http://p:1\n") != 4 || strings.Count(with, "value: only-git\n") != 1 {
		t.Error("the process that reads git has no proxy of its own")
	}
	with = asYAML(t, mustRender(t, fleetRelease(map[string]any{"proxy": "http://p:1", "noProxy": "me"})))
	if strings.Count(with, "value: me\n") != 3 {
		t.Error("noProxy does not reach all processes")
	}
	with = asYAML(t, mustRender(t, fleetRelease(map[string]any{"allowedReservedCIDRs": []any{"127.0.0.0/8", "::1/128"}})))
	if strings.Count(with, "value: 127.0.0.0/8,::1/128\n") != 3 {
		t.Error("allowedReservedCIDRs does not reach all processes")
	}
	with = asYAML(t, mustRender(t, agentRelease(map[string]any{"orphanPolicy": "collect", "orphanGracePeriod": "2h"})))
	for _, arg := range []string{"--orphan-policy=collect\n", "--orphan-grace-period=2h\n"} {
		if !strings.Contains(with, arg) {
			t.Errorf("no %q for an agent that collects orphans", arg)
		}
	}
	with = asYAML(t, mustRender(t, agentRelease(map[string]any{
		"checkin": map[string]any{"mode": "poll", "schedule": "0 3 * * *", "timezone": "Europe/Berlin"},
	})))
	for _, arg := range []string{"--checkin-mode=poll\n", "--checkin-schedule=0 3 * * *", "--checkin-timezone=Europe/Berlin\n"} {
		if !strings.Contains(with, arg) {
			t.Errorf("no %q for an agent with a schedule", arg)
		}
	}
}

// TestShards: each shard has a process that deploys, one that reads and one for HelmOps, of
// its objects only; registration and cleaning up stay with the default one.
func TestShards(t *testing.T) {
	blue := map[string]any{"id": "blue", "nodeSelector": map[string]any{"pool": "blue", "size": "l"}}
	objects := mustRender(t, fleetRelease(map[string]any{
		"shards": []any{blue, blue, map[string]any{"id": "0"}}, "nodeSelector": map[string]any{"size": "s"}, // one id stands twice
	}))
	for name, want := range map[string][]string{
		"fleet-controller":            {"--roles=controller,agentmanagement,cleanup,workspace", "--namespace=cattle-fleet-system", "--workspace-mode=auto"},
		"fleet-controller-shard-blue": {"--roles=controller", "--namespace=cattle-fleet-system", "--shard-id=blue"},
		"fleet-controller-shard-0":    {"--roles=controller", "--namespace=cattle-fleet-system", "--shard-id=0"},
		"gitjob":                      {"--roles=gitjob", "--namespace=cattle-fleet-system"},
		"gitjob-shard-blue":           {"--roles=gitjob", "--namespace=cattle-fleet-system", "--shard-id=blue"},
		"helmops":                     {"--roles=helmops", "--namespace=cattle-fleet-system"},
		"helmops-shard-blue":          {"--roles=helmops", "--namespace=cattle-fleet-system", "--shard-id=blue"},
	} {
		var d appsv1.Deployment
		into(t, objects["Deployment/cattle-fleet-system/"+name], &d)
		if diff := cmp.Diff(want, d.Spec.Template.Spec.Containers[0].Args); diff != "" {
			t.Errorf("%s\n-want +got\n%s", name, diff)
		}
		var s corev1.Service
		if !strings.HasPrefix(name, "helmops") { // as in the reference, it has no Service
			into(t, objects["Service/cattle-fleet-system/monitoring-"+name], &s)
		}
		for label, value := range s.Spec.Selector {
			if d.Spec.Template.Labels[label] != value || d.Spec.Selector.MatchLabels[label] != value {
				t.Errorf("%s: the service selects %s=%s", name, label, value)
			}
		}
		if name == "gitjob-shard-blue" {
			on := map[string]string{"kubernetes.io/os": "linux", "pool": "blue", "size": "l"}
			if diff := cmp.Diff(on, d.Spec.Template.Spec.NodeSelector); diff != "" {
				t.Errorf("the shard's own selector counts before that of all\n-want +got\n%s", diff)
			}
		}
	}
	if n := strings.Count(asYAML(t, objects, "Deployment"), "kind: Deployment\n"); n != 9 {
		t.Errorf("%d Deployments", n)
	}
	without := asYAML(t, mustRender(t, fleetRelease(map[string]any{"shards": []any{blue}, "gitops": map[string]any{"enabled": false}})))
	if strings.Contains(without, "gitjob-shard-blue") {
		t.Error("a shard reads repositories although gitops is off")
	}
}

// authority is a certificate as far as the schema can check.
const authority = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// configured is the manager's configuration that the chart renders.
func configured(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	var m corev1.ConfigMap
	into(t, mustRender(t, fleetRelease(values))["ConfigMap/cattle-fleet-system/fleet-controller"], &m)
	var config map[string]any
	if err := json.Unmarshal([]byte(m.Data[fleet.KeyConfig]), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

func of(chart string, values map[string]any) release {
	if chart == "fleet" {
		return fleetRelease(values)
	}
	return agentRelease(values)
}

// valuesOf are the values of a chart as they stand in values.yaml.
func valuesOf(t *testing.T, chart string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yamlv3.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// leaves are the paths of a chart's values.
func leaves(t *testing.T, chart string) []string {
	t.Helper()
	var out []string
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if sub, ok := v.(map[string]any); ok && len(sub) > 0 {
				walk(prefix+k+".", sub)
				continue
			}
			out = append(out, prefix+k)
		}
	}
	walk("", valuesOf(t, chart))
	return out
}

// set is values with one path set.
func set(path string, value any) map[string]any {
	first, rest, nested := strings.Cut(path, ".")
	if nested {
		value = set(rest, value)
	}
	return map[string]any{first: value}
}

func TestRefusedValues(t *testing.T) {
	cases := map[string]struct {
		why     string
		release release
		want    string // in the error; empty: accepted
	}{
		"Typo":         {why: "a value that nothing reads is a mistake", release: fleetRelease(map[string]any{"aipServerURL": "https://x"}), want: "aipServerURL"},
		"Nested":       {why: "inside too", release: fleetRelease(set("controller.reconciler.workers.bundles", "50")), want: "bundles"},
		"Workers":      {why: "no worker would mean no work", release: fleetRelease(set("controller.reconciler.workers.bundle", "0")), want: "bundle"},
		"Authority":    {why: "a path is not a certificate", release: fleetRelease(set("proxyCACert", "/etc/ca.pem")), want: "proxyCACert"},
		"KeepIsTruth":  {why: "a word would be taken for true", release: release{chart: "fleet-crd", name: "fleet-crd", namespace: "cattle-fleet-system", values: set("keep", "no")}, want: "keep"},
		"HTTP":         {why: "agents send credentials there", release: fleetRelease(set("apiServerURL", "http://x")), want: "apiServerURL"},
		"Interval":     {why: "not a duration", release: fleetRelease(set("agentCheckinInterval", "soon")), want: "agentCheckinInterval"},
		"ZeroInterval": {why: "agents would never rest", release: fleetRelease(set("agentCheckinInterval", "0s")), want: "agentCheckinInterval"},
		"Reserved":     {why: "a name is no address", release: fleetRelease(map[string]any{"allowedReservedCIDRs": []any{"localhost"}}), want: "allowedReservedCIDRs"},
		"TLSMode":      {why: "one of two", release: fleetRelease(set("agentTLSMode", "none")), want: "agentTLSMode"},
		"ShardName":    {why: "its leases and Deployments could not be named so", release: fleetRelease(set("shards", []any{map[string]any{"id": "A_b"}})), want: "shards"},
		"NoShardName":  {why: "it would be a second manager of everything", release: fleetRelease(set("shards", []any{map[string]any{"nodeSelector": map[string]any{}}})), want: "id"},
		"Rancher": {why: "all that Rancher passes is accepted", release: fleetRelease(map[string]any{
			"apiServerURL": "https://rancher", "apiServerCA": "PEM", "agentTLSMode": "strict", "proxy": "http://p", "noProxy": "x",
			"global": map[string]any{"cattle": map[string]any{"systemDefaultRegistry": "", "imagePullSecrets": nil, "clusterId": "local"}},
			"gitops": map[string]any{"enabled": true}, "priorityClassName": "rancher-critical",
			"bootstrap":   map[string]any{"enabled": false, "agentNamespace": "cattle-fleet-local-system"},
			"tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}},
		})},
		"RancherKinds": {why: "Rancher passes tolerations to every chart that it installs", release: release{
			chart: "fleet-crd", name: "fleet-crd", namespace: "cattle-fleet-system", values: map[string]any{
				"tolerations": []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}},
				"global":      map[string]any{"cattle": map[string]any{"clusterId": "local"}},
			}}},
		"RancherBefore212": {why: "and what it passed to the process that reads git until 2.11", release: fleetRelease(map[string]any{
			"gitjob": map[string]any{"proxy": "http://p", "noProxy": "x"},
		})},
		"PollWithoutTimes": {why: "an agent would never connect", release: agentRelease(set("checkin.mode", "poll")), want: "checkin"},
		"TimesWithoutPoll": {why: "it would look as if they counted", release: agentRelease(set("checkin.schedule", "@hourly")), want: "checkin"},
		"NoURL":            {why: "an agent without a manager waits for ever", release: agentRelease(set("apiServerURL", "")), want: "apiServerURL is required"},
		"NoTokenName":      {why: "the manager would not know whom to answer", release: agentRelease(set("tokenName", "")), want: "tokenName is required"},
		"WrongRelease":     {why: "an upgrade would not find it", release: release{chart: "fleet-agent", name: "x", namespace: "cattle-fleet-system", values: agentRelease(nil).values}, want: "as release fleet-agent"},
		"WrongNamespace":   {why: "the agent looks in its own namespace only", release: release{chart: "fleet-agent", name: "fleet-agent", namespace: "default", values: agentRelease(nil).values}, want: "in namespace cattle-fleet-system"},
		"TokenValues": {why: "what the manager writes for a token is accepted as it is", release: agentRelease(map[string]any{
			"agentCheckinInterval": "5m0s", "internal": map[string]any{"systemNamespace": "cattle-fleet-system"},
		})},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := c.release.render()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: want %q, got %v", c.why, c.want, err)
			}
		})
	}
}

// TestConfigIsRead: what the chart writes for the manager is what the manager
// reads, without a warning.
func TestConfigIsRead(t *testing.T) {
	objects := mustRender(t, fleetRelease(map[string]any{
		"apiServerURL": "https://x", "apiServerCA": "PEM", "agentTLSMode": "strict", "agentCheckinInterval": "90s",
		"ignoreClusterRegistrationLabels": true, "manageAgent": false, "debug": true, "disableSecurityContext": true,
		"agent":     map[string]any{"replicas": 2, "reconciler": map[string]any{"workers": map[string]any{"bundledeployment": 20}}},
		"bootstrap": map[string]any{"paths": "a, b", "repo": "https://r", "clusterLabels": map[string]any{"env": "m"}},
		"global":    map[string]any{"cattle": map[string]any{"systemDefaultRegistry": "reg", "imagePullSecrets": []any{map[string]any{"name": "p"}}}},
	}))
	var m corev1.ConfigMap
	into(t, objects["ConfigMap/cattle-fleet-system/fleet-controller"], &m)
	got, warnings, err := registration.ParseSettings(m.Data[fleet.KeyConfig])
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := registration.Settings{
		SystemDefaultRegistry: "reg", AgentImage: "fleetworkspace/fleet-agent:v0.1.0", AgentImagePullPolicy: "IfNotPresent",
		APIServerURL: "https://x", APIServerCA: []byte("PEM"), AgentTLSMode: "strict", AgentCheckinInterval: 90e9,
		IgnoreClusterRegistrationLabels: true, ImagePullSecrets: []string{"p"}, Reclaim: registration.ReclaimAllow, TokensChecked: true, MaxPending: 1000,
		Bootstrap: registration.Bootstrap{
			Namespace: "fleet-local", AgentNamespace: "cattle-fleet-local-system", ClusterLabels: map[string]string{"env": "m"},
			Repo: "https://r", Branch: "master", Paths: []string{"a", "b"},
		},
		Credential: credential.Lifetimes{Grace: 720 * time.Hour}, AgentsUnmanaged: true, AgentReplicas: 2, AgentWorkers: "20",
		AgentDebug: true, AgentUnconfined: true, AgentLease: registration.LeaseTimes{Duration: "30s", Retry: "10s", Renew: "25s"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func into(t *testing.T, u *unstructured.Unstructured, o any) {
	t.Helper()
	if u == nil {
		t.Fatal("not rendered")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, o, true); err != nil {
		t.Fatal(err)
	}
}

// TestStrict: no rendered field is unknown to its kind.
func TestStrict(t *testing.T) {
	for _, r := range []release{fleetRelease(nil), agentRelease(nil)} {
		for key, u := range mustRender(t, r) {
			if u.GetKind() == "Deployment" {
				t.Log(key)
				into(t, u, &appsv1.Deployment{})
			}
		}
	}
}

// TestKnownHosts compares the keys of known hosts with the fingerprints that
// their owners publish.
func TestKnownHosts(t *testing.T) {
	published := map[string]string{
		"bitbucket.org ecdsa-sha2-nistp256": "SHA256:FC73VB6C4OQLSCrjEayhMp9UMxS97caD/Yyi2bhW/J0",
		"bitbucket.org ssh-ed25519":         "SHA256:ybgmFkzwOSotHTHLJgHO0QN8L0xErw6vd0VhFA9m3SM",
		"github.com ecdsa-sha2-nistp256":    "SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
		"github.com ssh-ed25519":            "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU",
		"gitlab.com ecdsa-sha2-nistp256":    "SHA256:HbW3g8zUjNSksFbqTiUWPWg2Bq1x8xdGUrliXFzSnUw",
		"gitlab.com ssh-ed25519":            "SHA256:eUXGGm1YGsMAS7vkcx6JOJdOGHPem5gQp4taiCfCLB8",
		"ssh.dev.azure.com ssh-rsa":         "SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og",
	}
	text, err := os.ReadFile("fleet/known_hosts")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for len(text) > 0 {
		_, hosts, key, _, rest, err := ssh.ParseKnownHosts(text)
		if err != nil {
			break
		}
		found[hosts[0]+" "+key.Type()] = ssh.FingerprintSHA256(key)
		text = rest
	}
	if diff := cmp.Diff(published, found); diff != "" {
		t.Error(diff)
	}
}
