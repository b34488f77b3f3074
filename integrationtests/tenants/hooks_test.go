package tenants

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// hook is a ServiceAccount of a chart that is made at an event.
func hook(event, policy string) string {
	annotations := "helm.sh/hook: " + event
	if policy != "" {
		annotations += ", helm.sh/hook-delete-policy: " + policy
	}
	return strings.Replace(serviceAccount("h"), "name: h", "name: h, annotations: {"+annotations+"}", 1) + "---\n"
}

// A hook that its account may not make, wait for or remove again holds its release
// up before anything of that is written, as an object does; one of another action
// does not.
func hooked(t *testing.T, hub *harness.Hub) {
	s := newSite(t, hub, "hooked")
	basics := may("*", "", "configmaps secrets namespaces")
	crds := may("*", "apiextensions.k8s.io", "customresourcedefinitions")
	s.tenant("reader", basics, crds)
	s.tenant("maker", basics, may("create", "", "serviceaccounts"), may("get create delete list", "batch", "jobs"))
	who := fmt.Sprintf("of namespace %q may not ", s.Namespace)
	reader, maker := `service account "reader" `+who, `service account "maker" `+who
	a := harness.ConfigMap("a", "x")
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: post-install}}\n" +
		"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n---\n"
	cases := map[string]struct {
		why     string
		account string
		files   []string
		says    string
	}{
		"before":    {"a hook comes before all objects", "reader", chart(hook("pre-install", "") + a), "hook ServiceAccount hooked-before/h: " + reader + `create serviceaccounts in namespace "hooked-before"`},
		"after":     {"or after them: then they would be there", "reader", chart(hook("post-install", "") + a), "hook ServiceAccount hooked-after/h: " + reader + `create serviceaccounts in namespace "hooked-after"`},
		"again":     {"without a policy Helm removes what is there from the last time", "maker", chart(hook("post-install", "") + a), "hook ServiceAccount hooked-again/h: " + maker + `delete serviceaccounts "h" in namespace "hooked-again"`},
		"succeeded": {"or what has done its work", "maker", chart(hook("post-install", "hook-succeeded") + a), maker + `delete serviceaccounts "h" in namespace "hooked-succeeded"`},
		"waiting":   {"a Job is watched until it ends", "maker", chart(job + a), "hook Job hooked-waiting/j: " + maker + `watch jobs.batch "j" in namespace "hooked-waiting"`},
		"crds":      {"Helm installs these before all else", "reader", append(chart(hook("post-install", "")+a), "crds/crd.yaml", crd("hookeds")), reader + `create serviceaccounts in namespace "hooked-crds"`},
		"objects":   {"so it does where an object may not be made", "reader", append(chart(serviceAccount("o")+"---\n"+a), "crds/crd.yaml", crd("objecteds")), "ServiceAccount hooked-objects/o: " + reader + `create serviceaccounts in namespace "hooked-objects"`},
	}
	for name, c := range cases {
		s.Order(name, harness.Order{Files: c.files, Options: fleet.BundleDeploymentOptions{ServiceAccount: c.account}})
	}
	options := fleet.BundleDeploymentOptions{ServiceAccount: "maker"}
	s.Order("stays", harness.Order{Files: chart(hook("post-install", "hook-failed") + a), Options: options})
	s.Order("upgrade", harness.Order{Files: chart(hook("post-upgrade,post-delete", "") + a), Options: options})
	s.State("stays", fleet.Ready)
	s.State("upgrade", fleet.Ready)
	s.Order("upgrade", harness.Order{Files: chart(hook("post-upgrade,post-delete", "") + harness.ConfigMap("a", "y")), Options: options})
	s.Says("upgrade", fleet.ConditionDeployed, release.ReasonForbidden, maker+`delete serviceaccounts "h"`)
	if got := s.Data(s.Home("upgrade"), "a"); got != "x" {
		t.Errorf("half of the upgrade was made: %q", got)
	}
	s.Withdraw("upgrade", "end")
	s.Says("upgrade", fleet.ConditionReady, release.ReasonForbidden, maker+`delete serviceaccounts "h"`)
	if got := s.Data(s.Home("upgrade"), "a"); got != "x" {
		t.Errorf("half of the removal was made: %q", got)
	}
	for name, c := range cases {
		s.Says(name, fleet.ConditionDeployed, release.ReasonForbidden, c.says)
		if s.labels(s.Home(name)) != nil {
			t.Errorf("%s: the namespace was made: %s", name, c.why)
		}
	}
	for _, name := range []string{"hookeds.tenants.example", "objecteds.tenants.example"} {
		if err := s.Down.Client.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).Do(t.Context()).Error(); err == nil {
			t.Errorf("%s was installed", name)
		}
	}
	s.clean()

	s.Withdraw("waiting", "end") // no controller here would run its Job
	s.Answered("waiting", "end")
	for _, name := range []string{"reader", "maker"} {
		s.Down.Allow(s.TB, s.account(name), "", everything)
	}
	s.Answered("upgrade", "end")
	for name := range cases {
		if name != "waiting" {
			s.State(name, fleet.Ready)
		}
	}
	s.clean()
}
