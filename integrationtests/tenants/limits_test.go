package tenants

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An agent with all rights of its chart writes nothing that a bundle must not have:
// neither by the crds folder of a chart, whatever limits the bundle, nor as an
// account of Fleet's own.
func limits(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "limits")
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: limits-pwn, namespace: kube-system}\n"
	grab := binding("limits-pwn", "cluster-admin")
	with := func(name, text string) []string {
		return append(chart(harness.ConfigMap("a", "x")), name, text)
	}
	subchart := append(with("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"), "charts/sub/crds/pwn.yaml", grab)
	subchart[1] += "dependencies: [{name: sub, version: 1.0.0}]\n"
	hook := strings.Replace(secret, "{name:", "{annotations: {helm.sh/hook: pre-install}, name:", 1)
	marked := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "request-1", Labels: map[string]string{fleet.LabelManaged: "true"}}}
	if _, err := s.Down.Client.CoreV1().ServiceAccounts(s.Namespace).Create(t.Context(), marked, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	selected := fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: production}
	vault := s.space("vault", nil)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: secrecy}, StringData: map[string]string{"values.yaml": "k: v", "k": "v"}})
	from := &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{
		SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: secrecy}, Namespace: vault},
	}}}
	s.space("selector", production.MatchLabels)
	s.space("selector-crd", production.MatchLabels)
	s.space("lookup-list", production.MatchLabels)
	cases := map[string]struct {
		why     string
		files   []string
		options fleet.BundleDeploymentOptions
		forced  bool // namespace is set
		admin   bool // by an administrator
		reason  string
		says    string
	}{
		"binding":      {why: "a ClusterRoleBinding is no CRD", files: with("crds/pwn.yaml", grab), reason: release.ReasonBadChart, says: "crds/pwn.yaml: ClusterRoleBinding limits-pwn is no CustomResourceDefinition"},
		"yaml":         {why: "nor is it one for fleet.yaml's own namespace", files: with("crds/pwn.yaml", grab), forced: true, reason: release.ReasonBadChart, says: "crds/pwn.yaml: ClusterRoleBinding limits-pwn"},
		"admin":        {why: "or for that of the GitRepo", files: with("crds/pwn.yaml", secret), forced: true, admin: true, reason: release.ReasonBadChart, says: "crds/pwn.yaml: Secret kube-system/limits-pwn"},
		"selector":     {why: "or where labels limit the bundle", files: with("crds/pwn.yaml", secret), options: selected, reason: release.ReasonBadChart, says: "crds/pwn.yaml: Secret kube-system/limits-pwn"},
		"subchart":     {why: "by a subchart neither", files: subchart, reason: release.ReasonBadChart, says: "charts/sub/crds/pwn.yaml: ClusterRoleBinding limits-pwn"},
		"admin-crd":    {why: "no namespace holds a CRD", files: with("crds/crd.yaml", crd("limitpwns")), forced: true, admin: true, reason: release.ReasonClusterScoped, says: "crds/crd.yaml: CustomResourceDefinition limitpwns.tenants.example is cluster-scoped"},
		"selector-crd": {why: "also where labels choose it", files: with("crds/crd.yaml", crd("limitpwns")), options: selected, reason: release.ReasonClusterScoped, says: "crds/crd.yaml: CustomResourceDefinition limitpwns.tenants.example is cluster-scoped"},
		"hook":         {why: "a hook does not leave it", files: with("templates/pwn.yaml", hook), forced: true, admin: true, reason: release.ReasonClusterScoped, says: "hook Secret kube-system/limits-pwn is outside"},
		"template":     {why: "nor does an object", files: with("templates/pwn.yaml", grab), forced: true, admin: true, reason: release.ReasonClusterScoped, says: "templates/pwn.yaml: ClusterRoleBinding limits-pwn is cluster-scoped"},
		"lookup":       {why: "nor is anything read elsewhere", files: chart(harness.ConfigMap("a", fmt.Sprintf(`{{ (lookup "v1" "Secret" %q %q).data.k }}`, vault, secrecy))), forced: true, admin: true, reason: release.ReasonClusterScoped, says: `lookup of secrets of namespace "limits-vault": the bundle is limited to namespace "limits-lookup"`},
		"lookup-list":  {why: "or everywhere", files: chart(harness.ConfigMap("a", `{{ len (lookup "v1" "Secret" "" "").items }}`)), options: selected, reason: release.ReasonClusterScoped, says: "lookup of secrets in the whole cluster"},
		"values-from":  {why: "or comes from elsewhere as values", files: chart(harness.ConfigMap("a", "{{ .Values.k }}")), options: fleet.BundleDeploymentOptions{Helm: from}, forced: true, admin: true, reason: release.ReasonClusterScoped, says: `helm.valuesFrom: Secret "secrecy" of namespace "limits-vault"`},
		"agent":        {why: "the agent is an administrator", files: []string{"a.yaml", harness.ConfigMap("a", "x"), "b.yaml", grab}, options: fleet.BundleDeploymentOptions{ServiceAccount: "fleet-agent"}, reason: release.ReasonReservedAccount, says: `service account "fleet-agent" of namespace "agent-limits" is Fleet's own`},
		"marked":       {why: "so may be others that Fleet made", files: []string{"a.yaml", harness.ConfigMap("a", "x"), "b.yaml", grab}, options: fleet.BundleDeploymentOptions{ServiceAccount: "request-1"}, reason: release.ReasonReservedAccount, says: `service account "request-1" of namespace "agent-limits" is Fleet's own`},
	}
	for name, c := range cases {
		if c.forced {
			c.options.TargetNamespace = s.Home(name)
		}
		s.Order(name, harness.Order{Files: c.files, Options: c.options, Change: func(bd *fleet.BundleDeployment) {
			if c.admin {
				bd.Labels = map[string]string{fleet.LabelAdminNamespace: "true"}
			}
		}})
	}
	s.Order("good", harness.Order{
		Files:   with("crds/crd.yaml", crd("limitgoods")),
		Options: fleet.BundleDeploymentOptions{TargetNamespace: s.Home("good"), DeleteCRDResources: true},
	})
	bd := s.State("good", fleet.Ready)
	for name, c := range cases {
		s.Says(name, fleet.ConditionStalled, c.reason, c.says)
		if s.Data(s.Home(name), "a") != "" {
			t.Errorf("%s: half of it was written: %s", name, c.why)
		}
	}
	if _, err := hub.Client.RbacV1().ClusterRoleBindings().Get(t.Context(), "limits-pwn", metav1.GetOptions{}); err == nil {
		t.Error("there is a new administrator")
	}
	if _, err := hub.Client.CoreV1().Secrets("kube-system").Get(t.Context(), "limits-pwn", metav1.GetOptions{}); err == nil {
		t.Error("a Secret was written to kube-system")
	}
	if s.defined("limitpwns") {
		t.Error("a CRD was written")
	}

	listed := map[string]bool{}
	for _, r := range bd.Status.Resources {
		listed[r.Kind+" "+r.Name] = !r.CreatedAt.IsZero()
	}
	if !listed["CustomResourceDefinition limitgoods.tenants.example"] || len(listed) != 2 || bd.Status.ResourceCounts.Ready != 2 {
		t.Errorf("the CRD is no secret: %+v", bd.Status)
	}
	s.Withdraw("good", "end")
	s.Answered("good", "end")
	if !s.defined("limitgoods") {
		t.Error("a CRD of a crds folder took its objects with it")
	}
}

// defined reports whether there is a CRD of that plural.
func (s *site) defined(plural string) bool {
	return s.Down.Client.Discovery().RESTClient().Get().
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", plural+".tenants.example").Do(s.Context()).Error() == nil
}
