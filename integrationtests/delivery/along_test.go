package delivery

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// pullSecret is a Secret of the workspace that registries are read with.
func (p *place) pullSecret(name, value string) {
	p.Helper()
	_, err := kube.StoreOf[*corev1.Secret](p.Hub.Admin).Create(p.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Workspace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"` + value + `":{}}}`)},
	})
	p.Must(err)
}

// config is a ConfigMap of the workspace.
func (p *place) config(name string, data map[string]string) {
	p.Helper()
	_, err := kube.StoreOf[*corev1.ConfigMap](p.Hub.Admin).Create(p.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Workspace, Name: name}, Data: data,
	})
	p.Must(err)
}

// gone waits until there is no Secret.
func (p *place) gone(namespace, name string) {
	p.Helper()
	p.Until("Secret "+namespace+"/"+name+" is gone", func() bool {
		_, ok := look[*corev1.Secret](p, namespace, name)
		return !ok
	})
}

func resources(list ...string) []fleet.DownstreamResource {
	var out []fleet.DownstreamResource
	for i := 0; i < len(list); i += 2 {
		out = append(out, fleet.DownstreamResource{Kind: list[i], Name: list[i+1]})
	}
	return out
}

// along: Secrets and ConfigMaps that a bundle names go with it to its clusters
// and to no other; a change of their data comes after, into values as well; what
// is named no more goes, and with the bundle all of it.
func along(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "along")
	repo := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "of the chart")}})
	p.pullSecret("pull", "one.example.com")
	p.config("settings-of-ours", map[string]string{"values.yaml": "value: one\n"})
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Helm = &fleet.HelmOptions{Repo: repo.URL, Chart: "app", ValuesFrom: []fleet.ValuesFrom{{
			ConfigMapKeyRef: &fleet.ConfigMapKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "settings-of-ours"}, Namespace: "elsewhere"},
		}}}
		s.HelmOpOptions = &fleet.BundleHelmOptions{}
		s.DownstreamResources = resources("secret", "pull", "ConfigMap", "settings-of-ours")
	})
	bd := p.ready("app")
	home := p.Home("app")
	p.eventually(home, "settings", holding("one"))
	secret, ok := look[*corev1.Secret](p, home, "pull")
	if !ok || secret.Type != corev1.SecretTypeDockerConfigJson || secret.Labels[fleet.LabelBundleDeployment] != "app" {
		t.Fatalf("the copy on the cluster: %t %v %s", ok, secret.Labels, secret.Type)
	}
	for _, r := range bd.Status.Resources {
		if r.Kind == "Secret" || r.Name == "settings-of-ours" {
			t.Errorf("%s %s counts as a part of the release", r.Kind, r.Name)
		}
	}
	if bd.Spec.DownstreamResourcesGeneration != 1 || bd.Status.DownstreamResourcesGeneration != 1 {
		t.Errorf("generation %d, reported %d; want 1", bd.Spec.DownstreamResourcesGeneration, bd.Status.DownstreamResourcesGeneration)
	}

	harness.Edit(p.TB, p.Hub, p.Workspace, "settings-of-ours", func(m *corev1.ConfigMap) { m.Data["values.yaml"] = "value: two\n" })
	p.eventually(home, "settings-of-ours", map[string]string{"values.yaml": "value: two\n"})
	p.eventually(home, "settings", holding("two"))
	p.Until("the agent has reported it", func() bool { return p.Deployment("app").Status.DownstreamResourcesGeneration == 2 })
	changed := p.ready("app")
	if changed.Spec.DeploymentID != bd.Spec.DeploymentID || changed.Spec.DownstreamResourcesGeneration != 2 {
		t.Errorf("generation %d, another id: %t", changed.Spec.DownstreamResourcesGeneration, changed.Spec.DeploymentID != bd.Spec.DeploymentID)
	}
	harness.Edit(p.TB, p.Hub, p.Workspace, "settings-of-ours", func(m *corev1.ConfigMap) { m.Labels = map[string]string{"a": "b"} })
	harness.Edit(p.TB, p.Hub, p.Workspace, "pull", func(s *corev1.Secret) {
		s.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"two.example.com":{}}}`)
	})
	p.Until("the Secret follows", func() bool {
		s, _ := look[*corev1.Secret](p, home, "pull")
		return string(s.Data[corev1.DockerConfigJsonKey]) == `{"auths":{"two.example.com":{}}}`
	})
	p.Until("and nothing else counts as a change", func() bool { return p.Deployment("app").Status.DownstreamResourcesGeneration == 3 })

	// The twin: a cluster that is not targeted gets nothing.
	if secrets, maps := holds[*corev1.Secret](p, p.other, ""), holds[*corev1.ConfigMap](p, p.other, "settings"); len(secrets)+len(maps) > 0 {
		t.Errorf("the cluster that is not targeted has %q and %q", secrets, maps)
	}

	// A user removes the copies in the namespace of the cluster.
	p.Must(kube.StoreOf[*corev1.Secret](hub.Admin).Delete(p.Context(), kube.Key{Namespace: p.Deployments, Name: "pull"}, kube.Precondition{}))
	p.Until("the copy is created again", func() bool {
		_, ok := look[*corev1.Secret](p, p.Deployments, "pull")
		return ok
	})

	p.change("app", func(s *fleet.BundleSpec) { s.DownstreamResources = resources("ConfigMap", "settings-of-ours") })
	p.gone(home, "pull")
	p.gone(p.Deployments, "pull")
	p.eventually(home, "settings-of-ours", map[string]string{"values.yaml": "value: two\n"})

	p.Must(kube.StoreOf[*fleet.Bundle](hub.Admin).Delete(p.Context(), kube.Key{Namespace: p.Workspace, Name: "app"}, kube.Precondition{}))
	p.eventually(home, "settings-of-ours", nil)
	p.eventually(p.Deployments, "settings-of-ours", nil)
	if p.data(p.Workspace, "settings-of-ours") == nil {
		t.Error("what the copies were made of is gone as well")
	}
}

