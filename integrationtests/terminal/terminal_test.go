package terminal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A fleet is installed and grown by nothing but what the program prints and
// kubectl applies.
func TestFromATerminal(t *testing.T) {
	d := sit(t)
	real := harness.Clusters(t, "hub", "east") // which say whether what is applied is valid
	d.hub, d.east, d.west = real[0].Cluster, real[1].Cluster, harness.Memory(t, "west")
	t.Run("ThePipelineTwice", d.installsTwice)
	if t.Failed() {
		return
	}
	d.types(d.hub, "kubectl create namespace fleet-default")
	d.types(d.hub, reclaimByApproval)
	d.runs(d.hub, "fleet-controller", "fleet-controller", "--roles=controller,agentmanagement,cleanup")
	d.until("the manager leads", func() bool { return strings.Contains(d.tries(d.hub, "fleet check").out, "leader hub-fleet-controller") })

	t.Run("Joining", func(t *testing.T) {
		t.Run("ByFile", func(t *testing.T) { t.Parallel(); d.on(t).joinsByFile() })
		t.Run("ByCommand", func(t *testing.T) { t.Parallel(); d.on(t).joinsByCommand() })
		t.Run("IntoNoGroup", func(t *testing.T) { t.Parallel(); d.on(t).joinsNoGroup() })
	})
	if t.Failed() {
		return
	}
	t.Run("Checked", func(t *testing.T) { d.on(t).checks() })
	t.Run("Accepted", func(t *testing.T) { d.on(t).accepts() })
	t.Run("Emptied", func(t *testing.T) { d.on(t).empties() })
	t.Run("Forgotten", func(t *testing.T) { d.on(t).forgets() })
}

// reclaimByApproval makes the manager ask a person before another agent gets a
// Cluster: the chart's value registration.reclaim.
const reclaimByApproval = `kubectl -n cattle-fleet-system get configmap fleet-controller -o yaml |
	sed 's/"reclaim": "allow"/"reclaim": "approve"/' | kubectl replace -f -`

// The literal pipeline installs a manager, and a second time changes nothing.
func (d *shell) installsTwice(t *testing.T) {
	d = d.on(t)
	const line = "fleet install controller | kubectl apply -f -"
	first := d.types(d.hub, line)
	for _, want := range []string{"namespace/cattle-fleet-system created", "deployment.apps/fleet-controller created", "customresourcedefinition.apiextensions.k8s.io/clusters.fleet.cattle.io created"} {
		if !strings.Contains(first.out, want) {
			t.Errorf("kubectl does not say %q:\n%s", want, first.out)
		}
	}
	second := d.types(d.hub, line)
	for object := range strings.Lines(second.out) {
		if !strings.HasSuffix(object, " unchanged\n") {
			t.Errorf("the second time: %s", object)
		}
	}
	if n := strings.Count(first.out, "\n"); n != strings.Count(second.out, "\n") || n < len(fleet.Kinds())+10 {
		t.Errorf("want all objects both times, got %d and %d", n, strings.Count(second.out, "\n"))
	}
}

// startAgent starts the agent of a cluster to which its file was applied.
func (d *shell) startAgent(at harness.ControlPlane) {
	d.Helper()
	d.runs(at, "fleet-agent", "fleet-agent", "--checkin-interval=1s")
}

// A printed agent, applied to a second API server, comes in: with the labels that
// it asks for, but for those that the token's group gives.
func (d *shell) joinsByFile() {
	d.types(d.hub, `kubectl apply -f - <<EOF
{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "ClusterGroup", "metadata": {"name": "stores", "namespace": "fleet-default"},
 "spec": {"selector": {"matchLabels": {"tier": "store"}}}}
EOF`)
	if s := d.tries(d.hub, "fleet install agent-token -n fleet-default"); s.code != 1 || !strings.Contains(s.notes, "--server-url") || s.out != "" {
		d.Errorf("an address of this machine is refused, and nothing printed: %+v", s)
	}
	d.types(d.east, "fleet install agent-config -l env=prod,tier=mine | kubectl apply -f -")
	made := d.types(d.hub, "fleet install agent-token -n fleet-default -g stores -t 7d --server-url "+d.hub.URL()+" > east.yaml")
	if !strings.Contains(made.notes, "in 7d") || !strings.Contains(made.notes, "tier=store (group stores)") {
		d.Errorf("it says when the token ends and what its clusters get: %s", made.notes)
	}
	d.types(d.east, "kubectl apply -f east.yaml")
	d.startAgent(d.east)
	uid := strings.TrimSpace(d.types(d.east, "kubectl get namespace kube-system -o jsonpath='{.metadata.uid}'").out)
	d.until("east has checked in", func() bool {
		for _, c := range d.clusters() {
			if c.Spec.ClientID != uid || c.Status.Agent.LastSeen.IsZero() {
				continue
			}
			if c.Labels["env"] != "prod" || c.Labels["tier"] != "store" {
				d.Errorf("want env=prod as asked for and tier=store of the group, got %v", c.Labels)
			}
			return true
		}
		return false
	})
	file, err := os.ReadFile(filepath.Join(d.dir, "east.yaml"))
	if err != nil || !strings.Contains(string(file), "It holds registration token agent-") {
		d.Errorf("the file says what it is: %v\n%.300s", err, file)
	}
}

