package terminal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancherapi"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// counter is a shell beside a Rancher that lives: on its API server people work with
// kubectl's configuration, and its own API is served beside it.
type counter struct {
	*shell
	rancher *rancher.Rancher
	api     *rancherapi.Server
	hub     *harness.Hub
}

// Workspaces and moves, typed by people: through the Kubernetes API, and through
// Rancher's.
func TestWorkspacesFromATerminal(t *testing.T) {
	c := &counter{hub: harness.NewHub(t, harness.Cluster(t, "rancher"))}
	c.shell = &shell{TB: t, root: t, stop: &sync.Map{}, hubs: &sync.Map{}, dir: t.TempDir(), group: process.NewGroup()}
	c.shell.hub = c.hub.Real()
	var err error
	c.tools = filepath.Join(c.dir, "bin")
	if err = harness.Tools(t.Context(), harness.Kubernetes(t), c.tools); err != nil {
		t.Fatal(err)
	}
	c.rancher = rancher.New(t, c.hub)
	c.rancher.Local = false
	c.rancher.Start(t)
	objects, err := dynamic.NewForConfig(c.hub.Account(t, "cattle-system", "rancher"))
	if err != nil {
		t.Fatal(err)
	}
	c.api = rancherapi.New(t, rancherapi.Objects{Client: objects}, map[string]rancherapi.User{
		"token-ana:x": {ID: "u-ana", Adds: []string{"*"}}, "token-bob:x": {ID: "u-bob"},
	})
	c.rancher.Put(t, rancher.Workspaces, "", "team-a", `{}`) // fleet-default it makes itself
	for i := range 4 {
		id := fmt.Sprintf("c-0000%d", i)
		c.rancher.Import(t, "fleet-default", id, fmt.Sprintf("store %d", i), "")
		c.rancher.Ready(t, id, true)
	}
	namespaces := kube.StoreOf[*corev1.Namespace](c.hub.Admin)
	c.until("the workspace is there", func() bool {
		_, err := namespaces.Get(t.Context(), kube.Key{Name: fleet.NamespaceDefault})
		return err == nil
	})
	c.until("the clusters are there", func() bool {
		return strings.Count(c.types(c.shell.hub, "fleet get clusters -n fleet-default -o name").out, "\n") == 4
	})
	for name, part := range map[string]func(*counter){
		"ThroughKubernetes": (*counter).throughKubernetes, "ThroughRancher": (*counter).throughRancher, "WithoutTheRight": (*counter).withoutTheRight,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *c
			mine.shell = c.on(t)
			part(&mine)
		})
	}
}

// workspaceOf is where the Fleet Cluster of a cluster is.
func (c *counter) workspaceOf(name string) string {
	c.Helper()
	return strings.TrimSpace(c.types(c.shell.hub, "kubectl get clusters.fleet.cattle.io -A --field-selector metadata.name="+name+" -o jsonpath='{.items[*].metadata.namespace}'").out)
}

// A person with kubectl's configuration writes one field of one object of Rancher's,
// and what is not known of it stays.
func (c *counter) throughKubernetes() {
	since := time.Now()
	s := c.types(c.shell.hub, "fleet workspace create team-k")
	if s.out != "workspace team-k is there, with its namespace\n" {
		c.Errorf("want the workspace, got %+v", s)
	}
	if s := c.tries(c.shell.hub, "fleet workspace create team-k"); s.code != 5 && s.code != 1 {
		c.Errorf("a second time it is there: %+v", s)
	}
	c.types(c.shell.hub, "kubectl create namespace taken")
	if s := c.tries(c.shell.hub, "fleet workspace create taken"); s.code != 5 || !strings.Contains(s.notes, "--existing") {
		c.Errorf("a namespace of another owner is not taken: %+v", s)
	}
	s = c.types(c.shell.hub, "fleet workspace move c-00000 team-k")
	if s.out != "cluster fleet-default/c-00000 has moved to workspace team-k\n" {
		c.Errorf("want it moved, got %+v", s)
	}
	c.until("the old one is gone", func() bool { return c.workspaceOf("c-00000") == "team-k" })
	if m := c.rancher.Get(c, rancher.Clusters, "", "c-00000"); m.Object["spec"].(map[string]any)["importedConfig"] == nil {
		c.Errorf("a field that we do not know is lost: %v", m.Object["spec"])
	}
	out := c.types(c.shell.hub, "fleet workspace list").out
	if !strings.Contains(out, "team-k ") || strings.Contains(out, "taken") {
		c.Errorf("want team-k and no other namespace:\n%s", out)
	}
	for _, r := range c.written(since, "fleet/") {
		if r.Group == "management.cattle.io" && r.Resource == "clusters" && r.Verb != "patch" {
			c.Errorf("Rancher's clusters are only ever patched: %s", r)
		}
	}
}

