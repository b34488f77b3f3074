package tenants

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// TestTenants runs the tests of agents on one API server.
func TestTenants(t *testing.T) {
	hub := harness.SharedHub(t)
	cases := map[string]func(*testing.T, *harness.Hub){
		"Forbidden": forbidden, "Lifecycle": lifecycle, "DefaultAccount": defaultAccount, "Tampered": tampered,
		"LostRights": lostRights, "Blind": blind, "Fenced": fenced, "Dressed": dressed, "DropNamespace": dropNamespace, "Values": values,
		"Canary": canary, "Hooks": hooked, "Limits": limits,
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases[name](t, hub)
		})
	}
}

// secrecy is a Secret of another owner.
const secrecy = "secrecy"

// Whatever an account may not do is refused by the API server, in the status and in
// words, and nothing was written. With the rights the same deployments are Ready.
// Either way the agent has not used its own.
func forbidden(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "poor")
	vault := s.space("vault", nil)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: secrecy}, StringData: map[string]string{"values.yaml": "k: v", "k": "v"},
	})
	s.tenant("none")
	s.tenant("guest", may("get", "", "namespaces"), may("*", "", "configmaps secrets"), may("*", "batch", "jobs"))
	who := fmt.Sprintf("of namespace %q may not ", s.Namespace)
	none, guest := `service account "none" `+who, `service account "guest" `+who
	cases := map[string]struct {
		why     string
		account string
		files   []string
		options fleet.BundleDeploymentOptions
		says    string
		missing bool // the namespace does not exist
	}{
		"lookup": {
			why: "a template could print any Secret of the cluster", account: "none", missing: true,
			files: chart(harness.ConfigMap("c", fmt.Sprintf(`{{ (lookup "v1" "Secret" %q %q).data.k }}`, vault, secrecy))),
			says:  "lookup: " + none + fmt.Sprintf("get secrets %q in namespace %q", secrecy, vault),
		},
		"lookup-list": {
			why: "or all of them", account: "none", missing: true,
			files: chart(harness.ConfigMap("c", `{{ len (lookup "v1" "Secret" "" "").items }}`)),
			says:  "lookup: " + none + "list secrets in the whole cluster",
		},
		"values-from": {
			why: "so could values from elsewhere", account: "none", missing: true,
			files: chart(harness.ConfigMap("c", "{{ .Values.k }}")),
			options: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{
				SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: secrecy}, Namespace: vault},
			}}}},
			says: fmt.Sprintf("helm.valuesFrom: Secret %q: ", secrecy) + none + fmt.Sprintf("get secrets %q in namespace %q", secrecy, vault),
		},
		"objects": {
			why: "the account is let into no namespace", account: "none", missing: true,
			files: []string{"a.yaml", harness.ConfigMap("a", "x")},
			says:  "a.yaml: ConfigMap poor-objects/a: " + none + `create configmaps in namespace "poor-objects"`,
		},
		"new-namespace": {
			why: "a namespace would be made for it", account: "guest", missing: true,
			files: []string{"a.yaml", harness.ConfigMap("a", "x")},
			says:  `namespace "poor-new-namespace" does not exist: ` + guest + "create namespaces in the whole cluster",
		},
		"cluster-scoped": {
			why: "and nothing of it is written, the ConfigMap neither", account: "guest",
			files: []string{"a.yaml", harness.ConfigMap("a", "x"), "b.yaml", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: poor-first}\nvalue: 7\n"},
			says:  "b.yaml: PriorityClass poor-first: " + guest + "create priorityclasses.scheduling.k8s.io in the whole cluster",
		},
		"rights": {
			why: "an account cannot give itself more than it has", account: "guest",
			files: []string{"a.yaml", harness.ConfigMap("a", "x"), "b.yaml", binding("poor-bound", "cluster-admin")},
			says:  "b.yaml: ClusterRoleBinding poor-bound: " + guest + "create clusterrolebindings.rbac.authorization.k8s.io in the whole cluster",
		},
		"crds-folder": {
			why: "Helm installs these before all else", account: "guest",
			files: append(chart(harness.ConfigMap("a", "x")), "crds/crd.yaml", crd("poors")),
			says:  guest + "create customresourcedefinitions.apiextensions.k8s.io in the whole cluster",
		},
		"hook": {
			why: "a hook is an object like others", account: "guest",
			files: chart(strings.Replace(serviceAccount("h"), "name: h", "name: h, annotations: {helm.sh/hook: pre-install}", 1) + "---\n" + harness.ConfigMap("a", "x")),
			says:  "hook ServiceAccount poor-hook/h: " + guest + `create serviceaccounts in namespace "poor-hook"`,
		},
		"labels": {
			why: "labels of a namespace decide what others may do in it", account: "guest",
			files:   []string{"a.yaml", harness.ConfigMap("a", "x")},
			options: fleet.BundleDeploymentOptions{NamespaceLabels: map[string]string{"team": "a"}},
			says:    `namespaceLabels and namespaceAnnotations of namespace "poor-labels": ` + guest + `update namespaces "poor-labels"`,
		},
	}
	for name, c := range cases {
		if !c.missing {
			s.space(name, nil)
		}
		c.options.ServiceAccount = c.account
		s.Order(name, harness.Order{Files: c.files, Options: c.options})
	}
	for name, c := range cases {
		s.Says(name, fleet.ConditionDeployed, release.ReasonForbidden, c.says)
		if name != "labels" && s.Data(s.Home(name), "a")+s.Data(s.Home(name), "c") != "" {
			t.Errorf("%s: something was written: %s", name, c.why)
		}
	}
	s.clean()

	for _, name := range []string{"none", "guest"} {
		s.Down.Allow(s.TB, s.account(name), "", everything)
	}
	for name := range cases {
		s.State(name, fleet.Ready)
	}
	if got := s.Data(s.Home("lookup"), "c"); got != "dg==" {
		t.Errorf("the template has found %q", got)
	}
	if got := s.Data(s.Home("values-from"), "c"); got != "v" {
		t.Errorf("the value is %q", got)
	}
	if got := s.labels(s.Home("labels")); got["team"] != "a" {
		t.Errorf("labels %v", got)
	}
	s.clean()
}

