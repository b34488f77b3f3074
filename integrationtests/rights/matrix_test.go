package rights_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/rights"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

var update = flag.Bool("update", false, "rewrite the table in docs/security.md")

// everybody may ask about himself.
var everybody = []string{"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io"}

// A column of the matrix is one credential, with respect to some places.
type column struct {
	title  string
	token  string
	places []rights.Place
}

// Every verb on every kind that the API server serves, for every credential that
// leaves the management cluster, as the API server says and as it does. The table in
// docs/security.md is what this test finds.
func TestMatrix(t *testing.T) {
	w := newWorld(t, credential.Lifetimes{Grace: credential.DefaultGrace})
	b := w.token("all")
	one, two := w.register(b, "a"), w.register(b, "b")
	w.tenant("team", fleet.NamespaceDefault)
	columns := []column{
		{"registration token", b.Token, w.places(one, two)},
		{"agent of A, on A", one.data["token"], w.placesOf(one)},
		{"agent of A, on B", one.data["token"], w.placesOf(two)},
		{"agent of A, elsewhere", one.data["token"], w.elsewhere(one, two)},
	}
	var cells []map[string]string
	for _, c := range columns {
		cells = append(cells, w.cells(c, one, two))
	}
	tenant := column{"tenant", w.accountToken("team"), w.places(one, two)}
	t.Run("Secrets", func(t *testing.T) { secretsOfAWorkspace(t, w) })
	t.Run("BundlesOfAgents", func(t *testing.T) { bundlesOfAgents(t, w) })
	tenant.places[1].NamesOf["secrets"] = []string{ownSecret, "east-kubeconfig"}
	columns, cells = append(columns, tenant), append(cells, w.cells(tenant, one, two))

	w.become(brief)
	token, renewal := w.takes(one)
	for _, c := range []column{
		{"agent of A, with `credentialTTL`", token, w.places(one, two)},
		{"its renewal", renewal, w.places(one, two)},
	} {
		columns, cells = append(columns, c), append(cells, w.cells(c, one, two))
	}
	checkTable(t, columns, cells)
}

// cells returns the rights of one credential, by kind.
func (w *world) cells(c column, one, two newcomer) map[string]string {
	w.Helper()
	got := rights.Look(w, w.hub.Cluster.REST(), kube.Access{URL: w.hub.Cluster.URL(), CA: w.hub.Cluster.CA(), Token: c.token}.REST(), c.places)
	if diff := cmp.Diff(got.Said, got.Done); diff != "" {
		w.Errorf("%s: what the API server says is not what it does\n-says +does\n%s", c.title, diff)
	}
	found := map[string]map[string][]string{} // verbs by kind and where
	anywhere := map[string]bool{}
	for _, line := range got.Done {
		r := rights.ParseRight(line)
		if r.Place == "cluster" {
			anywhere[r.Verb+" "+r.Kind] = true
		}
	}
	for _, line := range got.Done {
		r := rights.ParseRight(line)
		if slices.Contains(everybody, r.Kind) || r.Place != "cluster" && anywhere[r.Verb+" "+r.Kind] {
			continue
		}
		where := w.where(c, r, one, two)
		if found[r.Kind] == nil {
			found[r.Kind] = map[string][]string{}
		}
		if !slices.Contains(found[r.Kind][where], r.Verb) {
			found[r.Kind][where] = append(found[r.Kind][where], r.Verb)
		}
	}
	out := map[string]string{}
	for kind, byWhere := range found {
		var parts []string
		for _, where := range slices.Sorted(maps.Keys(byWhere)) {
			slices.Sort(byWhere[where])
			parts = append(parts, strings.TrimSpace(strings.Join(byWhere[where], ", ")+" "+where))
		}
		out[kind] = strings.Join(parts, "; ")
	}
	return out
}

