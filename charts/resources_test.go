package charts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type obj = map[string]any

// container is the only container of a Deployment.
func container(t *testing.T, objects map[string]*unstructured.Unstructured, name string) obj {
	t.Helper()
	d := objects["Deployment/cattle-fleet-system/"+name]
	if d == nil {
		t.Fatalf("there is no Deployment %s", name)
	}
	all, _, err := unstructured.NestedSlice(d.Object, "spec", "template", "spec", "containers")
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d containers, %v", name, len(all), err)
	}
	return all[0].(obj)
}

// TestResources: every pod has requests and a limit of memory, and what is given
// takes the place of all of them: a small limit must not meet a larger request.
func TestResources(t *testing.T) {
	memory := func(limit string) obj { return obj{"limits": obj{"memory": limit}} }
	both := func(limit, cpu, request string) obj {
		return obj{"limits": obj{"memory": limit}, "requests": obj{"cpu": cpu, "memory": request}}
	}
	manager, gitjob, agent := both("4Gi", "100m", "128Mi"), both("4Gi", "50m", "128Mi"), both("2Gi", "10m", "96Mi")
	for name, c := range map[string]struct {
		given           any // value resources of both charts
		manager, gitjob obj
		agent           obj
	}{
		"Defaults":   {obj{}, manager, gitjob, agent},
		"Null":       {nil, manager, gitjob, agent},
		"Both":       {memory("64Mi"), memory("64Mi"), memory("64Mi"), memory("64Mi")},
		"One":        {obj{"gitjob": memory("1Gi")}, manager, memory("1Gi"), nil},
		"None":       {obj{"fleetController": obj{}, "gitjob": obj{}}, obj{}, obj{}, nil},
		"OneOfBoth":  {obj{"limits": obj{"memory": "1Gi"}, "gitjob": memory("3Gi")}, memory("1Gi"), memory("3Gi"), nil},
		"NoneOfBoth": {obj{"limits": obj{}}, obj{"limits": obj{}}, obj{"limits": obj{}}, obj{"limits": obj{}}},
	} {
		t.Run(name, func(t *testing.T) {
			values := obj{"resources": c.given}
			objects := mustRender(t, fleetRelease(values))
			for deployment, want := range map[string]obj{"fleet-controller": c.manager, "gitjob": c.gitjob} {
				if diff := cmp.Diff(any(want), container(t, objects, deployment)["resources"]); diff != "" {
					t.Errorf("%s: -want +got\n%s", deployment, diff)
				}
			}
			if c.agent == nil {
				return
			}
			if diff := cmp.Diff(any(c.agent), container(t, mustRender(t, agentRelease(values)), "fleet-agent")["resources"]); diff != "" {
				t.Errorf("fleet-agent: -want +got\n%s", diff)
			}
		})
	}
}

// TestMemoryLimitOfGo: a GOMEMLIMIT of extraEnv is the only one.
func TestMemoryLimitOfGo(t *testing.T) {
	own := obj{"name": "GOMEMLIMIT", "value": "1GiB"}
	objects := mustRender(t, fleetRelease(obj{"extraEnv": []any{own}}))
	for _, name := range []string{"fleet-controller", "gitjob"} {
		var found []any
		for _, e := range container(t, objects, name)["env"].([]any) {
			if e.(obj)["name"] == "GOMEMLIMIT" {
				found = append(found, e)
			}
		}
		if diff := cmp.Diff([]any{own}, found); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