// binding is a ClusterRoleBinding that gives everybody a role.
func binding(name, role string) string {
	return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " + name + "}\n" +
		"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role + "}\n" +
		"subjects: [{kind: ServiceAccount, namespace: nowhere, name: nobody}]\n"
}

func serviceAccount(name string) string {
	return "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + name + "}\n"
}

func crd(plural string) string {
	kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural + ".tenants.example}\n" +
		"spec:\n  group: tenants.example\n  scope: Namespaced\n  names: {kind: " + kind + ", plural: " + plural + "}\n" +
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n"
}

// All that is done for a deployment from its installation to its end is done as its
// account: hooks, CRDs, upgrades, drift, corrections, removals, the namespace.
func lifecycle(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "rich")
	s.tenant("tenant", everything)
	options := fleet.BundleDeploymentOptions{
		TargetNamespace: s.Home("life"), ServiceAccount: "tenant", DeleteNamespace: true,
		CorrectDrift:    &fleet.CorrectDrift{Enabled: true},
		NamespaceLabels: map[string]string{"team": "a"},
	}
	hook := strings.Replace(harness.ConfigMap("hooked", "{{ .Release.Revision }}"), "name: hooked", "name: hooked\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade,pre-delete\"}", 1)
	files := func(value string, more ...string) []string {
		return append(chart(hook+"---\n"+harness.ConfigMap("c", value+`{{ (lookup "v1" "Namespace" "" "default").kind }}`)), more...)
	}
	own := "apiVersion: tenants.example/v1\nkind: Rich\nmetadata: {name: r}\nspec: {size: 1}\n"
	s.Order("life", harness.Order{Options: options, Files: files("one", "crds/crd.yaml", crd("richs"), "templates/r.yaml", own, "templates/gone.yaml", harness.ConfigMap("gone", "x"))})
	s.State("life", fleet.Ready)
	s.Order("life", harness.Order{Options: options, Files: files("two", "crds/crd.yaml", crd("richs"), "templates/r.yaml", own)})
	s.State("life", fleet.Ready)
	home := s.Home("life")
	if s.Data(home, "c") != "twoNamespace" || s.Data(home, "gone") != "" || s.Data(home, "hooked") != "2" || s.labels(home)["team"] != "a" {
		t.Errorf("after the upgrade: %q, %q, %q, %v", s.Data(home, "c"), s.Data(home, "gone"), s.Data(home, "hooked"), s.labels(home))
	}
	s.SetData(home, "c", "drift")
	s.Until("the drift is corrected", func() bool { return s.Data(home, "c") == "twoNamespace" })
	s.State("life", fleet.Ready)
	s.Withdraw("life", "end")
	s.Answered("life", "end")
	if s.labels(home) != nil {
		t.Error("the namespace is still there")
	}
	s.clean()
	for _, ask := range [][2]string{
		{"get", "configmaps"}, {"create", "configmaps"}, {"patch", "configmaps"}, {"delete", "configmaps"},
		{"create", "namespaces"}, {"update", "namespaces"}, {"delete", "namespaces"},
		{"create", "customresourcedefinitions"}, {"create", "richs"}, {"get", "richs"}, {"create", "secrets"},
	} {
		if !s.asked("tenant", ask[0], ask[1]) {
			t.Errorf("there is no request to %s %s as the tenant", ask[0], ask[1])
		}
	}
}

