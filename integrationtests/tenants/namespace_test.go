package tenants

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// production selects the namespaces of restricted deployments.
var production = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}

// A restricted deployment goes to a namespace that has the labels, and to no other;
// labels that change are seen at once, and remove nothing.
func fenced(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "fenced")
	s.tenant("tenant", may("*", "", "configmaps secrets"))
	prod := map[string]string{"env": "prod", "team": "a"}
	order := func(name, value string, more ...string) {
		t.Helper()
		s.Order(name, harness.Order{
			Files:   append([]string{"a.yaml", harness.ConfigMap("a", value)}, more...),
			Options: fleet.BundleDeploymentOptions{ServiceAccount: "tenant", AllowedTargetNamespaceSelector: production},
		})
	}
	says := func(name, text string) *fleet.BundleDeployment {
		t.Helper()
		return s.Says(name, fleet.ConditionDeployed, release.ReasonNotAllowed, text)
	}
	s.space("match", prod)
	s.space("differ", map[string]string{"env": "dev"})
	s.space("outside", prod)
	for _, name := range []string{"match", "differ", "missing"} {
		order(name, "one")
	}
	order("outside", "one", "b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: fenced-differ}\n")
	s.State("match", fleet.Ready)
	says("differ", `target namespace "fenced-differ" does not match allowedTargetNamespaceSelector: it needs labels env=prod, it has env=dev`)
	says("missing", `target namespace "fenced-missing" does not exist; allowedTargetNamespaceSelector asks for one with labels env=prod`)
	s.Says("outside", fleet.ConditionStalled, release.ReasonClusterScoped, `b.yaml: ConfigMap fenced-differ/b is outside of namespace "fenced-outside"`)
	if s.labels(s.Home("missing")) != nil || s.Data(s.Home("differ"), "a") != "" {
		t.Error("something was written")
	}

	s.relabel(s.Home("differ"), func(l map[string]string) { l["env"] = "prod" })
	s.space("missing", prod)
	s.State("differ", fleet.Ready)
	s.State("missing", fleet.Ready)

	s.relabel(s.Home("match"), func(l map[string]string) { l["env"] = "dev" })
	bd := says("match", "it has env=dev")
	if bd.Status.Release != s.Home("match")+"/match:1" || bd.Status.Ready {
		t.Errorf("what runs stays, and is not Ready: %+v", bd.Status)
	}
	order("match", "two")
	s.Until("the new order was seen", func() bool {
		c := condition.Find(s.Deployment("match").Status.Conditions, fleet.ConditionReady)
		return c != nil && c.ObservedGeneration == 2
	})
	says("match", "it has env=dev")
	if got := s.Data(s.Home("match"), "a"); got != "one" {
		t.Errorf("deployed to a namespace that is not allowed: %q", got)
	}
	s.relabel(s.Home("match"), func(l map[string]string) { l["env"] = "prod" })
	s.State("match", fleet.Ready)
	if got := s.Data(s.Home("match"), "a"); got != "two" {
		t.Errorf("got %q", got)
	}
	s.relabel(s.Home("match"), func(l map[string]string) { delete(l, "env") })
	says("match", "it has none of them")
	s.Withdraw("match", "end") // what was there before may leave
	s.Answered("match", "end")
	if s.Data(s.Home("match"), "a") != "" {
		t.Error("not removed")
	}
	s.clean()
}

// Labels and annotations of the namespace follow the options without a new revision
// of the release; what is Kubernetes' own and pod security's stays.
func dressed(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "dressed")
	s.tenant("tenant", everything)
	name := s.space("app", map[string]string{"pod-security.kubernetes.io/enforce": "baseline", "old": "x"})
	s.patchNamespace(name, `{"metadata":{"annotations":{"theirs":"x"}}}`)
	order := func(labels, annotations map[string]string) {
		t.Helper()
		s.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "x")}, Options: fleet.BundleDeploymentOptions{ServiceAccount: "tenant"},
			Change: func(bd *fleet.BundleDeployment) { // they are no part of the deployment id
				bd.Spec.Options.NamespaceLabels, bd.Spec.Options.NamespaceAnnotations = labels, annotations
			},
		})
	}
	is := func(why string, labels, annotations map[string]string) {
		t.Helper()
		labels["kubernetes.io/metadata.name"], labels["pod-security.kubernetes.io/enforce"] = name, "baseline"
		var diff string
		s.Until(why, func() bool {
			ns, err := hub.Client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
			s.Must(err)
			diff = cmp.Diff(labels, ns.Labels) + cmp.Diff(annotations, ns.Annotations)
			return diff == ""
		})
	}
	theirs := map[string]string{"theirs": "x"}
	order(nil, nil)
	s.State("app", fleet.Ready)
	is("nothing is asked for", map[string]string{"old": "x"}, theirs)
	order(map[string]string{"team": "a", "pod-security.kubernetes.io/enforce": "privileged", "pod-security.example/x": "y"}, nil)
	is("labels only", map[string]string{"team": "a"}, theirs)
	order(map[string]string{"team": "b"}, map[string]string{"note": "n"})
	is("both", map[string]string{"team": "b"}, map[string]string{"note": "n"})
	if bd := s.State("app", fleet.Ready); bd.Status.Release != name+"/app:1" {
		t.Errorf("a new revision was made: %s", bd.Status.Release)
	}
	s.revoke("tenant")
	s.Down.Allow(s.TB, s.account("tenant"), "", may("get list watch create update patch delete", "", "configmaps secrets"), may("get", "", "namespaces"))
	order(map[string]string{"team": "c"}, nil)
	bd := s.Says("app", fleet.ConditionReady, release.ReasonForbidden, `service account "tenant" of namespace "agent-dressed" may not update namespaces "dressed-app"`)
	if bd.Status.Release != name+"/app:1" || bd.Status.Ready {
		t.Errorf("status %+v", bd.Status)
	}
	s.clean()
}