// One command makes the Cluster, installs its agent, waits for it, and ends the
// token.
func (d *shell) joinsByCommand() {
	done := make(chan said, 1)
	go func() {
		done <- d.tries(d.hub, fmt.Sprintf("fleet cluster join west -n fleet-default -l env=test --server-url %s --to-kubeconfig %s", d.hub.URL(), d.west.Kubeconfig()))
	}()
	d.until("the agent is installed", func() bool {
		return d.tries(d.west, "kubectl -n cattle-fleet-system get deployment fleet-agent").code == 0
	})
	d.startAgent(d.west) // as the kubelet would
	s := <-done
	if !strings.HasPrefix(s.out, "cluster fleet-default/west has joined: agent ") || !strings.Contains(s.notes, " is ended\n") {
		d.Errorf("it says who has joined, and ends the token: %+v", s)
	}
	if c := d.clusters()["west"]; c.Labels["env"] != "test" || c.Status.Agent.LastSeen.IsZero() {
		d.Errorf("not as it was asked for: %v %v", c.Labels, c.Status.Agent)
	}
	if left := d.types(d.hub, "fleet get tokens -n fleet-default -o name").out; strings.Contains(left, "join-west") {
		d.Errorf("the token is still there: %s", left)
	}
	if s := d.tries(d.hub, fmt.Sprintf("fleet cluster join other -n fleet-default --server-url %s --to-kubeconfig %s", d.hub.URL(), d.west.Kubeconfig())); s.code != 5 ||
		!strings.Contains(s.notes, "fleet-default/west already") {
		d.Errorf("a cluster that is in is not let in a second time: %+v", s)
	}
}

// A cluster whose token names a group that is gone waits, and does not come in
// without it.
func (d *shell) joinsNoGroup() {
	made := d.types(d.hub, "fleet install agent-token -n fleet-default -g late -t 1h --token-only --server-url "+d.hub.URL())
	d.types(d.hub, "kubectl -n fleet-default delete clustergroup late")
	_, rest, _ := strings.Cut(made.notes, "\ntoken ")
	token, _, _ := strings.Cut(rest, " ")
	d.types(d.hub, fmt.Sprintf(`kubectl create -f - <<EOF
{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "ClusterRegistration", "metadata": {"name": "late", "namespace": "fleet-default",
  "labels": {"fleet.cattle.io/registration-token": %q}}, "spec": {"clientID": "late", "clientRandom": "x", "clusterLabels": {"fleet.cattle.io/group": "stores", "a": "b"}}}
EOF`, token))
	d.until("an event says what it waits for", func() bool {
		return strings.Contains(d.types(d.hub, "kubectl -n fleet-default get events").out, `there is no ClusterGroup "late"`)
	})
	of := func() (found fleet.Cluster) {
		for _, c := range d.clusters() {
			if c.Spec.ClientID == "late" {
				found = c
			}
		}
		return found
	}
	if c := of(); c.Name != "" {
		d.Errorf("it came in without its group: %v", c.Labels)
	}
	d.types(d.hub, "fleet install agent-token -n fleet-default -g late -t 1h --token-only --server-url "+d.hub.URL())
	d.types(d.hub, "kubectl -n fleet-default label clusterregistration late wake=up")
	d.until("it comes in with the group", func() bool { return of().Name != "" })
	if c := of(); c.Labels["fleet.cattle.io/group"] != "late" || c.Labels["a"] != "b" {
		d.Errorf("want the group of the token, whatever the agent asks for, got %v", c.Labels)
	}
	d.types(d.hub, "fleet cluster forget -n fleet-default "+of().Name)
}

// The check sees all that is there, and says which hop fails.
func (d *shell) checks() {
	s := d.tries(d.hub, "fleet check")
	for _, want := range []string{"ok    server", "ok    manager", "ok    crds", "ok    tokens", "ok    clocks", "ok    identity"} {
		if !strings.Contains(s.out, want) {
			d.Errorf("no %q:\n%s", want, s.out)
		}
	}
	if s.code != 0 {
		d.Errorf("exit code %d\n%s%s", s.code, s.out, s.notes)
	}
	var shown fleet.ClusterList
	if err := json.Unmarshal([]byte(d.types(d.hub, "fleet get clusters -n fleet-default -o json").out), &shown); err != nil || len(shown.Items) != len(d.clusters()) {
		d.Errorf("want all Clusters, got %v: %v", shown.Items, err)
	}
	config, err := os.ReadFile(d.hub.Kubeconfig())
	if err != nil {
		d.Fatal(err)
	}
	for name, c := range map[string]struct{ url, want string }{
		"name":       {"https://nowhere.invalid:6443", "nowhere.invalid:6443: name: "},
		"connection": {"https://127.0.0.1:1", "127.0.0.1:1: connection: refused"},
		"tls":        {d.east.URL(), "TLS: "},
	} {
		path := filepath.Join(d.dir, name+".kubeconfig")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(config), d.hub.URL(), c.url)), 0o600); err != nil {
			d.Fatal(err)
		}
		if s := d.tries(d.hub, "fleet check -k "+path); s.code != 3 || !strings.Contains(s.out, "FAIL  server") || !strings.Contains(s.out, c.want) {
			d.Errorf("%s: want %q, got %+v", name, c.want, s)
		}
	}
	path := filepath.Join(d.dir, "nobody.kubeconfig")
	if err := kubeconfig.Write(path, kubeconfig.Entry{Name: "hub", Server: d.hub.URL(), CA: d.hub.CA(), Token: "wrong"}); err != nil {
		d.Fatal(err)
	}
	if s := d.tries(d.hub, "fleet check -k "+path); s.code != 3 || !strings.Contains(s.out, "credentials: ") {
		d.Errorf("credentials: %+v", s)
	}
}

