package options_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

type opts = fleet.BundleDeploymentOptions

func helm(h fleet.HelmOptions) opts { return opts{Helm: &h} }

func values(kv ...any) *fleet.GenericMap {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	return &fleet.GenericMap{Data: m}
}

func object(kv ...any) map[string]any { return values(kv...).Data }

func fromConfigMap(namespace, name, key string) fleet.ValuesFrom {
	ref := &fleet.ConfigMapKeySelector{Namespace: namespace, Key: key}
	ref.Name = name
	return fleet.ValuesFrom{ConfigMapKeyRef: ref}
}

func fromSecret(namespace, name, key string) fleet.ValuesFrom {
	ref := &fleet.SecretKeySelector{Namespace: namespace, Key: key}
	ref.Name = name
	return fleet.ValuesFrom{SecretKeyRef: ref}
}

func TestMerge(t *testing.T) {
	patch := func(kind string, pointers ...string) fleet.ComparePatch {
		return fleet.ComparePatch{APIVersion: "v1", Kind: kind, Namespace: "ns", Name: "n", JsonPointers: pointers}
	}
	diff := func(p ...fleet.ComparePatch) opts { return opts{Diff: &fleet.DiffOptions{ComparePatches: p}} }
	yes := true
	tests := map[string]struct {
		base, custom, want opts
		why                string
	}{
		"Nothing": {opts{}, opts{}, opts{}, "no helm block may appear: it is part of the id"},
		"Texts": {opts{DefaultNamespace: "a", TargetNamespace: "b", ServiceAccount: "c"},
			opts{DefaultNamespace: "x", TargetNamespace: "y", ServiceAccount: "z"},
			opts{DefaultNamespace: "x", TargetNamespace: "y", ServiceAccount: "z"}, "what is closer to the cluster wins"},
		"EmptyTexts": {opts{DefaultNamespace: "a", TargetNamespace: "b", ServiceAccount: "c"}, opts{},
			opts{DefaultNamespace: "a", TargetNamespace: "b", ServiceAccount: "c"}, "empty means not said"},
		"HelmTexts": {helm(fleet.HelmOptions{Repo: "a", Chart: "b", Version: "c", ReleaseName: "d"}),
			helm(fleet.HelmOptions{Chart: "x", Version: "y"}),
			helm(fleet.HelmOptions{Repo: "a", Chart: "x", Version: "y", ReleaseName: "d"}), "each on its own"},
		"TimeoutSet":   {helm(fleet.HelmOptions{TimeoutSeconds: 5}), helm(fleet.HelmOptions{TimeoutSeconds: 7}), helm(fleet.HelmOptions{TimeoutSeconds: 7}), "a positive one replaces"},
		"TimeoutKept":  {helm(fleet.HelmOptions{TimeoutSeconds: 5}), helm(fleet.HelmOptions{}), helm(fleet.HelmOptions{TimeoutSeconds: 5}), "0 means not said"},
		"TimeoutReset": {helm(fleet.HelmOptions{TimeoutSeconds: 5}), helm(fleet.HelmOptions{TimeoutSeconds: -1}), helm(fleet.HelmOptions{}), "the only way back to 0"},
		"Values": {helm(fleet.HelmOptions{Values: values("a", object("b", 1.0, "c", 2.0), "l", []any{1.0})}),
			helm(fleet.HelmOptions{Values: values("a", object("c", 3.0, "d", 4.0), "l", []any{2.0})}),
			helm(fleet.HelmOptions{Values: values("a", object("b", 1.0, "c", 3.0, "d", 4.0), "l", []any{2.0})}),
			"maps are merged, lists replaced"},
		"ValuesOfOtherKind": {helm(fleet.HelmOptions{Values: values("a", object("b", 1.0), "c", "text")}),
			helm(fleet.HelmOptions{Values: values("a", nil, "c", object("d", 1.0))}),
			helm(fleet.HelmOptions{Values: values("a", nil, "c", object("d", 1.0))}), "null is how Helm unsets a key"},
		"ValuesNew":   {opts{}, helm(fleet.HelmOptions{Values: values("a", 1.0)}), helm(fleet.HelmOptions{Values: values("a", 1.0)}), "a cluster may bring the first values"},
		"ValuesEmpty": {opts{}, helm(fleet.HelmOptions{Values: values()}), helm(fleet.HelmOptions{Values: values()}), "an empty object is part of the id"},
		"TemplateValues": {helm(fleet.HelmOptions{TemplateValues: map[string]string{"a": "1", "b": "2"}}),
			helm(fleet.HelmOptions{TemplateValues: map[string]string{"b": "3"}}),
			helm(fleet.HelmOptions{TemplateValues: map[string]string{"a": "1", "b": "3"}}), "per key"},
		"TemplateValuesNew": {helm(fleet.HelmOptions{}), helm(fleet.HelmOptions{TemplateValues: map[string]string{"b": "3"}}),
			helm(fleet.HelmOptions{TemplateValues: map[string]string{"b": "3"}}), "per key"},
		"ValuesFrom": {
			helm(fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{fromConfigMap("n", "a", "k"), fromSecret("n", "a", "k")}}),
			helm(fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{fromConfigMap("n", "b", "k"), fromSecret("n", "a", "k"), fromConfigMap("n", "b", "k"), fromConfigMap("m", "a", "k")}}),
			helm(fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{fromConfigMap("n", "a", "k"), fromSecret("n", "a", "k"), fromConfigMap("n", "b", "k"), fromConfigMap("m", "a", "k")}}),
			"kind, namespace, name and key are the identity; order is precedence"},
		"HelmFlags": {helm(fleet.HelmOptions{Force: true, Atomic: true}),
			helm(fleet.HelmOptions{TakeOwnership: true, DisablePreProcess: true, WaitForJobs: true, DisableDNS: true}),
			helm(fleet.HelmOptions{Force: true, Atomic: true, TakeOwnership: true, DisablePreProcess: true, WaitForJobs: true, DisableDNS: true}),
			"on if either is"},
		"HelmIgnored": {opts{}, helm(fleet.HelmOptions{MaxHistory: 9, SkipSchemaValidation: true, DisableDependencyUpdate: true, ValuesFiles: []string{"f"}}),
			helm(fleet.HelmOptions{}), "ids of existing deployments are made without these"},
		"Ignored": {opts{DeleteNamespace: true, NamespaceLabels: map[string]string{"a": "1"}},
			opts{
				DeleteNamespace: true, DeleteCRDResources: true, CreateNamespace: &yes,
				IgnoreOptions:   fleet.IgnoreOptions{Conditions: []map[string]string{{"type": "A"}}},
				NamespaceLabels: map[string]string{"b": "2"}, NamespaceAnnotations: map[string]string{"b": "2"},
				Overwrites: []fleet.OverwrittenResource{{Name: "n"}}, AllowedTargetNamespaceSelector: &metav1.LabelSelector{},
			},
			opts{DeleteNamespace: true, NamespaceLabels: map[string]string{"a": "1"}}, "ids of existing deployments are made without these"},
		"Kustomize":      {opts{Kustomize: &fleet.KustomizeOptions{Dir: "a"}}, opts{Kustomize: &fleet.KustomizeOptions{Dir: "b"}}, opts{Kustomize: &fleet.KustomizeOptions{Dir: "b"}}, "what is closer to the cluster wins"},
		"KustomizeEmpty": {opts{Kustomize: &fleet.KustomizeOptions{Dir: "a"}}, opts{Kustomize: &fleet.KustomizeOptions{}}, opts{Kustomize: &fleet.KustomizeOptions{Dir: "a"}}, "empty means not said"},
		"Overlays":       {opts{YAML: &fleet.YAMLOptions{Overlays: []string{"a"}}}, opts{YAML: &fleet.YAMLOptions{Overlays: []string{"a", "b"}}}, opts{YAML: &fleet.YAMLOptions{Overlays: []string{"a", "a", "b"}}}, "applied in order, the cluster's last"},
		"Diff": {diff(patch("A", "/a"), patch("B", "/b")), diff(patch("B", "/x"), patch("C", "/c"), patch("C", "/d")),
			diff(patch("A", "/a"), patch("B", "/x"), patch("C", "/c")), "the same object is replaced where it stands"},
		"Generation":     {opts{ForceSyncGeneration: 3}, opts{ForceSyncGeneration: 2}, opts{ForceSyncGeneration: 2}, "a positive one replaces"},
		"GenerationKept": {opts{ForceSyncGeneration: 3}, opts{}, opts{ForceSyncGeneration: 3}, "0 means not said"},
		"Keep":           {opts{KeepResources: true}, opts{}, opts{KeepResources: true}, "on if either is"},
		"Empty":          {opts{AllowEmpty: true}, opts{}, opts{AllowEmpty: true}, "on if either is"},
		"EmptyHere":      {opts{}, opts{AllowEmpty: true}, opts{AllowEmpty: true}, "a person may mean it of one cluster"},
		"Drift":          {opts{CorrectDrift: &fleet.CorrectDrift{Enabled: true, Force: true}}, opts{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}, opts{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}, "replaced as a whole"},
		"DriftKept":      {opts{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}, opts{}, opts{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}, "not said"},
		"Downstream": {opts{DownstreamResources: []fleet.DownstreamResource{{Kind: "Secret", Name: "a"}}},
			opts{DownstreamResources: []fleet.DownstreamResource{{Kind: "secret", Name: "a"}, {Kind: "ConfigMap", Name: "a"}}},
			opts{DownstreamResources: []fleet.DownstreamResource{{Kind: "secret", Name: "a"}, {Kind: "ConfigMap", Name: "a"}}}, "kinds are compared in any case"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			base, custom := *c.base.DeepCopy(), *c.custom.DeepCopy()
			got := options.Merge(base, custom)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n-want +got: %s", c.why, d)
			}
			scribble(&got)
			if d := cmp.Diff([]opts{c.base, c.custom}, []opts{base, custom}); d != "" {
				t.Errorf("an argument changed: %s", d)
			}
		})
	}
}

// scribble changes what options point at.
func scribble(o *opts) {
	if o.Helm != nil {
		if o.Helm.Values != nil {
			o.Helm.Values.Data["scribble"] = true
			if a, ok := o.Helm.Values.Data["a"].(map[string]any); ok {
				a["scribble"] = true
			}
		}
		for k := range o.Helm.TemplateValues {
			o.Helm.TemplateValues[k] = "scribble"
		}
		for _, v := range o.Helm.ValuesFrom {
			if v.SecretKeyRef != nil {
				v.SecretKeyRef.Name = "scribble"
			}
		}
	}
	if o.YAML != nil {
		o.YAML.Overlays[0] = "scribble"
	}
	if o.Diff != nil {
		for i := range o.Diff.ComparePatches {
			o.Diff.ComparePatches[i].JsonPointers[0] = "scribble"
		}
	}
	if o.CorrectDrift != nil {
		o.CorrectDrift.Force = !o.CorrectDrift.Force
	}
	for k := range o.NamespaceLabels {
		o.NamespaceLabels[k] = "scribble"
	}
	for i := range o.DownstreamResources {
		o.DownstreamResources[i].Name = "scribble"
	}
}
