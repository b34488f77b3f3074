package preview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const workspace = "fleet-default"

func cluster(name, labels string) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{}}}
	for pair := range strings.FieldsSeq(labels) {
		k, v, _ := strings.Cut(pair, "=")
		c.Labels[k] = v
	}
	c.Status.Namespace = "cluster-" + name
	return c
}

func aBundle(targets ...fleet.BundleTarget) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "web"}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml", Content: "x"}}
	b.Spec.Targets = targets
	return b
}

func everywhere() fleet.BundleTarget {
	return fleet.BundleTarget{Name: "all", ClusterSelector: &metav1.LabelSelector{}}
}

// lines returns a result as text, one line for each cluster.
func lines(r Result) []string {
	var out []string
	for _, c := range r.Clusters {
		text := c.Name + ": " + c.Why
		switch {
		case c.Broken != "":
			text += "; broken: " + c.Broken
		case c.Deploy:
			text += fmt.Sprintf("; %s, moves %t, object %t, values %t", c.Step.Reason, c.Step.Move, c.Object != nil, c.Secret != nil)
		}
		out = append(out, text)
	}
	return out
}

func TestOf(t *testing.T) {
	values := func(text string) *fleet.HelmOptions {
		return &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"site": text}}}
	}
	moved := func(in Input, ready bool) []*fleet.BundleDeployment {
		r, err := Compute(in)
		if err != nil {
			t.Fatal(err)
		}
		var out []*fleet.BundleDeployment
		for _, c := range r.Clusters {
			c.Object.Status.AppliedDeploymentID, c.Object.Status.Ready = c.Object.Spec.DeploymentID, ready
			out = append(out, c.Object)
		}
		return out
	}
	three := []*fleet.Cluster{cluster("c2", "env=prod"), cluster("c1", "env=dev"), cluster("c3", "")}
	older := aBundle(everywhere())
	older.Spec.Resources[0].Content = "older"
	older.Spec.Helm = values("old")
	one := 1
	cases := map[string]struct {
		why  string
		in   Input
		want []string
	}{
		"Reasons": {
			why: "each cluster of the workspace by name, with the reason; others are left out",
			in: Input{
				Bundle: aBundle(fleet.BundleTarget{Name: "prod", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}),
				Clusters: append([]*fleet.Cluster{{ObjectMeta: metav1.ObjectMeta{
					Namespace: "elsewhere", Name: "c0", Labels: map[string]string{"env": "prod"},
				}}}, three...),
			},
			want: []string{
				`c1: target 1 "prod" wants env=prod, c1 has env=dev`, `c2: target 1 "prod" matches: env=prod; new, moves true, object true, values false`,
				`c3: target 1 "prod" wants env=prod, c3 has no label env`,
			},
		},
		"Groups": {
			why: "a Bundle without targets is for group default; a group that cannot be read has no members",
			in: Input{
				Bundle: aBundle(), Clusters: three[:2],
				Groups: []*fleet.ClusterGroup{{
					ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "default"},
					Spec:       fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}},
				}},
			},
			want: []string{
				`c1: target 1 "default" matches: clusterGroup default; new, moves true, object true, values false`,
				`c2: target 1 "default" wants clusterGroup default, c2 is in no cluster group`,
			},
		},
		"MaxNewIsLifted": {
			why: "who looks wants to see all of them",
			in: func() Input {
				b := aBundle(everywhere())
				b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxNew: &one}
				return Input{Bundle: b, Clusters: three}
			}(),
			want: []string{
				`c1: target 1 "all" matches: every cluster; new, moves true, object true, values false`,
				`c2: target 1 "all" matches: every cluster; new, moves true, object true, values false`,
				`c3: target 1 "all" matches: every cluster; new, moves true, object true, values false`,
			},
		},
		"TemplateError": {
			why: "an error in a template stops one cluster",
			in: func() Input {
				b := aBundle(everywhere())
				b.Spec.Helm = values("${ .ClusterLabels.env }")
				return Input{Bundle: b, Clusters: []*fleet.Cluster{cluster("c1", "env=dev"), cluster("c4", "ring=1")}}
			}(),
			want: []string{
				`c1: target 1 "all" matches: every cluster; new, moves true, object true, values true`,
				`c4: target 1 "all" matches: every cluster; broken: `,
			},
		},
		"LimitsHold": {
			why: "what is up may not all be taken down at once; the values of what stays are needed",
			in: func() Input {
				b := aBundle(everywhere())
				b.Spec.Helm = values("new")
				limit := intOrString(0)
				b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &limit}
				return Input{Bundle: b, Clusters: three[:1], Deployments: moved(Input{Bundle: older, Clusters: three[:1]}, true)}
			}(),
			want: []string{`c2: target 1 "all" matches: every cluster; broken: the values of what runs there are not known: Secret cluster-c2/web is missing`},
		},
		"Paused": {
			why: "a pause stages and does not release",
			in: func() Input {
				b := aBundle(everywhere())
				b.Spec.Paused = true
				return Input{Bundle: b, Clusters: three[:1]}
			}(),
			want: []string{`c2: target 1 "all" matches: every cluster; new, paused, moves false, object true, values false`},
		},
		"Offline": {
			why: "an Offline cluster takes it when it is back",
			in: func() Input {
				c := cluster("c1", "")
				c.Status.Display.State = fleet.Offline
				limit := intOrString(1)
				b := aBundle(everywhere())
				b.Spec.RolloutStrategy = &fleet.RolloutStrategy{MaxUnavailable: &limit}
				return Input{Bundle: b, Clusters: []*fleet.Cluster{c}, Deployments: moved(Input{Bundle: older, Clusters: []*fleet.Cluster{c}}, true)}
			}(),
			want: []string{`c1: target 1 "all" matches: every cluster; offline: takes it when it is back, nothing waits for it, moves true, object true, values false`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := Compute(c.in)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(r)
			for i := range got {
				if i < len(c.want) && strings.HasSuffix(c.want[i], "broken: ") && strings.HasPrefix(got[i], c.want[i]) {
					got[i] = c.want[i] // the template's own words are tested elsewhere
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			again, err := Compute(c.in)
			if diff := cmp.Diff(r, again); diff != "" || err != nil {
				t.Errorf("the same input gives something else: %v\n%s", err, diff)
			}
		})
	}
}