// Another agent for a Cluster that has had one waits until a person lets it in.
func (d *shell) accepts() {
	var name string
	for n, c := range d.clusters() {
		if c.Labels["tier"] == "store" {
			name = n
		}
	}
	if s := d.tries(d.hub, "fleet cluster accept -n fleet-default "+name); s.code != 1 || !strings.Contains(s.notes, "no agent asks") {
		d.Errorf("no agent asks yet: %+v", s)
	}
	d.ends(d.east)
	d.types(d.east, "kubectl -n cattle-fleet-system delete secret fleet-agent && kubectl apply -f east.yaml")
	d.startAgent(d.east)
	d.until("the list says who waits", func() bool {
		return strings.Contains(d.types(d.hub, "fleet cluster list").notes, "fleet cluster accept -n fleet-default "+name)
	})
	if s := d.types(d.hub, "fleet cluster accept -n fleet-default "+name); !strings.HasPrefix(s.out, "accepted ") {
		d.Errorf("want it accepted: %+v", s)
	}
	d.until("it has its credential", func() bool {
		return d.types(d.east, "kubectl -n cattle-fleet-system get secret fleet-agent --ignore-not-found -o jsonpath={.data.kubeconfig}").out != ""
	})
}

// emptyable are four bundles, more than a deletion budget lets go unasked: one with a
// volume, which goes with an approval only, and one that says that its objects stay.
const emptyable = `for b in goes-1 goes-2 volume stays; do kubectl apply -f - <<EOF
{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": {"name": "$b", "namespace": "fleet-default"},
 "spec": {"keepResources": $([ $b = stays ] && echo true || echo false), "targets": [{"clusterSelector": {"matchLabels": {"tier": "store"}}}], "resources": [
  {"name": "a.yaml", "content": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: $b, namespace: default}\n"},
  {"name": "b.yaml", "content": "$([ $b = volume ] && printf %s 'apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: default}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n')"}]}}
EOF
done`

// With --uninstall a cluster is emptied before it is forgotten: at once, whatever it
// is, since a person has seen the list.
func (d *shell) empties() {
	d.types(d.hub, emptyable)
	var name string
	for n, c := range d.clusters() {
		if c.Labels["tier"] == "store" && c.Status.Namespace != "" {
			name = n
		}
	}
	there := func(object string) bool { return d.tries(d.east, "kubectl -n default get "+object).code == 0 }
	for _, object := range []string{"configmap/goes-1", "configmap/goes-2", "pvc/data", "configmap/stays"} {
		d.until(object+" is there", func() bool { return there(object) })
	}
	s := d.tries(d.hub, "fleet cluster forget --uninstall -n fleet-default "+name)
	if s.code != 5 || !strings.Contains(s.notes, "(4: goes-1, goes-2, stays, volume)") || !there("configmap/goes-1") {
		d.Errorf("want the list of what would go, and nothing done: %+v", s)
	}
	s = d.types(d.hub, "fleet cluster forget --uninstall --yes -n fleet-default "+name)
	if s.out != "cluster fleet-default/"+name+" is forgotten; what Fleet had deployed there is removed\n" {
		d.Errorf("want it said: %+v", s)
	}
	for object, want := range map[string]bool{"configmap/goes-1": false, "configmap/goes-2": false, "configmap/volume": false, "configmap/stays": true} {
		if there(object) != want {
			d.Errorf("%s: want it there: %t", object, want)
		}
	}
	d.until("the cluster is gone", func() bool { _, known := d.clusters()[name]; return !known })
}

// A cluster is let go; one whose agent is there only with a second word.
func (d *shell) forgets() {
	if s := d.tries(d.hub, "fleet cluster forget -n fleet-default west"); s.code != 5 || !strings.Contains(s.notes, "--yes") {
		d.Errorf("its agent is there: %+v", s)
	}
	d.types(d.hub, "fleet cluster forget -n fleet-default west --yes")
	d.until("it is gone", func() bool { _, there := d.clusters()["west"]; return !there })
	d.types(d.west, "kubectl -n cattle-fleet-system get deployment fleet-agent")
}
