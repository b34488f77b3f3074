package charts_test

import (
	"slices"
	"strings"
	"testing"
)

// referenceValues are all values of the reference's charts, v0.16, with the
// defaults that they have there. Nil is a value that is not set there.
var referenceValues = map[string]map[string]any{
	"fleet": {
		"image.repository": "rancher/fleet", "image.tag": "dev", "image.imagePullPolicy": "IfNotPresent",
		"agentImage.repository": "rancher/fleet-agent", "agentImage.tag": "dev", "agentImage.imagePullPolicy": "IfNotPresent",
		"apiServerURL": "", "apiServerCA": "", "agentTLSMode": "system-store", "agentCheckinInterval": "15m",
		"garbageCollectionInterval": "15m", "ignoreClusterRegistrationLabels": false, "clusterEnqueueDelay": nil,
		"proxy": nil, "noProxy": "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,.svc,.cluster.local", "proxyCACert": nil,
		"gitClientTimeout": "30s", "bootstrap.enabled": true, "bootstrap.namespace": "fleet-local", "bootstrap.agentNamespace": "",
		"bootstrap.localAgentDisabled": false, "bootstrap.clusterLabels": map[string]any{}, "bootstrap.repo": "", "bootstrap.secret": "",
		"bootstrap.branch": "master", "bootstrap.paths": "", "global.cattle.systemDefaultRegistry": "", "global.cattle.imagePullSecrets": []any{},
		"nodeSelector": map[string]any{}, "tolerations": []any{}, "affinity": map[string]any{}, "priorityClassName": "",
		"resources": map[string]any{}, "insecureSkipHostKeyChecks": false, "additionalKnownHosts": []any{},
		"gitops.enabled": true, "gitops.syncPeriod": "2h", "metrics.enabled": true,
		"debug": false, "debugLevel": 0, "propagateDebugSettingsToAgents": true, "disableSecurityContext": false,
		"migrations.clusterRegistrationCleanup": true, "migrations.gitrepoJobsCleanup": true, "migrations.gitrepoHelmURLRegexMigration": true,
		"leaderElection.leaseDuration": "30s", "leaderElection.retryPeriod": "10s", "leaderElection.renewDeadline": "25s",
		"controller.replicas": 1, "controller.registrationTokenTTL.required": false,
		"controller.reconciler.workers.gitrepo": "50", "controller.reconciler.workers.bundle": "50",
		"controller.reconciler.workers.bundledeployment": "50", "controller.reconciler.workers.cluster": "50",
		"controller.reconciler.workers.clustergroup": "50", "controller.reconciler.workers.imagescan": "50",
		"controller.reconciler.workers.schedule": "50", "controller.reconciler.workers.content": "50",
		"gitjob.replicas": 1, "helmops.replicas": 1, "helmops.enabled": true, "imagescan.enabled": false,
		"agent.replicas": 1, "agent.reconciler.workers.bundledeployment": "50", "agent.reconciler.workers.drift": "50",
		"agent.leaderElection.leaseDuration": "30s", "agent.leaderElection.retryPeriod": "10s", "agent.leaderElection.renewDeadline": "25s",
		"extraEnv": nil, "shards": nil, "extraLabels.fleetController": nil, "extraLabels.gitjob": nil, "extraLabels.helmops": nil,
		"extraAnnotations.fleetController": nil, "extraAnnotations.gitjob": nil, "extraAnnotations.helmops": nil,
	},
	"fleet-agent": {
		"image.os": "windows,linux", "image.repository": "rancher/fleet-agent", "image.tag": "dev",
		"agentTLSMode": "system-store", "garbageCollectionInterval": "15m",
		"proxy": nil, "noProxy": "127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,.svc,.cluster.local",
		"labels": nil, "clientID": "", "systemRegistrationNamespace": "cattle-fleet-clusters-system",
		"internal.systemNamespace": "cattle-fleet-system", "internal.managedReleaseName": "fleet-agent",
		"fleetAgent.nodeSelector": map[string]any{}, "fleetAgent.tolerations": []any{}, "fleetAgent.hostNetwork": false,
		"kubectl.nodeSelector":                map[string]any{},
		"kubectl.tolerations":                 []any{map[string]any{"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Equal", "value": "true", "effect": "NoSchedule"}},
		"global.cattle.systemDefaultRegistry": "", "debug": false, "debugLevel": 0, "disableSecurityContext": false,
		"agent.replicas": 1, "agent.reconciler.workers.bundledeployment": "50", "agent.reconciler.workers.drift": "50",
		"leaderElection.leaseDuration": "30s", "leaderElection.retryPeriod": "10s", "leaderElection.renewDeadline": "25s",
	},
}