// where is the place of a right in words; empty where the column says it.
func (w *world) where(c column, r rights.Right, one, two newcomer) string {
	name := strings.NewReplacer(
		one.data["clusterName"], "A", two.data["clusterName"], "B",
		one.secret, "the Secret made for its request", two.secret, "the Secret made for its request",
		one.account+"-renewal", "its renewal account", one.account, "its account",
	).Replace(r.Name)
	place := map[string]string{"own": "in A's namespace", "other": "in B's namespace", "workspace": "", "registrations": "", "system": "in the system namespace", "cluster": "everywhere"}[r.Place]
	if strings.HasPrefix(c.title, "agent of A, on") && (r.Place == "own" || r.Place == "other") {
		place = ""
	}
	switch {
	case name == ownSecret:
		return "of its own"
	case name == "":
		if r.Place == "workspace" {
			return "in its workspace"
		}
		return place
	case strings.HasPrefix(name, "its ") || strings.HasPrefix(name, "the "):
		return "of " + name
	case strings.HasPrefix(c.title, "agent of A, on"):
		return ""
	}
	return "of " + name
}

// checkTable compares the matrix with the table in docs/security.md, or rewrites it.
func checkTable(t *testing.T, columns []column, cells []map[string]string) {
	t.Helper()
	kinds := map[string]bool{}
	head, line := "| kind |", "|---|"
	for i, c := range columns {
		head, line = head+" "+c.title+" |", line+"---|"
		for kind := range cells[i] {
			kinds[kind] = true
		}
	}
	table := head + "\n" + line + "\n"
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		table += "| `" + kind + "` |"
		for i := range columns {
			cell := cells[i][kind]
			if cell == "" {
				cell = "–"
			}
			table += " " + cell + " |"
		}
		table += "\n"
	}
	table += "| every other kind |" + strings.Repeat(" – |", len(columns)) + "\n"
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "security.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- begin matrix -->\n")
	have, after, ok2 := strings.Cut(rest, "<!-- end matrix -->")
	if !ok || !ok2 {
		t.Fatal("docs/security.md has no section \"matrix\"")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+"<!-- begin matrix -->\n"+table+"<!-- end matrix -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, table); diff != "" {
		t.Errorf("the table in docs/security.md is not what credentials may do; if they shall, run this test with -update\n-docs +is\n%s", diff)
	}
}

// A newcomer has registered without an agent.
type newcomer struct {
	data    map[string]string // of the Secret that answered its request
	secret  string            // the name of that
	account string
}

// register does what an agent does to join, with a clientID: it asks again where an API
// server has not heard yet of its rights. They hold when it returns.
func (w *world) register(b registration.Bootstrapping, clientID string) newcomer {
	w.Helper()
	asking := w.as(b.Token)
	w.until("token "+b.TokenName+" may ask", func() bool {
		_, err := kube.StoreOf[*fleet.ClusterRegistration](asking).Create(w.Context(), &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "request-", Namespace: b.ClusterNamespace, Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
			},
			Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: "word"},
		})
		return w.allowed(err)
	})
	n := newcomer{data: map[string]string{}, secret: naming.RegistrationSecret(clientID, "word")}
	w.until("the credential of "+clientID, func() bool {
		s, err := kube.StoreOf[*corev1.Secret](asking).Get(w.Context(), kube.Key{Namespace: b.RegistrationNamespace, Name: n.secret})
		if err != nil {
			return false
		}
		for k, v := range s.Data {
			n.data[k] = string(v)
		}
		return true
	})
	own := w.as(n.data["token"])
	key := kube.Key{Namespace: n.data["clusterNamespace"], Name: n.data["clusterName"]}
	w.until("the rights of "+clientID+" hold", func() bool {
		_, deployments := kube.StoreOf[*fleet.BundleDeployment](own).List(w.Context(), n.data["deploymentNamespace"], "")
		_, content := kube.StoreOf[*fleet.Content](own).Get(w.Context(), kube.Key{Name: "none"})
		_, status := kube.StoreOf[*fleet.Cluster](own).PatchRaw(w.Context(), key, types.MergePatchType, []byte(`{"status":{}}`), "status")
		return deployments == nil && kube.IsGone(content) && status == nil
	})
	for _, a := range list[*corev1.ServiceAccount](w, fleet.NamespaceRegistration, fleet.LabelCluster+"="+n.data["clusterName"]) {
		n.account = a.Name
	}
	return n
}

