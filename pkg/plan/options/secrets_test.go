package options_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

func target(name string, v *fleet.GenericMap) fleet.BundleTarget {
	t := fleet.BundleTarget{Name: name}
	if v != nil {
		t.Helm = &fleet.HelmOptions{Chart: "c", Values: v}
	}
	return t
}

func bundle(v *fleet.GenericMap, targets ...fleet.BundleTarget) fleet.BundleSpec {
	spec := fleet.BundleSpec{Targets: targets}
	if v != nil {
		spec.Helm = &fleet.HelmOptions{Chart: "c", Values: v}
	}
	return spec
}

func TestBundleValues(t *testing.T) {
	tests := map[string]struct {
		spec fleet.BundleSpec
		want map[string]string
		hash string
		why  string
	}{
		"Vector": {bundle(values("key", "value"), target("target", values("newkey", "value"))),
			map[string]string{"values.yaml": `{"key":"value"}`, "target": `{"newkey":"value"}`},
			"17e05a97acde825d03ca37c2b8fc1aecf3f8f9fde28c21702492c56d4d4a68f1", "known vector"},
		"None":       {bundle(nil, target("a", nil)), map[string]string{}, "", "no Secret is needed"},
		"Empty":      {bundle(values(), target("a", values())), map[string]string{}, "", "nothing worth a Secret"},
		"OnlyTarget": {bundle(nil, target("a", values("k", 1.0))), map[string]string{"a": `{"k":1}`}, "?", "a cluster may bring the first values"},
		"SameName": {bundle(nil, target("a", values("k", 1.0)), target("a", values("k", 2.0))),
			map[string]string{"a": `{"k":1}`, "target-001": `{"k":2}`}, "?", "names need not be unique, values must not get mixed up"},
		"NoKey": {bundle(values("k", 0.0), target("my target", values("k", 1.0)), target("values.yaml", values("k", 2.0)), target("", values("k", 3.0))),
			map[string]string{"values.yaml": `{"k":0}`, "target-000": `{"k":1}`, "target-001": `{"k":2}`, "target-002": `{"k":3}`}, "?",
			"a Secret's key cannot be any text"},
		"MadeUpNameTaken": {bundle(nil, target("my target", values("k", 1.0)), target("target-000", values("k", 2.0))),
			map[string]string{"target-000-": `{"k":1}`, "target-000": `{"k":2}`}, "?", "a made up key must not be a name"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := options.BundleValuesSecretData(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for k, v := range data {
				got[k] = string(v)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("%s\n-want +got: %s", c.why, d)
			}
			hash := options.BundleValuesHash(data)
			if c.hash != "?" && hash != c.hash || c.hash == "?" && len(hash) != 64 {
				t.Errorf("hash %q: %s", hash, c.why)
			}
			spec := *c.spec.DeepCopy()
			options.StripBundleValues(&spec)
			if stripped, err := options.BundleValuesSecretData(spec); len(stripped) > 0 || err != nil {
				t.Errorf("left after stripping: %v, %v", stripped, err)
			}
			if err := options.ApplyBundleValues(&spec, data); err != nil {
				t.Fatal(err)
			}
			again, err := options.BundleValuesSecretData(spec)
			if d := cmp.Diff(data, again); d != "" || err != nil {
				t.Errorf("after a round trip: %s, %v", d, err)
			}
		})
	}
}

func TestApplyBundleValues(t *testing.T) {
	spec := bundle(nil, target("a", nil))
	err := options.ApplyBundleValues(&spec, map[string][]byte{"a": []byte(`{"k":1}`), "gone": []byte(`{}`)})
	if err != nil || spec.Targets[0].Helm == nil || spec.Targets[0].Helm.Values.Data["k"] != 1.0 || spec.Helm != nil {
		t.Errorf("got %+v, %v", spec, err)
	}
	err = options.ApplyBundleValues(&spec, map[string][]byte{"a": []byte(`"password"`)})
	if err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("an error must come, without the value: %v", err)
	}
}

func TestSplitValues(t *testing.T) {
	tests := map[string]struct {
		in     opts
		values string
		hash   string
	}{
		"NoHelm":      {opts{DefaultNamespace: "a"}, "", ""},
		"NoValues":    {helm(fleet.HelmOptions{Chart: "c"}), "", ""},
		"EmptyValues": {helm(fleet.HelmOptions{Values: values()}), "", ""},
		"Values":      {helm(fleet.HelmOptions{Chart: "c", Values: values("key", "value")}), `{"key":"value"}`, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			in := *c.in.DeepCopy()
			stripped, raw, err := options.SplitValues(in)
			if err != nil || string(raw) != c.values {
				t.Fatalf("got %s, %v", raw, err)
			}
			if d := cmp.Diff(c.in, in); d != "" {
				t.Errorf("the argument changed: %s", d)
			}
			if stripped.Helm != nil && stripped.Helm.Values != nil {
				t.Error("values are left in the options")
			}
			if got := options.DeploymentValuesHash(raw, nil); got != c.hash {
				t.Errorf("hash %q", got)
			}
			back, err := options.WithValues(stripped, raw)
			if err != nil {
				t.Fatal(err)
			}
			if c.values != "" {
				if d := cmp.Diff(c.in, back); d != "" {
					t.Errorf("after a round trip: %s", d)
				}
			}
		})
	}
	if _, _, err := options.SplitValues(helm(fleet.HelmOptions{Values: values("a", math.NaN())})); err == nil {
		t.Error("not a number has no JSON")
	}
	if _, err := options.WithValues(opts{}, []byte(`["password"]`)); err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("an error must come, without the value: %v", err)
	}
	if back, err := options.WithValues(opts{}, []byte(`{"a":1}`)); err != nil || back.Helm.Values.Data["a"] != 1.0 {
		t.Errorf("values for options without helm: %+v, %v", back, err)
	}
	if options.DeploymentValuesHash([]byte("a"), []byte("b")) != options.DeploymentValuesHash([]byte("ab"), nil) {
		t.Error("the two are digested one after the other, as agents elsewhere do")
	}
}
