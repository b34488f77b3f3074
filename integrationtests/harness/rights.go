package harness

import (
	"bufio"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Rights installs of the chart fleet, as it is with these values, what grants or
// limits rights: its accounts, their roles, and its admission policies.
func (h *Hub) Rights(t testing.TB, values map[string]any) {
	t.Helper()
	root, err := source.Root()
	must(t, err)
	chart, err := loader.Load(filepath.Join(root, "charts", "fleet"))
	must(t, err)
	server, err := h.Client.Discovery().ServerVersion()
	must(t, err)
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: server.GitVersion, Major: server.Major, Minor: server.Minor}
	able.APIVersions = append(able.APIVersions, "management.cattle.io/v3") // kinds of Rancher's may come later
	release := chartutil.ReleaseOptions{Name: "fleet", Namespace: fleet.NamespaceSystem}
	render, err := chartutil.ToRenderValues(chart, values, release, able)
	must(t, err)
	files, err := engine.Render(chart, render)
	must(t, err)
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			h.Grant(t, text)
		}
	}
}

// Grant applies those of some YAML documents that grant or limit rights.
func (h *Hub) Grant(t testing.TB, text string) {
	t.Helper()
	docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		var kind metav1.TypeMeta
		must(t, sigsyaml.Unmarshal(doc, &kind))
		switch kind.Kind {
		case "ServiceAccount":
			applyAs(t, h, doc, &corev1.ServiceAccount{})
		case "ClusterRole":
			applyAs(t, h, doc, &rbacv1.ClusterRole{})
		case "ClusterRoleBinding":
			applyAs(t, h, doc, &rbacv1.ClusterRoleBinding{})
		case "Role":
			applyAs(t, h, doc, &rbacv1.Role{})
		case "RoleBinding":
			applyAs(t, h, doc, &rbacv1.RoleBinding{})
		case "ValidatingAdmissionPolicy":
			applyAs(t, h, doc, &admissionv1.ValidatingAdmissionPolicy{})
		case "ValidatingAdmissionPolicyBinding":
			applyAs(t, h, doc, &admissionv1.ValidatingAdmissionPolicyBinding{})
		}
	}
}

func applyAs[P kube.Object](t testing.TB, h *Hub, doc []byte, into P) {
	t.Helper()
	must(t, sigsyaml.Unmarshal(doc, into))
	_, err := kube.StoreOf[P](h.Admin).Apply(t.Context(), into)
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