// Deployments without an account use fleet-default from the moment it is there, and
// one that names an account that is not there waits for it.
func defaultAccount(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "default-account")
	s.Order("before", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "x")}})
	s.State("before", fleet.Ready)
	if s.asked("fleet-default", "create", "configmaps") || len(s.asItself()) == 0 {
		t.Error("without fleet-default the agent works as itself")
	}
	s.Order("named", harness.Order{
		Files: []string{"a.yaml", harness.ConfigMap("a", "x")}, Options: fleet.BundleDeploymentOptions{ServiceAccount: "later"},
	})
	s.Says("named", fleet.ConditionDeployed, release.ReasonNoAccount, fmt.Sprintf(`service account "later" does not exist in namespace %q`, s.Namespace))

	s.tenant("fleet-default", may("get", "", "namespaces"))
	s.tenant("later", everything)
	s.began = s.Moment()
	s.Order("after", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "x")}})
	s.Says("after", fleet.ConditionDeployed, release.ReasonForbidden, `service account "fleet-default"`)
	s.State("named", fleet.Ready)
	s.Down.Allow(s.TB, s.account("fleet-default"), "", everything)
	s.State("after", fleet.Ready)
	s.clean()
}

// The record of a release is in a namespace that its tenant may write to. What a
// client writes into it is done as the tenant, or not at all.
func tampered(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "tampered")
	s.tenant("tenant", may("*", "", "configmaps secrets namespaces"), may("get", "*", "*"))
	s.Order("app", harness.Order{
		Files: []string{"a.yaml", harness.ConfigMap("a", "x")},
		Options: fleet.BundleDeploymentOptions{
			ServiceAccount: "tenant", CorrectDrift: &fleet.CorrectDrift{Enabled: true},
		},
	})
	s.State("app", fleet.Ready)
	s.Stop()
	id := release.ID{Namespace: s.Home("app"), Name: "app"}
	s.Must(harness.ChangeRelease(hub.Client, id, 1, func(r *harness.StoredRelease) {
		r.Chart.Metadata.Annotations[fleet.ReleaseServiceAccount] = ""
		r.Manifest += "---\n" + binding("tampered-grab", "cluster-admin")
	}))
	s.began = s.Moment()
	s.Start()
	s.Says("app", fleet.ConditionReady, fleet.ReasonError, `service account "tenant" `)
	if _, err := hub.Client.RbacV1().ClusterRoleBindings().Get(t.Context(), "tampered-grab", metav1.GetOptions{}); err == nil {
		t.Error("the tenant has made itself an administrator")
	}
	s.clean()
}

// A deployment whose account may not see its objects any more says so instead of
// looking at them with the agent's eyes.
func blind(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "blind")
	s.tenant("tenant", everything)
	s.Order("app", harness.Order{
		Files: []string{"a.yaml", harness.ConfigMap("a", "x")}, Options: fleet.BundleDeploymentOptions{ServiceAccount: "tenant"},
	})
	s.State("app", fleet.Ready)
	s.revoke("tenant")
	s.SetData(s.Home("app"), "a", "canary-71c0")
	bd := s.Says("app", fleet.ConditionMonitored, fleet.ReasonError, `service account "tenant" of namespace "agent-blind" may not get configmaps "a"`)
	if text := fmt.Sprint(bd.Status); strings.Contains(text, "canary-71c0") {
		t.Errorf("the status shows what the account may not see: %s", text)
	}
	s.Down.Allow(s.TB, s.account("tenant"), "", everything)
	s.SetData(s.Home("app"), "a", "y")
	s.State("app", fleet.Modified)
	s.SetData(s.Home("app"), "a", "x")
	s.State("app", fleet.Ready)
	s.clean()
}

// An account that has lost its rights removes nothing, and nothing is claimed to be
// removed; with the rights it goes on.
func lostRights(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "lost")
	s.tenant("tenant", may("*", "", "configmaps secrets namespaces"))
	options := fleet.BundleDeploymentOptions{ServiceAccount: "tenant"}
	s.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "x"), "b.yaml", harness.ConfigMap("b", "x")}, Options: options})
	s.State("app", fleet.Ready)
	s.revoke("tenant")
	s.Down.Allow(s.TB, s.account("tenant"), "", may("get list create update patch", "", "configmaps"), may("*", "", "secrets namespaces"))

	s.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "y")}, Options: options})
	s.Says("app", fleet.ConditionDeployed, release.ReasonForbidden, `ConfigMap lost-app/b, which the bundle does not have any more: service account "tenant"`)
	if s.Data(s.Home("app"), "a") != "x" {
		t.Error("half of the change was made")
	}
	s.Withdraw("app", "end")
	s.Says("app", fleet.ConditionReady, release.ReasonForbidden, "may not delete configmaps")
	if s.Data(s.Home("app"), "a") != "x" || s.Data(s.Home("app"), "b") != "x" {
		t.Error("something was removed")
	}
	s.Down.Allow(s.TB, s.account("tenant"), "", everything)
	s.Answered("app", "end")
	if s.Data(s.Home("app"), "a")+s.Data(s.Home("app"), "b") != "" {
		t.Error("something is left")
	}
	s.clean()
}

// revoke takes all rights of an account away.
func (s *site) revoke(name string) {
	s.Helper()
	s.Down.Revoke(s.TB, s.account(name))
}

// patchNamespace changes a namespace as another client.
func (s *site) patchNamespace(name, patch string) {
	s.Helper()
	_, err := s.Hub.Client.CoreV1().Namespaces().Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.Must(err)
}