// otherDefaults are the values whose default differs from the reference's, and
// why. docs/decisions/0042 says the same.
var otherDefaults = map[string]string{
	"image.repository": "our own image", "image.tag": "the chart's version", "agentImage.repository": "our own image", "agentImage.tag": "the chart's version",
	"image.os":                              "images are for Linux",
	"agentCheckinInterval":                  "so that a cluster is known to be offline",
	"controller.reconciler.workers.gitrepo": "its own number", "controller.reconciler.workers.bundle": "its own number",
	"agent.reconciler.workers.bundledeployment": "its own number",
}

// Every value of the reference is one of ours, with the same default except for
// those above, and the reference's defaults are accepted: an upgrade with the
// values of the installed release passes all of them.
func TestReferenceValues(t *testing.T) {
	for chart, all := range referenceValues {
		ours := defaults(t, chart)
		together := map[string]any{}
		for path, value := range all {
			have, ok := ours[path]
			if !ok {
				t.Errorf("%s: no value %s", chart, path)
			}
			if !same(have, value) && otherDefaults[path] == "" {
				t.Errorf("%s: %s is %v by default, and %v in the reference", chart, path, have, value)
			}
			if value == nil {
				continue // not set there, so not passed either
			}
			merge(together, set(path, value))
		}
		if _, err := of(chart, together).render(); err != nil {
			t.Errorf("%s: the reference's defaults are refused: %v", chart, err)
		}
	}
}

// given are the values of the reference that nothing here could act on: another
// value than these is refused, and the text says why.
var given = map[string]map[string]any{
	"fleet": {
		"garbageCollectionInterval": "1h", "clusterEnqueueDelay": "2m", "gitops.syncPeriod": "10m",
		"resources.fleetCleanup":                map[string]any{"limits": map[string]any{"cpu": "1"}},
		"resources.fleetAgentmanagement":        map[string]any{"limits": map[string]any{"cpu": "1"}},
		"migrations.clusterRegistrationCleanup": false, "migrations.gitrepoJobsCleanup": false, "migrations.gitrepoHelmURLRegexMigration": false,
		"controller.reconciler.workers.bundledeployment": "100", "controller.reconciler.workers.cluster": 100,
		"controller.reconciler.workers.clustergroup": "1",
		"controller.reconciler.workers.schedule":     "1", "controller.reconciler.workers.content": "1", "agent.reconciler.workers.drift": "1",
	},
	"fleet-agent": {
		"garbageCollectionInterval": "1h", "agent.reconciler.workers.drift": "1", "kubectl.nodeSelector": map[string]any{"a": "b"},
	},
}

func TestGiven(t *testing.T) {
	for chart, all := range given {
		for path, value := range all {
			_, err := of(chart, set(path, value)).render()
			if err == nil || !strings.Contains(err.Error(), path+" must not be ") {
				t.Errorf("%s: %s=%v: got %v", chart, path, value, err)
			}
			if _, err := of(chart, set(path, nil)).render(); err != nil {
				t.Errorf("%s: %s taken away: %v", chart, path, err)
			}
		}
	}
}

// defaults are the values of a chart, by path. Empty maps are values.
func defaults(t *testing.T, chart string) map[string]any {
	t.Helper()
	out := map[string]any{}
	paths := leaves(t, chart)
	values := valuesOf(t, chart)
	for _, path := range paths {
		at := any(values)
		for _, key := range strings.Split(path, ".") {
			at = at.(map[string]any)[key]
		}
		out[path] = at
	}
	return out
}

// same reports whether two defaults mean the same: what is not set is empty.
func same(a, b any) bool {
	empty := func(v any) bool {
		switch x := v.(type) {
		case nil:
			return true
		case string:
			return x == ""
		case []any:
			return len(x) == 0
		case map[string]any:
			return len(x) == 0
		}
		return false
	}
	if empty(a) && empty(b) {
		return true
	}
	left, right := []any{a}, []any{b}
	if l, ok := a.([]any); ok {
		left = l
	}
	if r, ok := b.([]any); ok {
		right = r
	}
	return slices.EqualFunc(left, right, equal)
}

