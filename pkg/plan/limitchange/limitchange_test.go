package limitchange

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ws", Name: name} }

// requires needs a service account for everything.
func requires() Limits {
	return Limits{Policies: []*fleet.Policy{{ObjectMeta: meta("accounts"), RequireServiceAccount: true}}}
}

// accounts allows service accounts, and sets the first one by default.
func accounts(list ...string) Limits {
	return Limits{Restrictions: []*fleet.GitRepoRestriction{{ObjectMeta: meta("team"), DefaultServiceAccount: list[0], AllowedServiceAccounts: list}}}
}

func TestOfGitRepo(t *testing.T) {
	repo := func(account string) *fleet.GitRepo {
		r := &fleet.GitRepo{ObjectMeta: meta("shops")}
		r.Spec.ServiceAccount = account
		return r
	}
	cases := map[string]struct {
		account       string
		before, after Limits
		want          *Change
	}{
		"Refused": {"root", Limits{}, accounts("deployer"), &Change{
			Effect: Refused, Message: "disallowed serviceAccount root: root not in allowed set [deployer]", Source: `allowedServiceAccounts of GitRepoRestriction "team"`}},
		"Allowed": {"root", accounts("deployer"), accounts("deployer", "root"), &Change{
			Effect: Allowed, Message: "disallowed serviceAccount root: root not in allowed set [deployer]", Source: `allowedServiceAccounts of GitRepoRestriction "team"`}},
		"Default":        {"", Limits{}, accounts("deployer"), &Change{Effect: Changed, Message: "gets serviceAccount deployer"}},
		"WrittenDefault": {"", accounts("deployer"), requires(), nil}, // the spec has it already
		"Same":           {"deployer", Limits{}, accounts("deployer"), nil},
		"StaysRefused":   {"root", accounts("deployer"), accounts("other"), nil},
		"OtherNamespace": {"root", Limits{}, Limits{Policies: []*fleet.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "p"}, RequireServiceAccount: true}}}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.want != nil {
				c.want.Kind, c.want.Namespace, c.want.Name = "GitRepo", "ws", "shops"
			}
			got, _ := New(c.before, c.after).OfGitRepo(repo(c.account))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOfHelmOp(t *testing.T) {
	op := &fleet.HelmOp{ObjectMeta: meta("op")}
	want := &Change{Effect: Refused, Kind: "HelmOp", Namespace: "ws", Name: "op", Message: "serviceAccount is required by Policy but is not set", Source: `requireServiceAccount of Policy "accounts"`}
	got, _ := New(Limits{}, requires()).OfHelmOp(op)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	secret := Limits{Policies: []*fleet.Policy{{ObjectMeta: meta("secret"), HelmOp: &fleet.HelmOpPolicySpec{DefaultHelmSecretName: "charts"}}}}
	want = &Change{Effect: Changed, Kind: "HelmOp", Namespace: "ws", Name: "op", Message: "gets helmSecretName charts"}
	got, _ = New(Limits{}, secret).OfHelmOp(op)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfBundle(t *testing.T) {
	bundle := func(change func(*fleet.BundleSpec)) preview.Input {
		b := &fleet.Bundle{ObjectMeta: meta("web")}
		b.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}}
		b.Spec.Targets = []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}, {ClusterSelector: &metav1.LabelSelector{}}}
		change(&b.Spec)
		in := preview.Input{Bundle: b}
		for name, env := range map[string]string{"c1": "prod", "c2": "dev", "c3": "dev"} {
			c := &fleet.Cluster{ObjectMeta: meta(name)}
			c.Labels, c.Status.Namespace = map[string]string{"env": env}, "cluster-"+name
			in.Clusters = append(in.Clusters, c)
		}
		return in
	}
	selector := Limits{Restrictions: []*fleet.GitRepoRestriction{{ObjectMeta: meta("team"), AllowedTargetNamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}}
	everywhere := []string{"ws/c1", "ws/c2", "ws/c3"}
	cases := map[string]struct {
		in            preview.Input
		account       string
		before, after Limits
		want          []Change
	}{
		"Default": {bundle(func(*fleet.BundleSpec) {}), "deployer", Limits{}, requires(), []Change{
			{Effect: Changed, Clusters: everywhere, Message: "is deployed again with other options"}}},
		"Refused": {bundle(func(*fleet.BundleSpec) {}), "", Limits{}, requires(), []Change{
			{Effect: Refused, Message: "serviceAccount is required by Policy but is not set", Source: `requireServiceAccount of Policy "accounts"`}}},
		"Allowed": {bundle(func(*fleet.BundleSpec) {}), "", requires(), Limits{}, []Change{
			{Effect: Allowed, Message: "serviceAccount is required by Policy but is not set", Source: `requireServiceAccount of Policy "accounts"`}}},
		"Options": {bundle(func(s *fleet.BundleSpec) { s.ServiceAccount = "deployer" }), "", Limits{}, requires(), []Change{
			{Effect: Changed, Clusters: everywhere, Message: "is deployed again with other options"}}},
		"OneCluster": {bundle(func(s *fleet.BundleSpec) { s.Targets[1].TargetNamespace = "web" }), "", Limits{}, selector, []Change{
			{Effect: Refused, Clusters: []string{"ws/c1"}, Message: "empty targetNamespace denied, because allowedTargetNamespaceSelector restriction is present"},
			{Effect: Changed, Clusters: []string{"ws/c2", "ws/c3"}, Message: "is deployed again with other options"}}},
		"Same": {bundle(func(s *fleet.BundleSpec) { s.ServiceAccount = "deployer" }), "", requires(), requires(), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for i := range c.want {
				c.want[i].Kind, c.want[i].Namespace, c.want[i].Name = "Bundle", "ws", "web"
			}
			got, err := New(c.before, c.after).OfBundle(c.in, c.account)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The objects of a file replace those of the same name, and the others stay.
func TestWith(t *testing.T) {
	old := Limits{Policies: []*fleet.Policy{{ObjectMeta: meta("a")}, {ObjectMeta: meta("b")}}}
	got := old.With(Limits{Policies: []*fleet.Policy{{ObjectMeta: meta("b"), RequireServiceAccount: true}, {ObjectMeta: meta("c")}}})
	var names []string
	for _, p := range got.Policies {
		names = append(names, p.Name)
		if p.RequireServiceAccount != (p.Name == "b") {
			t.Errorf("got the other %s", p.Name)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" || len(old.Policies) != 2 {
		t.Error(diff)
	}
}