// alongShared: two bundles in one namespace name the same Secret; when the one
// that has made the copy goes, the other keeps it.
func alongShared(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "alongshared")
	p.pullSecret("pull", "one.example.com")
	for _, name := range []string{"one", "two"} {
		p.bundle(name, func(s *fleet.BundleSpec) {
			s.DefaultNamespace = p.Home("both")
			s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap(name, "x")}}
			s.DownstreamResources = resources("Secret", "pull")
		})
		p.ready(name)
	}
	for _, name := range []string{"one", "two"} {
		s, ok := look[*corev1.Secret](p, p.Home("both"), "pull")
		if !ok || s.Labels[fleet.LabelBundleDeployment] != name {
			t.Fatalf("the copy is that of %q, want %s", s.Labels[fleet.LabelBundleDeployment], name)
		}
		p.Must(kube.StoreOf[*fleet.Bundle](hub.Admin).Delete(p.Context(), kube.Key{Namespace: p.Workspace, Name: name}, kube.Precondition{}))
		p.Until("deployment "+name+" is gone", func() bool {
			_, ok := look[*fleet.BundleDeployment](p, p.Deployments, name)
			return !ok
		})
	}
	p.gone(p.Home("both"), "pull")
	p.gone(p.Deployments, "pull")
}

// alongMissing: a bundle waits for what it names, and goes when it is there.
func alongMissing(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "alongmissing")
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("cm", "x")}}
		s.DownstreamResources = resources("Secret", "late", "ConfigMap", "later")
	})
	p.says("app", `Secret "late"`)
	p.config("later", map[string]string{"a": "b"})
	p.pullSecret("late", "one.example.com")
	p.ready("app")
	p.eventually(p.Home("app"), "later", map[string]string{"a": "b"})
}

// notOurs: an object on the cluster that Fleet has not made is not overwritten,
// unless the bundle takes objects over.
func notOurs(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "notours")
	home := p.Home("app")
	hub.Namespace(t, home)
	_, err := kube.StoreOf[*corev1.ConfigMap](hub.Admin).Create(p.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "shared"}, Data: map[string]string{"of": "somebody"},
	})
	p.Must(err)
	p.config("shared", map[string]string{"of": "the bundle"})
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("cm", "x")}}
		s.DownstreamResources = resources("ConfigMap", "shared")
	})
	p.appears("app")
	p.Says("app", fleet.ConditionReady, "NotOwned", "ConfigMap "+home+"/shared exists and is no copy")
	p.State("app", fleet.ErrApplied)
	p.eventually(home, "shared", map[string]string{"of": "somebody"})

	p.change("app", func(s *fleet.BundleSpec) { s.Helm = &fleet.HelmOptions{TakeOwnership: true} })
	p.ready("app")
	p.eventually(home, "shared", map[string]string{"of": "the bundle"})
}

// secretsDoNotGo: what Fleet itself keeps in a workspace cannot be taken along:
// the values of another bundle, or what an agent registers with.
func secretsDoNotGo(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "secretsdonotgo")
	_, err := kube.StoreOf[*corev1.Secret](hub.Admin).Create(p.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Workspace, Name: "token"}, Type: fleet.SecretTypeRegistrationValues,
		Data: map[string][]byte{"values": []byte("token: secret")},
	})
	p.Must(err)
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("cm", "x")}}
		s.DownstreamResources = resources("Secret", "token")
	})
	p.says("app", "cannot be taken along")
	if _, ok := look[*corev1.Secret](p, p.Deployments, "token"); ok {
		t.Error("it went along")
	}
}

// kubeconfigStays: a Secret that goes along stops to when a Cluster names it as
// its kubeconfig. Its copy on the management cluster goes, what is deployed stays
// as it is, and the Bundle says what to do. It goes along again when no Cluster
// names it any more.
func kubeconfigStays(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "kubeconfigstays")
	p.secret("way-in", map[string]string{"value": "a kubeconfig"})
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("cm", "x")}}
		s.DownstreamResources = resources("Secret", "way-in")
	})
	p.ready("app")
	if _, ok := look[*corev1.Secret](p, p.Deployments, "way-in"); !ok {
		t.Fatal("a Secret that no Cluster names does not go along")
	}
	names := func(secret string) {
		harness.Edit(p.TB, p.Hub, p.Workspace, "other", func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = secret })
	}

	names("way-in")
	p.says("app", `Secret "way-in" is the kubeconfig of Cluster "other"`)
	p.says("app", "put what clusters need into a Secret of its own")
	p.gone(p.Deployments, "way-in")
	if _, ok := look[*corev1.Secret](p, p.Home("app"), "way-in"); !ok {
		t.Error("what is deployed has changed although the Bundle has not")
	}
	p.bundle("late", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("late", "x")}}
		s.DownstreamResources = resources("Secret", "way-in")
	})
	p.says("late", `kubeconfig of Cluster "other"`)
	if _, ok := look[*fleet.BundleDeployment](p, p.Deployments, "late"); ok {
		t.Error("a Bundle that names a kubeconfig is deployed")
	}

	p.change("app", func(s *fleet.BundleSpec) { s.DownstreamResources = nil })
	p.gone(p.Home("app"), "way-in")
	p.ready("app")

	names("")
	p.ready("late")
	if _, ok := look[*corev1.Secret](p, p.Deployments, "way-in"); !ok {
		t.Error("what is no kubeconfig any more does not go along")
	}
}
