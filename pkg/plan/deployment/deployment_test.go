package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

func everywhere() *metav1.LabelSelector { return &metav1.LabelSelector{} }

func bundle(values map[string]any) (*fleet.Bundle, map[string][]byte) {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-default", Name: "web", Generation: 3,
		Labels: map[string]string{fleet.LabelRepoName: "examples", fleet.LabelCommit: "c0ffee", "team": "shop",
			"objectset.rio.cattle.io/hash": "x", fleet.LabelCreatedByDisplayName: "Ana"},
	}}
	b.Spec.Targets = []fleet.BundleTarget{
		{Name: "prod", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
			NamespaceLabels: map[string]string{"tier": "prod"}, BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: "prod"}},
		{Name: "all", ClusterSelector: everywhere(), NamespaceLabels: map[string]string{"tier": "any"}},
	}
	b.Spec.TargetRestrictions = []fleet.BundleTargetRestriction{{Name: "all", ClusterSelector: everywhere()}}
	if values == nil {
		return b, nil
	}
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: values}}
	data, err := options.BundleValuesSecretData(b.Spec)
	if err != nil {
		panic(err)
	}
	b.Spec.ValuesHash = options.BundleValuesHash(data)
	options.StripBundleValues(&b.Spec)
	return b, data
}

func place(env string) *Place {
	p := &Place{
		Cluster:   target.Cluster{Namespace: "fleet-default", Name: "c1", Labels: map[string]string{"env": env}},
		Namespace: "cluster-fleet-default-c1",
	}
	p.Seal()
	return p
}