// takes takes what the manager offers, as the agent of a newcomer does.
func (w *world) takes(n newcomer) (token, renewal string) {
	w.Helper()
	key := kube.Key{Namespace: n.data["clusterNamespace"], Name: n.data["clusterName"]}
	var offer string
	w.until("the offer", func() bool {
		c, _ := get[*fleet.Cluster](w, key.Namespace, key.Name)
		offer = c.Annotations[fleet.AnnotationCredential]
		return offer != ""
	})
	o, err := credential.ParseOffer(offer)
	w.must(err)
	old := w.as(n.data["token"])
	w.until("it may fetch its tokens", func() bool {
		token, err = old.RequestToken(w.Context(), kube.Key{Namespace: o.Namespace, Name: o.Account}, o.Life.TTL)
		if err == nil {
			renewal, err = old.RequestToken(w.Context(), kube.Key{Namespace: o.Namespace, Name: o.Renewal}, o.Life.RenewalTTL())
		}
		return w.allowed(err)
	})
	body := fmt.Sprintf(`{"status":{"agent":{"credential":%q}}}`, credential.Digest(offer))
	_, err = kube.StoreOf[*fleet.Cluster](w.as(token)).PatchRaw(w.Context(), key, types.MergePatchType, []byte(body), "status")
	w.must(err)
	w.until("the lasting token is gone", func() bool {
		_, there := get[*corev1.Secret](w, o.Namespace, credential.LastingToken(o.Account))
		return !there
	})
	return token, renewal
}

// allowed reports whether something was done, and not refused: an API server may not have
// heard yet of a right. Any other error fails the test.
func (w *world) allowed(err error) bool {
	w.Helper()
	if !kube.IsForbidden(err) {
		w.must(err)
	}
	return err == nil
}

// placesOf are the places that belong to one cluster.
func (w *world) placesOf(n newcomer) []rights.Place {
	label := "own"
	return []rights.Place{
		{Label: label, Namespace: n.data["deploymentNamespace"]},
		{Label: "workspace", Namespace: fleet.NamespaceDefault, NamesOf: map[string][]string{"clusters": {n.data["clusterName"]}}},
	}
}

// elsewhere are the places that belong to no one cluster.
func (w *world) elsewhere(one, two newcomer) []rights.Place {
	return []rights.Place{
		{Label: "cluster"},
		{Label: "registrations", Namespace: fleet.NamespaceRegistration, NamesOf: map[string][]string{
			"secrets":         {one.secret, two.secret, credential.LastingToken(one.account), credential.LastingToken(two.account)},
			"serviceaccounts": {one.account, two.account, credential.RenewalAccount(one.account), credential.RenewalAccount(two.account)},
		}},
		{Label: "system", Namespace: fleet.NamespaceSystem},
	}
}

// places are all of them.
func (w *world) places(one, two newcomer) []rights.Place {
	out := w.placesOf(one)
	out[1].NamesOf = map[string][]string{"clusters": {one.data["clusterName"], two.data["clusterName"]}}
	out = append(out, rights.Place{Label: "other", Namespace: two.data["deploymentNamespace"]})
	return append(out, w.elsewhere(one, two)...)
}

// tenant is a person with the Role that docs/security.md recommends.
func (w *world) tenant(name, namespace string) {
	w.Helper()
	root, err := source.Root()
	w.must(err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	w.must(err)
	_, rest, ok := strings.Cut(string(text), "<!-- begin role of a team -->\n```yaml\n")
	role, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		w.Fatal("docs/security.md has no Role of a team")
	}
	w.hub.Grant(w, role)
	_, err = kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).Create(w.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "fleet-team"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	})
	w.must(err)
}

// accountToken is a token of an account in the workspace.
func (w *world) accountToken(name string) string {
	w.Helper()
	return w.hub.Account(w, fleet.NamespaceDefault, name).BearerToken
}
