package delivery

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// tests are all tests, each at a place of its own.
var tests = map[string]func(*testing.T, *harness.Hub){
	"Sources":        sources,
	"Unreachable":    unreachable,
	"PullManager":    pullManager,
	"OldContent":     oldContent,
	"Offline":        offline,
	"Along":          along,
	"AlongShared":    alongShared,
	"AlongMissing":   alongMissing,
	"NotOurs":        notOurs,
	"Chain":          chain,
	"Circle":         circle,
	"Waits":          waits,
	"SecretsDoNotGo": secretsDoNotGo,
	"Kubeconfig":     kubeconfigStays,
}

// TestDelivery runs the tests on one API server.
func TestDelivery(t *testing.T) {
	hub := harness.NewHub(t, harness.Memory(t, "delivery"))
	run(t, hub)
	t.Run("Parallel", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, hub)
			})
		}
	})
}

// files are those of a chart that makes one ConfigMap.
func files(value string) map[string]string {
	return map[string]string{
		"values.yaml":             "value: " + value + "\n",
		"templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  value: {{ .Values.value | quote }}\n",
	}
}

func app(version, value string) webtest.Chart {
	return webtest.Chart{Name: "app", Version: version, Files: files(value)}
}

func holding(value string) map[string]string { return map[string]string{"value": value} }

const user, password = "reader", "a-password-nobody-guesses"

// sources: an agent pulls charts from every kind of source, with the credentials
// and authorities that the manager has copied to it, and from nowhere else.
func sources(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "sources")
	open := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "old"), app("1.2.0", "open")}})
	closed := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "closed")}, Username: user, Password: password})
	private := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "private")}, Username: user, Password: password, TLS: true})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: user, Password: password}}, TLS: true})
	registry.PushChart(t, "charts/app", "1.0.0", ocitest.Chart(t, "app", "1.0.0", files("registry")))

	account := map[string]string{"username": user, "password": password}
	p.secret("account", account)
	p.secret("private", map[string]string{"username": user, "password": password, "cacerts": string(private.CA)})
	p.secret("registry", map[string]string{"username": user, "password": password, "cacerts": string(registry.CA())})
	cases := map[string]struct {
		why  string
		helm fleet.HelmOptions
		how  fleet.BundleHelmOptions
		want string
	}{
		"open":     {"a public Helm repository, a range of versions", fleet.HelmOptions{Repo: open.URL, Chart: "app", Version: "1.x"}, fleet.BundleHelmOptions{}, "open"},
		"closed":   {"user name and password", fleet.HelmOptions{Repo: closed.URL, Chart: "app", Version: "1.0.0"}, fleet.BundleHelmOptions{SecretName: "account"}, "closed"},
		"private":  {"an authority in the Secret", fleet.HelmOptions{Repo: private.URL, Chart: "app"}, fleet.BundleHelmOptions{SecretName: "private"}, "private"},
		"bundle":   {"an authority in the bundle", fleet.HelmOptions{Repo: private.URL, Chart: "app"}, fleet.BundleHelmOptions{SecretName: "account", CABundle: private.CA}, "private"},
		"insecure": {"any certificate", fleet.HelmOptions{Repo: private.URL, Chart: "app"}, fleet.BundleHelmOptions{SecretName: "account", InsecureSkipTLSverify: true}, "private"},
		"registry": {"a registry", fleet.HelmOptions{Repo: "oci://" + registry.Host + "/charts/app", Version: "1.0.0"}, fleet.BundleHelmOptions{SecretName: "registry"}, "registry"},
		"newest":   {"a registry, without a version", fleet.HelmOptions{Repo: "oci://" + registry.Host + "/charts/app"}, fleet.BundleHelmOptions{SecretName: "registry"}, "registry"},
		"archive":  {"an archive by its URL", fleet.HelmOptions{Chart: closed.URL + "/archives/app-1.0.0.tgz"}, fleet.BundleHelmOptions{SecretName: "account"}, "closed"},
	}
	for name, c := range cases {
		p.bundle(name, func(s *fleet.BundleSpec) { s.Helm, s.HelmOpOptions = &c.helm, &c.how })
	}
	for name, c := range cases {
		bd := p.ready(name)
		if !strings.HasPrefix(bd.Spec.DeploymentID, ":") {
			t.Errorf("%s: a chart that agents pull has no content: %s", name, bd.Spec.DeploymentID)
		}
		p.eventually(p.Home(name), "settings", holding(c.want))
	}
	if got := open.Authorizations(); len(got) > 0 {
		t.Errorf("a public repository got the credentials %q", got)
	}
	reported := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	for _, a := range append(closed.Authorizations(), private.Authorizations()...) {
		if a != reported {
			t.Errorf("got the credentials %q", a)
		}
	}
	copied, ok := look[*corev1.Secret](p, p.Deployments, "account")
	if !ok || copied.Type != fleet.SecretTypeHelmOpsAccess || string(copied.Data["password"]) != password || copied.Labels[fleet.LabelInternalSecret] != "true" {
		t.Errorf("the copy for the agent: %v %s", copied.Labels, copied.Type)
	}
	if got := holds[*corev1.Secret](p, p.other, ""); len(got) > 0 {
		t.Errorf("the cluster that is not targeted has %q", got)
	}

	// With the last deployment that needs them the credentials go.
	for name := range cases {
		p.Must(kube.StoreOf[*fleet.Bundle](hub.Admin).Delete(p.Context(), kube.Key{Namespace: p.Workspace, Name: name}, kube.Precondition{}))
	}
	for _, name := range []string{"account", "private", "registry"} {
		p.Until("the copy of "+name+" is gone", func() bool {
			_, ok := look[*corev1.Secret](p, p.Deployments, name)
			return !ok
		})
		if _, ok := look[*corev1.Secret](p, p.Workspace, name); !ok {
			t.Errorf("Secret %s of the workspace is gone as well", name)
		}
	}
}