func compiled(t *testing.T, values map[string]any) *Compiled {
	t.Helper()
	b, data := bundle(values)
	k, err := Compile(b, "s-1", data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func order(t *testing.T, k *Compiled, p *Place, move bool) Order {
	t.Helper()
	v := k.Match(&p.Cluster)
	inputs, err := k.Inputs(v, p)
	if err != nil {
		t.Fatal(err)
	}
	version, err := k.Render(v, p)
	if err != nil {
		t.Fatal(err)
	}
	return Order{Compiled: k, Place: p, Inputs: inputs, Version: version, Move: move}
}

func TestSecretOfAnotherVersionWaits(t *testing.T) {
	b, data := bundle(map[string]any{"a": "b"})
	data["values.yaml"] = []byte(`{"a":"c"}`)
	if _, err := Compile(b, "s-1", data); !reconcile.IsRequeue(err) {
		t.Errorf("want a wait, got %v", err)
	}
}

// A label that nothing asks for must not cause work on 5,000 clusters.
func TestInputs(t *testing.T) {
	inputs := func(values map[string]any, p *Place) string { return order(t, compiled(t, values), p, true).Inputs }
	plain, templated := map[string]any{"a": "b"}, map[string]any{"a": "${ .ClusterLabels.env }"}
	dev, test := place("dev"), place("test")
	if inputs(plain, dev) != inputs(plain, test) {
		t.Error("plain values do not depend on labels")
	}
	if inputs(templated, dev) == inputs(templated, test) {
		t.Error("templates do")
	}
	if inputs(plain, dev) == inputs(plain, place("prod")) {
		t.Error("another customization is another input")
	}
	bare := &Place{Cluster: target.Cluster{Namespace: "fleet-default", Name: "c1"}}
	bare.Seal()
	if inputs(nil, dev) == inputs(nil, bare) {
		t.Error("without labels an empty helm object is left out, which changes the id")
	}
}

func TestWork(t *testing.T) {
	k := compiled(t, map[string]any{"env": "${ .ClusterLabels.env }", "keep": "secret-canary"})
	o := order(t, k, place("prod"), true)
	if string(o.Version.Values) != `{"env":"prod","keep":"secret-canary"}` {
		t.Errorf("values %s", o.Version.Values)
	}
	if got := o.Version.Options; got.DefaultNamespace != "prod" || got.NamespaceLabels["tier"] != "prod" {
		t.Errorf("the customization's options, and only the labels of entries that match: %+v", got)
	}
	bad := compiled(t, map[string]any{"x": "${ .ClusterLabels.missing }"})
	p := place("dev")
	if _, err := bad.Render(bad.Match(&p.Cluster), p); !reconcile.IsTerminal(err) {
		t.Errorf("a template error is permanent, got %v", err)
	}
}

// What is staged by a patch, on an object that is known without its options, is
// what Compose makes of the whole object.
// TestWorkRemembersLimits: a template that makes too much is not rendered again
// for the same cluster, and is for another.
func TestWorkRemembersLimits(t *testing.T) {
	k := compiled(t, map[string]any{"a": `${ if eq .ClusterLabels.env "prod" }${ $x := list 1 }${ range until 60 }${ $x = concat $x $x }${ end }${ end }`})
	prod, dev := place("prod"), place("dev")
	_, first := k.Render(k.Match(&prod.Cluster), prod)
	if !errors.Is(first, values.ErrLimit) {
		t.Fatal(first)
	}
	if _, again := k.Render(k.Match(&prod.Cluster), prod); !errors.Is(again, first) {
		t.Errorf("it was rendered again: %v", again)
	}
	if _, err := k.Render(k.Match(&dev.Cluster), dev); err != nil {
		t.Errorf("the other cluster: %v", err)
	}
}

func TestStage(t *testing.T) {
	p := place("dev")
	made, err := Compose(order(t, compiled(t, map[string]any{"a": "old"}), p, true), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	live := made.Object
	live.ResourceVersion = "7"
	live.Finalizers = []string{"mine", fleet.FinalizerBundleDeployment}
	live.Annotations[fleet.AnnotationWithdrawn] = "b7"
	live.Spec.StagedOptions.ServiceAccount = "of the version staged before"
	values := made.Secret.Data[fleet.KeyValues]
	next := order(t, compiled(t, nil), p, false)
	want, err := Compose(next, live, values)
	if err != nil {
		t.Fatal(err)
	}
	known := live.DeepCopy()
	known.Spec.Options, known.Spec.StagedOptions = fleet.BundleDeploymentOptions{}, fleet.BundleDeploymentOptions{}
	known.Spec.DependsOn, known.Spec.CorrectDrift = nil, nil
	got, err := Stage(next, known, values)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Secret, got.Secret); diff != "" {
		t.Errorf("secret -want +got\n%s", diff)
	}
	if diff := cmp.Diff(want.Object, patched(t, live, got.Patch)); diff != "" {
		t.Errorf("object -want +got\n%s", diff)
	}
}

func patched(t *testing.T, bd *fleet.BundleDeployment, patch []byte) *fleet.BundleDeployment {
	t.Helper()
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(bd)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = ops.Apply(raw); err != nil {
		t.Fatal(err)
	}
	out := &fleet.BundleDeployment{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestComposeNew(t *testing.T) {
	o := order(t, compiled(t, map[string]any{"a": "canary"}), place("dev"), true)
	got, err := Compose(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{
		"team": "shop", fleet.LabelRepoName: "examples", fleet.LabelCommit: "c0ffee",
		fleet.LabelBundleName: "web", fleet.LabelBundleNamespace: "fleet-default",
		fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: "fleet-default",
		fleet.LabelManaged: "true", fleet.LabelContentName: "s-1",
		fleet.LabelBucket: naming.Bucket("cluster-fleet-default-c1"), fleet.LabelOwnerBucket: naming.OwnerBucket("fleet-default", "examples"),
	}
	if diff := cmp.Diff(wantLabels, got.Object.Labels); diff != "" {
		t.Errorf("labels -want +got\n%s", diff)
	}
	spec := got.Object.Spec
	if spec.DeploymentID != o.Version.ID || spec.StagedDeploymentID != o.Version.ID {
		t.Errorf("ids %s, %s", spec.DeploymentID, spec.StagedDeploymentID)
	}
	if want := options.DeploymentValuesHash(got.Secret.Data["values"], got.Secret.Data["stagedValues"]); spec.ValuesHash != want {
		t.Errorf("the hash does not bind the Secret")
	}
	if strings.Contains(fmt.Sprintf("%+v", got.Object), "canary") {
		t.Error("values stand in the object")
	}
	if got.Object.Annotations[fleet.AnnotationInputHash] != o.inputHashMark() {
		t.Error("no mark of the inputs")
	}
}

// A version that is held back must not disturb what runs.
func TestComposeStaged(t *testing.T) {
	k := compiled(t, map[string]any{"a": "new"})
	old := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: "7", Finalizers: []string{"mine", fleet.FinalizerBundleDeployment},
		Annotations: map[string]string{fleet.AnnotationWithdrawn: "b7", "note": "kept"},
	}}
	old.Spec.DeploymentID, old.Spec.Options.DefaultNamespace = "s-0:old", "old"
	got, err := Compose(order(t, k, place("dev"), false), old, []byte(`{"a":"old"}`))
	if err != nil {
		t.Fatal(err)
	}
	bd := got.Object
	if bd.Spec.DeploymentID != "s-0:old" || bd.Spec.Options.DefaultNamespace != "old" || bd.Spec.StagedDeploymentID == "s-0:old" {
		t.Errorf("spec %+v", bd.Spec)
	}
	if string(got.Secret.Data["values"]) != `{"a":"old"}` || string(got.Secret.Data["stagedValues"]) != `{"a":"new"}` {
		t.Errorf("secret %s", got.Secret.Data)
	}
	if diff := cmp.Diff([]string{"mine"}, bd.Finalizers); diff != "" {
		t.Error(diff)
	}
	if _, marked := bd.Annotations[fleet.AnnotationWithdrawn]; marked || bd.Annotations["note"] != "kept" {
		t.Errorf("wanted again: the mark goes, the rest stays: %v", bd.Annotations)
	}
	if bd.ResourceVersion != "7" {
		t.Error("every update carries the version it was decided on")
	}
}

func TestComposeTooLarge(t *testing.T) {
	b, _ := bundle(nil)
	b.Spec.Diff = &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Name: strings.Repeat("x", MaxBytes)}}}
	k, err := Compile(b, "s-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compose(order(t, k, place("dev"), true), nil, nil); !reconcile.IsTerminal(err) {
		t.Errorf("want a permanent fault with advice, got %v", err)
	}
}

