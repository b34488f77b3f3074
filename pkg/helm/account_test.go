package helm

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// serviceAccount puts an account into the agent's namespace.
func (f *fakeCluster) serviceAccount(name string, labels, annotations map[string]string) {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	o.SetName(name)
	o.SetNamespace("fleet")
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	f.put("/api/v1/namespaces/fleet/serviceaccounts/"+name, o)
}

// A deployment acts as the account that it names, and as no other where there
// is none of that name.
func TestAccount(t *testing.T) {
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	for _, name := range []string{"", "tenant"} {
		user, err := client.User(t.Context(), name)
		if name == "" && (user != "" || err != nil) {
			t.Errorf("without an account the agent acts itself: %q, %v", user, err)
		}
		if name != "" && (user != "" || reconcile.ReasonOf(err) != release.ReasonNoAccount || !reconcile.IsRequeue(err)) {
			t.Errorf("an account that is missing is waited for: %q, %v", user, err)
		}
	}
	d := rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a", ServiceAccount: "tenant"}, map[string]string{"a.yaml": renderMap})
	if err := client.Install(t.Context(), d); reconcile.ReasonOf(err) != release.ReasonNoAccount || len(cluster.written) > 0 {
		t.Errorf("written %v: %v", cluster.written, err)
	}
	cluster.serviceAccount("tenant", nil, nil)
	if err := client.Install(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got := slices.Compact(cluster.as); !slices.Equal(got, []string{"system:serviceaccount:fleet:tenant"}) {
		t.Errorf("acted as %v", got)
	}
	if len(cluster.plain) > 0 {
		t.Errorf("the agent itself has written %v", cluster.plain)
	}

	cluster = newFakeCluster(t)
	client = cluster.client(t)
	cluster.serviceAccount("fleet-default", nil, nil)
	if user, err := client.User(t.Context(), ""); user != "system:serviceaccount:fleet:fleet-default" || err != nil {
		t.Errorf("fleet-default acts for those that name none: %q, %v", user, err)
	}
}

// The agent lends its own rights, and those of other accounts that Fleet made, to
// no bundle.
func TestReservedAccounts(t *testing.T) {
	cases := map[string]struct {
		why         string
		name        string
		labels      map[string]string
		annotations map[string]string
		token       string // of the agent
		allowed     bool
	}{
		"Agent":      {why: "an administrator of the cluster", name: "fleet-agent"},
		"Controller": {why: "the agent may live beside the manager", name: "fleet-controller"},
		"Bootstrap":  {why: "which makes accounts", name: "fleet-controller-bootstrap"},
		"GitJob":     {why: "and writes Bundles", name: "gitjob"},
		"Reference":  {why: "so does the reference's", name: "helmops"},
		"Own":        {why: "whatever its name is", name: "deployer", token: agentToken("system:serviceaccount:fleet:deployer")},
		"Request":    {why: "an agent's account at its manager", name: "request-x7-0a1b", labels: map[string]string{fleet.LabelManaged: "true"}},
		"Token":      {why: "that of a registration token, or of an import", name: "import-token-c1-0a1b", labels: map[string]string{fleet.LabelManagerID: "m"}},
		"Granted":    {why: "made for a request", name: "x", annotations: map[string]string{fleet.AnnotationClusterRegistration: "r"}},
		"Renewal":    {why: "made to renew a credential", name: "x", annotations: map[string]string{fleet.AnnotationRenews: "r"}},
		"Tenant":     {why: "an administrator made it", name: "tenant", labels: map[string]string{"fleet": "x"}, token: agentToken("system:serviceaccount:other:tenant"), allowed: true},
		"Deployed":   {why: "one that a bundle brought is for bundles", name: "tenant", labels: map[string]string{fleet.LabelObjectSetHash: "x"}, annotations: map[string]string{fleet.AnnotationObjectSetID: "x"}, allowed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t)
			client := cluster.client(t)
			client.cfg.REST.BearerToken = c.token
			cluster.serviceAccount(c.name, c.labels, c.annotations)
			user, err := client.User(t.Context(), c.name)
			if c.allowed {
				if user != "system:serviceaccount:fleet:"+c.name || err != nil {
					t.Errorf("%s: %q, %v", c.why, user, err)
				}
				return
			}
			if user != "" || !reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != release.ReasonReservedAccount || !strings.Contains(err.Error(), "set serviceAccount to") {
				t.Errorf("%s: %q, %v", c.why, user, err)
			}
			d := rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a", ServiceAccount: c.name}, map[string]string{"a.yaml": renderMap})
			if err := client.Install(t.Context(), d); reconcile.ReasonOf(err) != release.ReasonReservedAccount || len(cluster.written) > 0 {
				t.Errorf("%s: written %v: %v", c.why, cluster.written, err)
			}
		})
	}
}

// agentToken is one of an account, as Kubernetes makes them.
func agentToken(subject string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+subject+`"}`)) + ".e30"
}