// written are writes of programs whose User-Agent begins so, to Rancher's kinds.
func (c *counter) written(since time.Time, agent string) []harness.Request {
	c.Helper()
	all, err := c.hub.Requests(since)
	if err != nil {
		c.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r harness.Request) bool { return !r.Writes() || !strings.HasPrefix(r.Agent, agent) })
}

// With --rancher everything is Rancher's doing, for the user of the token: it knows
// who has made a workspace, gives him his rights, and refuses what he may not do.
func (c *counter) throughRancher() {
	config := filepath.Join(c.dir, "rancher.kubeconfig")
	if err := kubeconfig.Write(config, kubeconfig.Entry{Name: "rancher", Server: c.api.URL + "/k8s/clusters/local", CA: c.api.CA, Token: "token-ana:x"}); err != nil {
		c.Fatal(err)
	}
	s := c.types(c.shell.hub, "fleet workspace create team-r --rancher -k "+config)
	if s.out != "workspace team-r is made, its owner is u-ana\n" {
		c.Errorf("want an owner, got %+v", s)
	}
	c.until("its owner has his rights", func() bool {
		return c.tries(c.shell.hub, "kubectl -n team-r get rolebinding fleetworkspace-admin-binding-team-r").code == 0
	})
	s = c.types(c.shell.hub, "fleet workspace move 'store 1' team-r --rancher -k "+config)
	if !strings.HasPrefix(s.out, "cluster store 1 (c-00001) moves from workspace fleet-default to team-r") {
		c.Errorf("want it moved, got %+v", s)
	}
	c.until("its Fleet Cluster follows", func() bool { return c.workspaceOf("c-00001") == "team-r" })
	out := c.types(c.shell.hub, "fleet workspace list --rancher -k "+config).out
	if !strings.Contains(out, "team-r          1          -         -       u-ana") {
		c.Errorf("want team-r with its cluster and owner:\n%s", out)
	}
	token := filepath.Join(c.dir, "bob")
	ca := filepath.Join(c.dir, "rancher.pem")
	for path, data := range map[string][]byte{token: []byte("token-bob:x"), ca: c.api.CA} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			c.Fatal(err)
		}
	}
	s = c.tries(c.shell.hub, fmt.Sprintf("fleet workspace move c-00002 team-a --rancher=%s --rancher-token-file %s --rancher-ca-file %s", c.api.URL, token, ca))
	if s.code != 1 || !strings.Contains(s.notes, "does not let you do this: admission webhook ") {
		c.Errorf("want Rancher's refusal, got %+v", s)
	}
}

// Rancher's webhook is no safety net: without the right to add clusters to a
// workspace a person who may change Rancher's clusters moves none there.
func (c *counter) withoutTheRight() {
	c.hub.Allow(c, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "default", Name: "eve"}, "",
		rbacv1.PolicyRule{APIGroups: []string{"management.cattle.io"}, Resources: []string{"clusters", "fleetworkspaces"}, Verbs: []string{"get", "list", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"fleet.cattle.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list"}},
	)
	account := c.hub.Account(c, "default", "eve")
	config := filepath.Join(c.dir, "eve.kubeconfig")
	if err := os.WriteFile(config, c.hub.Kubeconfig(account.BearerToken), 0o600); err != nil {
		c.Fatal(err)
	}
	s := c.tries(c.shell.hub, "fleet workspace move c-00003 team-a --yes -k "+config)
	if s.code != 1 || !strings.Contains(s.notes, "you may not bring clusters into workspace team-a") {
		c.Errorf("want a refusal, got %+v", s)
	}
	m := c.rancher.Get(c, rancher.Clusters, "", "c-00003")
	if m.Object["spec"].(map[string]any)["fleetWorkspaceName"] != "fleet-default" {
		c.Errorf("it was moved: %v", m.Object["spec"])
	}
}