func equal(a, b any) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return a == b
	}
	if len(x) != len(y) {
		return false
	}
	for k := range x {
		if x[k] != y[k] {
			return false
		}
	}
	return true
}

// merge puts the values of from into into.
func merge(into, from map[string]any) {
	for k, v := range from {
		sub, ok := v.(map[string]any)
		have, ok2 := into[k].(map[string]any)
		if ok && ok2 {
			merge(have, sub)
			continue
		}
		into[k] = v
	}
}

// added are the values of the reference's chart fleet that v0.13 does not have. Versions up to
// v0.16 only add values, so those between have some of these.
var added = []string{
	"bootstrap.localAgentDisabled", "bootstrap.clusterLabels", "affinity", "resources", "proxyCACert", "additionalKnownHosts",
	"global.cattle.imagePullSecrets", "migrations.gitrepoHelmURLRegexMigration", "controller.registrationTokenTTL.required",
	"controller.reconciler.workers.schedule", "controller.reconciler.workers.content", "imagescan.enabled",
}

// former are values that the charts of the reference had before v0.13, or that Rancher passed
// to them, and that are still in files of users. They are accepted.
var former = map[string]map[string]any{
	"fleet": {
		"gitjob.proxy": "http://p:1", "gitjob.noProxy": "x", "global.imagePullPolicy": "Always", "global.cattle.clusterId": "local",
		"global.cattle.psp.enabled": false,
	},
	"fleet-agent": {"global.kubectl.repository": "rancher/kubectl", "global.kubectl.tag": "v1.29.0"},
	"fleet-crd":   {"global.cattle.clusterId": "local", "global.cattle.systemDefaultRegistry": "reg", "tolerations": []any{map[string]any{"key": "a", "operator": "Exists"}}},
}

// A values file of the first and the last of these versions of the reference is accepted, with
// its defaults and with what only older versions and Rancher have.
func TestValuesFilesOfTheReference(t *testing.T) {
	for version, without := range map[string][]string{"v0.13": added, "v0.16": nil} {
		for chart, all := range referenceValues {
			file := map[string]any{}
			for path, value := range all {
				if value != nil && !slices.Contains(without, path) {
					merge(file, set(path, value))
				}
			}
			for path, value := range former[chart] {
				merge(file, set(path, value))
			}
			if _, err := of(chart, file).render(); err != nil {
				t.Errorf("%s: a values file of %s is refused: %v", chart, version, err)
			}
		}
	}
	for _, path := range added {
		if _, ok := referenceValues["fleet"][path]; !ok {
			t.Errorf("%s is no value of the reference", path)
		}
	}
	kinds := release{chart: "fleet-crd", name: "fleet-crd", namespace: "cattle-fleet-system", values: map[string]any{}}
	for path, value := range former["fleet-crd"] {
		merge(kinds.values, set(path, value))
	}
	if _, err := kinds.render(); err != nil {
		t.Errorf("fleet-crd: %v", err)
	}
}

// docs/charts.md says of each value that nothing acts on that it has no effect: in its row, in
// that of a map above it, or in the row before it that begins such a group.
func TestValuesWithoutEffectAreExplained(t *testing.T) {
	for chart, all := range given {
		have, _ := section(t, "../docs/charts.md", "values of "+chart, "")
		explained := map[string]bool{}
		group := "" // the map of the last row that says this of the next ones, too
		for _, row := range strings.Split(have, "\n") {
			cells := strings.Split(row, " | ")
			path := strings.Trim(cells[0], "|` ")
			parent := path[:max(strings.LastIndex(path, "."), 0)]
			says := strings.Contains(row, "no effect") || strings.Contains(row, "must be empty")
			if strings.Contains(row, "the next ones have no effect") {
				group = parent
			}
			explained[path] = says || explained[parent] || group != "" && group == parent
		}
		for path := range all {
			if parent, _, _ := strings.Cut(path, "."); !explained[path] && !explained[parent] {
				t.Errorf("%s: docs/charts.md does not say that %s has no effect", chart, path)
			}
		}
	}
}