// unreachable: the status names a source that is away, with what helps. When the
// source is back, deployment goes on without any action of the user. The same
// holds for a wrong password that is corrected.
func unreachable(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "unreachable")
	repo := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "here")}, Username: user, Password: password})
	way := lineTo(t, repo.Host)
	p.secret("account", map[string]string{"username": user, "password": "wrong"})
	way.cut()
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Helm = &fleet.HelmOptions{Repo: "http://" + way.addr, Chart: "app", Version: "1.0.0"}
		s.HelmOpOptions = &fleet.BundleHelmOptions{SecretName: "account"}
	})
	p.appears("app")
	bd := p.Says("app", fleet.ConditionReady, "ChartUnreachable", way.addr)
	for _, text := range []string{"connection refused", "pull: manager"} {
		p.Says("app", fleet.ConditionReady, "ChartUnreachable", text)
	}
	p.State("app", fleet.ErrApplied)
	p.says("app", "connection refused")
	if bd.Status.AppliedDeploymentID != "" {
		t.Errorf("nothing is applied, but %q", bd.Status.AppliedDeploymentID)
	}

	way.mend()

	p.Says("app", fleet.ConditionReady, "AuthenticationRefused", "refuses the credentials")
	harness.Edit(p.TB, p.Hub, p.Workspace, "account", func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
	p.ready("app")
	p.eventually(p.Home("app"), "settings", holding("here"))
	for _, object := range []kube.Object{bd} {
		if strings.Contains(fmt.Sprint(object), password) {
			t.Error("the password is in a status")
		}
	}
}

// pullManager: a cluster that reaches nothing but the manager still runs a
// chart; its agent sends no request to the repository. With "pull: agent" the
// agent does.
func pullManager(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "pullmanager")
	repo := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "one"), app("2.0.0", "two")}, Username: user, Password: password, TLS: true})
	p.secret("private", map[string]string{"username": user, "password": password, "cacerts": string(repo.CA)})
	by := func(agent string) int {
		n := 0
		for _, h := range repo.Headers() {
			if strings.HasPrefix(h.Get("User-Agent"), agent) {
				n++
			}
		}
		return n
	}
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Helm = &fleet.HelmOptions{Repo: repo.URL, Chart: "app", Version: "1.0.0"}
		s.HelmOpOptions = &fleet.BundleHelmOptions{SecretName: "private", Pull: fleet.PullManager}
	})
	bd := p.ready("app")
	p.eventually(p.Home("app"), "settings", holding("one"))
	if bd.Spec.HelmChartOptions != nil || !strings.HasPrefix(bd.Spec.DeploymentID, "s-") {
		t.Errorf("the deployment has a content and no chart to pull: %+v", bd.Spec)
	}
	if _, ok := look[*corev1.Secret](p, p.Deployments, "private"); ok {
		t.Error("credentials that no agent needs were copied")
	}

	p.change("app", func(s *fleet.BundleSpec) { s.Helm.Version = "2.0.0" })
	p.eventually(p.Home("app"), "settings", holding("two"))
	p.ready("app")
	if n, m := by(agentAgent), by(gitjobAgent); n != 0 || m == 0 {
		t.Errorf("asked %d times by the agent, %d times by the manager", n, m)
	}

	p.change("app", func(s *fleet.BundleSpec) { s.HelmOpOptions.Pull = fleet.PullAgent })
	p.Until("the agent pulls", func() bool { return by(agentAgent) > 0 })
	p.Until("by a deployment without content", func() bool { return strings.HasPrefix(p.Deployment("app").Spec.DeploymentID, ":") })
	p.ready("app")
}

// oldContent: a chart that the manager cannot pull keeps what runs, whatever
// was pulled before, and says why.
func oldContent(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "oldcontent")
	repo := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "one")}})
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Helm = &fleet.HelmOptions{Repo: repo.URL, Chart: "app", Version: "1.0.0"}
		s.HelmOpOptions = &fleet.BundleHelmOptions{Pull: fleet.PullManager}
	})
	before := p.ready("app")

	p.change("app", func(s *fleet.BundleSpec) { s.Helm.Version = "9.9.9" })
	p.says("app", "9.9.9")
	if now := p.Deployment("app"); now.Spec.DeploymentID != before.Spec.DeploymentID {
		t.Errorf("with a chart that is not there the deployment became %s", now.Spec.DeploymentID)
	}
	p.eventually(p.Home("app"), "settings", holding("one"))

	p.change("app", func(s *fleet.BundleSpec) { s.Helm.Version = "1.0.0" })
	p.Until("the bundle is Ready again", func() bool {
		b, _ := look[*fleet.Bundle](p, p.Workspace, "app")
		return b.Status.ObservedGeneration == b.Generation && b.Status.Summary.Ready == 1 && b.Annotations[fleet.AnnotationPullFailed] == ""
	})
}
