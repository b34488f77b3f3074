package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/explain"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// explains adds the fleet of explain.yaml and explains it: as the administrator, and as a
// user who may see a part of it.
func (r *real) explains(t *testing.T) {
	_, steps := readScenario(t, "testdata/fleets/explain.yaml")
	giveIDs(t, steps[0].objects)
	spaces := map[string]bool{"cattle-fleet-system": true}
	for _, o := range steps[0].objects {
		if o.GetKind() == "Lease" {
			continue // examples.yaml has it
		}
		if ns := o.GetNamespace(); !spaces[ns] {
			spaces[ns] = true
			r.create(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}}})
		}
		o.SetManagedFields(nil)
		r.create(o)
	}
	r.managerLives()
	t.Run("Links", r.explainsLinks)
	t.Run("AsksLittle", r.explainsWithFewRequests)
	t.Run("FewRights", r.explainsToFew)
}

// managerLives renews the manager's lease, which is as old as the scenario.
func (r *real) managerLives() {
	r.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	if _, err := r.client.Resource(client.Leases).Namespace("cattle-fleet-system").Patch(
		r.t.Context(), client.ControllerLease, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// explained is the document of one explanation.
func (r *real) explained(args ...string) (explain.Explanation, string) {
	r.t.Helper()
	out, notes, err := r.fleet(append([]string{"explain", "-o", "json"}, args...)...)
	var doc explain.Explanation
	if jsonErr := json.Unmarshal([]byte(out), &doc); jsonErr != nil {
		r.t.Fatalf("%v: %v, %v, %s", args, err, jsonErr, notes)
	}
	if want := map[bool]int{true: 0, false: 3}[doc.StoppedAt == "" && doc.State == "Ready"]; cli.ExitCode(err, false) != want || err != nil && !errors.Is(err, cli.ErrNotReady) {
		r.t.Errorf("%v: want exit %d, got %v", args, want, err)
	}
	return doc, notes
}

// Each link stops where the transcripts say, with all objects as a server stores
// them.
func (r *real) explainsLinks(t *testing.T) {
	for _, c := range []struct{ bundle, cluster, stoppedAt, reason string }{
		{"shop-web", "c1", "", ""},
		{"legacy-app", "c1", "source", "AuthenticationRefused"},
		{"shop-settings", "c1", "bundle", "InvalidYAML"},
		{"shop-metrics", "c1", "target", "NotTargeted"},
		{"lonely", "c7", "policy", "PolicyViolation"},
		{"shop-web", "c5", "pause", "Paused"},
		{"pos-ui", "c1", "rollout", "Deferred"},
		{"shop-metrics", "c4", "rollout", "NoPartition"},
		{"shop-web", "c2", "delivered", "Offline"},
		{"shop-web", "c3", "applied", "NotOwned"},
		{"pos-ui", "c3", "healthy", "NotReady"},
	} {
		doc, notes := r.explained(c.bundle, c.cluster)
		if doc.StoppedAt != c.stoppedAt || doc.Reason != c.reason || len(doc.Hidden) > 0 || notes != "" {
			t.Errorf("%s on %s: want it stopped at %q for %q, got %q for %q, hidden %v, %s",
				c.bundle, c.cluster, c.stoppedAt, c.reason, doc.StoppedAt, doc.Reason, doc.Hidden, notes)
		}
	}
}

// One cluster costs a dozen requests, of which none lists what grows.
func (r *real) explainsWithFewRequests(t *testing.T) {
	_, notes, err := r.fleet("explain", "shop-web", "c3", "--debug")
	if !errors.Is(err, cli.ErrNotReady) {
		t.Fatal(err)
	}
	requests := 0
	for line := range strings.Lines(notes) {
		if !strings.HasPrefix(line, "debug: GET ") {
			continue
		}
		requests++
		_, path, _ := strings.Cut(line, "/apis/fleet.cattle.io/v1alpha1/")
		path, _, _ = strings.Cut(path, ":")
		for _, big := range []string{"clusters", "bundledeployments", "namespaces/shops/clusters", "namespaces/shops/bundles"} {
			if strings.TrimSuffix(path, "?limit=500") == big {
				t.Errorf("lists %s: %s", big, line)
			}
		}
	}
	if requests == 0 || requests > 12 {
		t.Errorf("want at most 12 requests, got %d:\n%s", requests, notes)
	}
}

// For a user who may read Bundles and Clusters of one workspace the command says
// what is missing, and answers the rest.
func (r *real) explainsToFew(t *testing.T) {
	admin, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	grant := func(name, namespace string, resources ...any) {
		for _, doc := range []map[string]any{
			{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": name, "namespace": namespace},
				"rules": []any{map[string]any{"apiGroups": []any{fleet.Group}, "resources": resources, "verbs": []any{"get", "list"}}},
			},
			{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": name, "namespace": namespace},
				"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
				"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bea"}},
			},
		} {
			r.create(&unstructured.Unstructured{Object: doc})
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, path, admin, "bea")
	bea := &real{t: t, kubeconfig: path, client: r.client}

	if _, _, err := bea.fleet("explain", "shop-web", "c3", "-n", "shops"); cli.ExitCode(err, false) != 1 {
		t.Errorf("want exit 1 without any right, got %v", err)
	}
	grant("look", "shops", "bundles", "clusters")
	r.eventually("bea's rights", func() bool {
		_, _, err := bea.fleet("explain", "shop-web", "c3", "-n", "shops")
		return cli.ExitCode(err, false) == 3
	})
	doc, notes := bea.explained("shop-web", "c3", "-n", "shops")
	for _, hidden := range []string{"gitrepos in shops", "bundledeployments in cluster-c3", "configmaps in cattle-fleet-system", "policies in shops"} {
		if !strings.Contains(notes, hidden) || !strings.Contains(strings.Join(doc.Hidden, ","), hidden) {
			t.Errorf("%s is not named: %s, %v", hidden, notes, doc.Hidden)
		}
	}
	verdicts := map[string]string{}
	for _, l := range doc.Chain {
		verdicts[l.Link] = l.Verdict
	}
	if doc.StoppedAt != "applied" || verdicts["source"] != "unknown" || verdicts["target"] != "ok" || verdicts["delivered"] != "unknown" {
		t.Errorf("want what the Bundle says of the cluster, got %q %v", doc.StoppedAt, verdicts)
	}
	if doc, _ := bea.explained("shop-metrics", "c1", "-n", "shops"); doc.StoppedAt != "target" {
		t.Errorf("want the targets, which bea may see, got %q", doc.StoppedAt)
	}
	grant("deployments", "cluster-c3", "bundledeployments")
	r.eventually("bea sees one deployment", func() bool {
		doc, _ := bea.explained("shop-web", "c3", "-n", "shops")
		return doc.Reason == "NotOwned"
	})
	out, notes, err := bea.fleet("explain", "shop-web", "-n", "shops")
	if cli.ExitCode(err, false) != 3 || !strings.HasPrefix(out, "shop-web is Ready on 1 of 4 clusters\n") || !strings.Contains(notes, "bundledeployments") {
		t.Errorf("want the Bundle's own count, got %v\n%s%s", err, out, notes)
	}
}