func TestPatchMetadata(t *testing.T) {
	k, p := compiled(t, nil), place("dev")
	made, err := Compose(order(t, k, p, true), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !IsCurrent(k, p, made.Object, made.Object.Spec.DeploymentID) {
		t.Error("what was just made needs no work")
	}
	b, _ := bundle(nil)
	b.Labels[fleet.LabelCommit] = "beef"
	if k, err = Compile(b, "s-1", nil); err != nil {
		t.Fatal(err)
	}
	if IsCurrent(k, p, made.Object, made.Object.Spec.DeploymentID) {
		t.Error("the commit is a label of the deployment too")
	}
	if got := PatchMetadata(k, p, made.Object, made.Object.Spec.DeploymentID).Labels[fleet.LabelCommit]; got != "beef" {
		t.Errorf("got %q", got)
	}
	old := made.Object.Labels[fleet.LabelCommit]
	if !IsCurrent(k, p, made.Object, "another") {
		t.Error("what is held back keeps its commit")
	}
	if got := PatchMetadata(k, p, made.Object, "another").Labels[fleet.LabelCommit]; got != old {
		t.Errorf("want %q, got %q", old, got)
	}
	made.Object.Labels["more"] = "x"
	if IsCurrent(k, p, made.Object, "another") {
		t.Error("but no label of others")
	}
}

func BenchmarkInputs5000(b *testing.B) {
	made, data := bundle(map[string]any{"a": "${ .ClusterLabels.env }"})
	k, err := Compile(made, "s-1", data)
	if err != nil {
		b.Fatal(err)
	}
	p := place("dev")
	for b.Loop() {
		for range 5000 {
			if _, err := k.Inputs(k.Match(&p.Cluster), p); err != nil {
				b.Fatal(err)
			}
		}
	}
}