// A Bundle as a server holds it has its values in a Secret; with it the result
// is that of the Bundle with the values inside.
func TestOfValues(t *testing.T) {
	b := aBundle(everywhere())
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"site": "x"}}}
	clusters := []*fleet.Cluster{cluster("c1", "")}
	want, err := Compute(Input{Bundle: b, Clusters: clusters})
	if err != nil {
		t.Fatal(err)
	}
	stored := b.DeepCopy()
	data, err := options.BundleValuesSecretData(b.Spec)
	if err != nil {
		t.Fatal(err)
	}
	options.StripBundleValues(&stored.Spec)
	stored.Spec.ValuesHash = options.BundleValuesHash(data)
	if _, err := Compute(Input{Bundle: stored, Clusters: clusters}); !reconcile.IsRequeue(err) {
		t.Errorf("without its Secret the Bundle is not complete: %v", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "web"}, Type: "Opaque", Data: data}
	if _, err := Compute(Input{Bundle: stored, Clusters: clusters, Secrets: []*corev1.Secret{secret}}); !reconcile.IsRequeue(err) {
		t.Errorf("a Secret of another owner is not the Bundle's: %v", err)
	}
	secret.Type = fleet.SecretTypeBundleValues
	got, err := Compute(Input{Bundle: stored, Clusters: clusters, Secrets: []*corev1.Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Clusters[0].ID, got.Clusters[0].ID); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Clusters[0].Secret, got.Clusters[0].Secret); diff != "" {
		t.Error(diff)
	}
}

func TestOfRefuses(t *testing.T) {
	b := aBundle(fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}})
	if _, err := Compute(Input{Bundle: b}); !reconcile.IsTerminal(err) {
		t.Errorf("a selector that cannot be read stops the whole Bundle: %v", err)
	}
	b = aBundle(everywhere())
	b.Spec.Targets[0].AllowedTargetNamespaceSelector = &metav1.LabelSelector{}
	if _, err := Compute(Input{Bundle: b}); reconcile.ReasonOf(err) != fleet.ReasonNotImplemented {
		t.Errorf("what the controller does not act on is not shown as if it did: %v", err)
	}
}

func intOrString(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

// Limits are those of the manager: they refuse the Bundle, or change its options.
func TestLimits(t *testing.T) {
	p := &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "p"}, RequireServiceAccount: true}
	in := Input{Bundle: aBundle(everywhere()), Clusters: []*fleet.Cluster{cluster("c1", "env=dev")}, Policies: []*fleet.Policy{p}}
	if _, err := Compute(in); reconcile.ReasonOf(err) != fleet.EventPolicyViolation || err.Error() != "serviceAccount is required by Policy but is not set" {
		t.Errorf("got %v", err)
	}
	in.Bundle.Spec.ServiceAccount = "deployer"
	r, err := Compute(in)
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Clusters[0].Object.Spec.Options; o.CreateNamespace == nil || *o.CreateNamespace {
		t.Errorf("the namespace would be created: %+v", o)
	}
}