// The target namespace goes with the last deployment in it, where its options say
// so, and only if it is nothing else's.
func dropNamespace(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "drop")
	s.tenant("tenant", everything)
	order := func(name, namespace string, change func(*fleet.BundleDeploymentOptions)) {
		t.Helper()
		o := fleet.BundleDeploymentOptions{TargetNamespace: namespace, ServiceAccount: "tenant", DeleteNamespace: true}
		if change != nil {
			change(&o)
		}
		s.Order(name, harness.Order{Files: []string{"a.yaml", harness.ConfigMap(name, "x")}, Options: o})
		s.State(name, fleet.Ready)
	}
	leave := func(name string) {
		t.Helper()
		s.Withdraw(name, "end")
		s.Answered(name, "end")
	}
	there := func(why, namespace string, want bool) {
		t.Helper()
		if got := s.labels(namespace) != nil; got != want {
			t.Errorf("%s: namespace %s is there: %t", why, namespace, got)
		}
	}
	order("one", s.Home("both"), nil)
	order("two", s.Home("both"), nil)
	leave("one")
	there("another deployment is in it", s.Home("both"), true)
	leave("two")
	there("the last one leaves", s.Home("both"), false)

	order("keeps", s.Home("keeps"), func(o *fleet.BundleDeploymentOptions) { o.KeepResources = true })
	leave("keeps")
	there("keepResources", s.Home("keeps"), true)

	order("plain", s.Home("plain"), func(o *fleet.BundleDeploymentOptions) { o.DeleteNamespace = false })
	leave("plain")
	there("no option asks for it", s.Home("plain"), true)

	order("shared", s.Home("shared"), nil)
	s.Order("guest", harness.Order{Files: []string{"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: guest, namespace: drop-shared}\n"}})
	s.State("guest", fleet.Ready)
	leave("shared")
	there("an object of another bundle is in it", s.Home("shared"), true)

	order("default", "default", nil)
	leave("default")
	there("a namespace of Kubernetes", "default", true)

	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Home("never")}})
	s.Order("never", harness.Order{
		Files:   []string{"a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nnodata: {}\n"},
		Options: fleet.BundleDeploymentOptions{TargetNamespace: s.Home("never"), DeleteNamespace: true, ServiceAccount: "tenant"},
	})
	s.State("never", fleet.NotReady)
	leave("never")
	there("it was never deployed to", s.Home("never"), true)
}

// The agent waits for values that are not there yet, reports all that a user
// needs to create them, and goes on when they are there.
func values(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "values")
	s.tenant("tenant", everything)
	s.space("app", nil)
	from := func(secret, key string) fleet.ValuesFrom {
		return fleet.ValuesFrom{SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: secret}, Key: key}}
	}
	s.Order("app", harness.Order{
		Files: chart(harness.ConfigMap("c", "{{ .Values.a }}{{ .Values.b }}")),
		Options: fleet.BundleDeploymentOptions{ServiceAccount: "tenant", Helm: &fleet.HelmOptions{
			ValuesFrom: []fleet.ValuesFrom{from("first", ""), from("second", "mine")},
		}},
	})
	says := func(text string) {
		t.Helper()
		bd := s.Says("app", fleet.ConditionDeployed, release.ReasonNoValues, text)
		c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
		if c.Status != corev1.ConditionUnknown || condition.Find(bd.Status.Conditions, fleet.ConditionStalled) != nil {
			t.Errorf("want a wait, got %+v", bd.Status.Conditions)
		}
	}
	began := time.Now()
	says(`helm.valuesFrom: Secret "first" in namespace "values-app" does not exist; its key "values.yaml" is wanted`)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Home("app"), Name: "first"}, StringData: map[string]string{"values.yaml": "{a: x, b: y}"}})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Home("app"), Name: "second"}, StringData: map[string]string{"values.yaml": "b: z"}})
	says(`helm.valuesFrom: Secret "second" in namespace "values-app" has no key "mine"`)
	_, err := hub.Client.CoreV1().Secrets(s.Home("app")).Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Home("app"), Name: "second"}, StringData: map[string]string{"mine": "b: z"},
	}, metav1.UpdateOptions{})
	s.Must(err)
	s.State("app", fleet.Ready)
	t.Logf("from the order to Ready: %s", time.Since(began))
	if got := s.Data(s.Home("app"), "c"); got != "xz" {
		t.Errorf("got %q", got)
	}
	s.clean()
}
