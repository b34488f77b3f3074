package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deployed is an object of a kind, with the labels of its pods or its selector.
func deployed(apiVersion, kind, namespace string, labels map[string]any) Deployed {
	spec := map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{}}}
	meta := map[string]any{"name": "web"}
	switch kind {
	case "Service":
		spec = map[string]any{"selector": labels}
	case "CronJob":
		spec = map[string]any{"jobTemplate": map[string]any{"spec": spec}}
	case "Pod":
		spec, meta["labels"] = map[string]any{}, labels
	case "Database":
		spec = map[string]any{}
	}
	return Deployed{Namespace: namespace, Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta, "spec": spec}}
}

func TestServices(t *testing.T) {
	app := func(value string) map[string]any { return map[string]any{"app": value} }
	service := func(labels map[string]any) Deployed { return deployed("v1", "Service", "shop", labels) }
	web := deployed("apps/v1", "Deployment", "shop", map[string]any{"app": "web", "tier": "front"})
	foreign, external := service(app("db")), service(app("db"))
	foreign.Foreign = true
	external.Object["spec"].(map[string]any)["type"] = "ExternalName" //nolint:forcetypeassert // deployed sets it
	const none = "the selector selects no pod of the bundle: no workload in the same namespace has the labels "
	wbe := []Unselecting{{Index: 0, Message: none + "app=wbe", Hint: "the pods of Deployment web have app=web, tier=front"}}
	cases := map[string]struct {
		why     string
		objects []Deployed
		want    []Unselecting
	}{
		"Selects":  {"some labels of the pods are enough", []Deployed{service(app("web")), web}, nil},
		"Misspelt": {"the value is another one", []Deployed{service(app("wbe")), web}, wbe},
		"Nearest": {
			"of several workloads that which fits best is named", []Deployed{service(app("wbe")), deployed("apps/v1", "StatefulSet", "shop", app("database")), web}, wbe,
		},
		"AllOfThem": {
			"each label of the selector counts", []Deployed{service(map[string]any{"app": "web", "tier": "back"}), web},
			[]Unselecting{{Index: 0, Message: none + "app=web, tier=back", Hint: "the pods of Deployment web have app=web, tier=front"}},
		},
		"Pod":            {"a Pod is a workload", []Deployed{service(app("web")), deployed("v1", "Pod", "shop", app("web"))}, nil},
		"CronJob":        {"a Service may be for a job", []Deployed{service(app("job")), web, deployed("batch/v1", "CronJob", "shop", app("job"))}, nil},
		"OnlyJobs":       {"pods of another bundle may be meant", []Deployed{service(app("web")), deployed("batch/v1", "Job", "shop", app("job"))}, nil},
		"NoWorkload":     {"pods of another bundle are meant", []Deployed{service(app("web"))}, nil},
		"OtherNamespace": {"a Service selects in its own namespace", []Deployed{service(app("wbe")), deployed("apps/v1", "Deployment", "other", app("web"))}, nil},
		"NoSelector":     {"its endpoints are made by hand", []Deployed{service(nil), web}, nil},
		"ExternalName":   {"it is another name of a host", []Deployed{external, web}, nil},
		"Foreign":        {"users cannot mend a chart that they download", []Deployed{foreign, web}, nil},
		"RuntimeLabel": {
			"Kubernetes sets the label", []Deployed{service(map[string]any{"app": "web", "statefulset.kubernetes.io/pod-name": "web-0"}), web}, nil,
		},
		"Operator": {
			"an operator makes the pods", []Deployed{service(app("database")), web, deployed("example.com/v1", "Database", "shop", nil)}, nil,
		},
		"OperatorMisspelt": {
			"a selector that is nearly right is a mistake, also beside an operator", []Deployed{service(app("wbe")), web, deployed("example.com/v1", "Database", "shop", nil)}, wbe,
		},
		"CustomWorkload": {
			"a kind of a CRD that has a pod template makes pods", []Deployed{service(app("roll")), web, deployed("argoproj.io/v1alpha1", "Rollout", "shop", app("roll"))}, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Services(c.objects)); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.why, diff)
			}
		})
	}
}
