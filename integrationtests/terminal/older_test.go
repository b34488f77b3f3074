package terminal_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// older is the revision whose agent a manager of today has to work with: the last
// one of protocol 1, before contents in parts.
const older = "801e3397d319cf5665ba1b819f1c62776da14bb0"

// A manager works with an agent that was built before it: whatever it orders is
// done, what that agent cannot read is said, and today's agent takes its place, and
// gives it back, without touching a workload.
func TestOlderAgent(t *testing.T) {
	agent := harness.Older(t, older, "fleet-agent")
	d := sit(t)
	d.hub, d.east = harness.Memory(t, "hub"), harness.Cluster(t, "east") // which has pods
	if err := os.Symlink(agent, filepath.Join(d.tools, "fleet-agent-older")); err != nil {
		t.Fatal(err)
	}
	d.types(d.hub, "fleet install controller | kubectl apply -f -")
	d.types(d.hub, "kubectl create namespace fleet-default")
	d.runs(d.hub, "fleet-controller", "fleet-controller", "--roles=controller,agentmanagement,cleanup")
	d.until("the manager leads", func() bool { return strings.Contains(d.tries(d.hub, "fleet check").out, "leader hub-fleet-controller") })
	for _, part := range []struct {
		name   string
		report func(*shell)
	}{
		{"Registers", (*shell).olderRegisters},
		{"Deploys", (*shell).olderDeploys},
		{"ReportsDrift", (*shell).olderReportsDrift},
		{"ChecksIn", (*shell).olderChecksIn},
		{"Uninstalls", (*shell).olderUninstalls},
		{"LosesNothing", (*shell).olderLosesNothing},
		{"CannotReadParts", (*shell).olderCannotReadParts},
		{"Replaced", (*shell).olderReplaced},
		{"Returns", (*shell).olderReturns},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.report(d.on(t)) }) {
			return
		}
	}
}

// aShop is a Bundle with a chart whose values say one word.
func aShop(name, word, options string) string {
	return fmt.Sprintf(`kubectl apply -f - <<'EOF'
{"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Bundle", "metadata": {"name": %[1]q, "namespace": "fleet-default"}, "spec": {
 "defaultNamespace": %[1]q, "helm": {"values": {"word": %[2]q}}, "targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}}]%[3]s, "resources": [
  {"name": "Chart.yaml", "content": "apiVersion: v2\nname: shop\nversion: 1.0.0\n"},
  {"name": "templates/word.yaml", "content": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: word}\ndata: {word: '{{ .Values.word }}'}\n"},
  {"name": "templates/sign.yaml", "content": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sign}\ndata: {says: open}\n"},
  {"name": "templates/web.yaml", "content": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: example/web:1}]}\n"}]}}
EOF`, name, word, options)
}

// word returns the value that the chart of a Bundle sets on the cluster; empty if
// it is not there.
func (d *shell) word(bundle string) string {
	m, err := d.connect(d.east).Client.CoreV1().ConfigMaps(bundle).Get(d.Context(), "word", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return m.Data["word"]
}

// bundle reads a Bundle of fleet-default; the zero Bundle if there is none.
func (d *shell) bundle(name string) fleet.Bundle {
	d.Helper()
	b, err := kube.StoreOf[*fleet.Bundle](d.connect(d.hub).Admin).Get(d.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: name})
	if kube.IsGone(err) {
		return fleet.Bundle{}
	}
	if err != nil {
		d.Fatal(err)
	}
	return *b
}

// ready waits until a Bundle is Ready, as it was asked for last.
func (d *shell) ready(name string) {
	d.Helper()
	var last fleet.Bundle
	defer func() {
		if d.Failed() {
			d.Logf("bundle %s: %+v", name, last.Status)
		}
	}()
	d.until("the bundle "+name+" is Ready", func() bool {
		last = d.bundle(name)
		c := condition.Find(last.Status.Conditions, fleet.ConditionReady)
		return last.Status.ObservedGeneration == last.Generation && last.Status.Summary.Ready == 1 && c != nil && c.Status == corev1.ConditionTrue
	})
}

// joined is the Cluster of the agent.
func (d *shell) joined() *fleet.Cluster {
	d.Helper()
	for _, c := range d.clusters() {
		return &c
	}
	return &fleet.Cluster{}
}

// speaks are the protocols of the agents that have written to the Cluster.
func (d *shell) speaks() string {
	d.Helper()
	var out []string
	for _, c := range d.clusters() {
		for _, f := range c.ManagedFields {
			out = append(out, f.Manager)
		}
	}
	return strings.Join(out, " ")
}

// asksForProd configures the labels that the agent asks for: the chart's value
// labels, which is all that the older one knows.
const asksForProd = `kubectl -n cattle-fleet-system get configmap fleet-agent -o yaml |
	sed 's/"agentTLSMode"/"labels": {"env": "prod"}, "agentTLSMode"/' | kubectl replace -f -`

// It comes in by a token, and its own bundle is deployed by itself.
func (d *shell) olderRegisters() {
	d.types(d.hub, "fleet install agent-token -n fleet-default -t 1h --server-url "+d.hub.URL()+" > east.yaml")
	d.types(d.east, "kubectl apply -f east.yaml")
	d.types(d.east, asksForProd)
	d.runs(d.east, "fleet-agent", "fleet-agent-older", "--checkin-interval=1s")
	d.until("east has checked in", func() bool { return !d.joined().Status.Agent.LastSeen.IsZero() })
	if c := d.joined(); c.Labels["env"] != "prod" {
		d.Errorf("want the labels that it asks for, got %v", c.Labels)
	}
	if s := d.speaks(); !strings.Contains(s, "fleet-agent-p1") {
		d.Errorf("this is not the agent that is meant: %s", s)
	}
	d.ready("fleet-agent-" + d.joined().Name)
}

// It deploys a chart with values, and its changes.
func (d *shell) olderDeploys() {
	d.types(d.hub, aShop("shop", "one", ""))
	d.until("it is deployed", func() bool { return d.word("shop") == "one" })
	d.ready("shop")
	d.types(d.hub, aShop("shop", "two", ""))
	d.until("it is changed", func() bool { return d.word("shop") == "two" })
	d.ready("shop")
}

// drift changes an object of some Bundles by hand until they report it, and changes
// it back: an agent that reports drift looks at the whole release.
func (d *shell) drift(bundles ...string) {
	d.Helper()
	says := func(what string) {
		for _, name := range bundles {
			d.types(d.east, fmt.Sprintf(`kubectl -n %s patch configmap sign --type merge -p '{"data": {"says": %q}}'`, name, what))
		}
	}
	says("closed")
	for _, name := range bundles {
		d.until("the drift of "+name+" is reported", func() bool {
			return d.bundle(name).Status.Summary.Modified == 1
		})
	}
	says("open")
	for _, name := range bundles {
		d.ready(name)
	}
}

func (d *shell) olderReportsDrift() { d.drift("shop") }

// The check-in of it is seen, and the check of all says nothing bad.
func (d *shell) olderChecksIn() {
	seen := d.joined().Status.Agent.LastSeen
	d.until("it checks in again", func() bool { return d.joined().Status.Agent.LastSeen.After(seen.Time) })
	c := d.joined()
	if cond := condition.Find(c.Status.Conditions, fleet.ConditionConnected); cond == nil || cond.Status != corev1.ConditionTrue {
		d.Errorf("want it Connected, got %+v", cond)
	}
	if s := d.tries(d.hub, "fleet check"); s.code != 0 || strings.Contains(s.out, "do not confirm removals") {
		d.Errorf("want all well: %d\n%s%s", s.code, s.out, s.notes)
	}
}

// What is withdrawn it uninstalls, and says so: nothing of it is left.
func (d *shell) olderUninstalls() {
	d.types(d.hub, aShop("booth", "short", ""))
	d.until("it is deployed", func() bool { return d.word("booth") == "short" })
	d.ready("booth")
	d.types(d.hub, "kubectl -n fleet-default delete bundles.fleet.cattle.io booth --timeout=150s")
	d.until("its objects go", func() bool {
		return d.types(d.east, "kubectl -n booth get configmap/sign configmap/word deployment/web --ignore-not-found -o name").out == ""
	})
	namespace := d.joined().Status.Namespace
	d.until("its deployment goes", func() bool {
		return d.types(d.hub, "kubectl -n "+namespace+" get bundledeployments.fleet.cattle.io booth --ignore-not-found -o name").out == ""
	})
	if releases := d.types(d.east, "kubectl -n booth get secrets -l owner=helm -o name").out; releases != "" {
		d.Errorf("its release is still there: %s", releases)
	}
	if d.word("shop") != "two" {
		d.Error("another bundle has lost its objects")
	}
}

// A Bundle that is deleted and made again is deployed again; where its objects are
// to stay, they are the same ones.
func (d *shell) olderLosesNothing() {
	const keeps = `, "keepResources": true`
	d.types(d.hub, aShop("stall", "here", keeps))
	d.until("it is deployed", func() bool { return d.word("stall") == "here" })
	d.ready("stall")
	uids := func() string {
		return d.types(d.east, "kubectl -n stall get configmap/sign configmap/word deployment/web -o jsonpath='{.items[*].metadata.uid}'").out
	}
	before := uids()
	d.types(d.hub, "kubectl -n fleet-default delete bundles.fleet.cattle.io stall --timeout=150s")
	d.types(d.hub, aShop("stall", "again", keeps))
	d.until("it is deployed again", func() bool { return d.word("stall") == "again" })
	d.ready("stall")
	if after := uids(); after != before {
		d.Errorf("its objects were created again: %s, before %s", after, before)
	}
	d.types(d.hub, aShop("market", "busy", ""))
	d.types(d.hub, "kubectl -n fleet-default delete bundles.fleet.cattle.io shop --timeout=150s")
	d.types(d.hub, aShop("shop", "three", ""))
	d.until("it is back", func() bool { return d.word("shop") == "three" && d.word("market") == "busy" })
	d.ready("shop")
	d.ready("market")
}

// What this agent cannot read it is not given, and the Bundle says why.
func (d *shell) olderCannotReadParts() {
	if err := os.Mkdir(filepath.Join(d.dir, "depot"), 0o700); err != nil {
		d.Fatal(err)
	}
	for i := range 4 {
		data := make([]byte, 384<<10)
		_, _ = rand.Read(data)
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: crate-%d, namespace: shop}\nbinaryData: {of: %s}\n", i, base64.StdEncoding.EncodeToString(data))
		if err := os.WriteFile(filepath.Join(d.dir, "depot", fmt.Sprintf("%d.yaml", i)), []byte(text), 0o600); err != nil {
			d.Fatal(err)
		}
	}
	d.types(d.hub, `echo '{"targets": [{"clusterSelector": {"matchLabels": {"env": "prod"}}}]}' > targets.yaml
fleet apply -n fleet-default --targets-file targets.yaml goods depot`)
	d.until("the bundle says why it is not deployed", func() bool {
		return strings.Contains(fmt.Sprint(d.bundle("goods-depot").Status.Conditions), "above 1 MiB, the limit of this agent (protocol 1): upgrade the agent")
	})
	d.ready("shop") // the others are not held up
}

// untouched are the Bundles whose objects no change of agents may write.
var untouched = []string{"shop", "stall", "market"}

// things are all objects of the workloads with what reports that one was written:
// its UID and its version. Releases are among them, and what this test changes and
// adds itself is not.
func (d *shell) things() []string {
	d.Helper()
	var out []string
	for _, namespace := range untouched {
		s := d.types(d.east, "kubectl -n "+namespace+` get configmaps,deployments,replicasets,pods,secrets -o jsonpath='{range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.generation} {.metadata.resourceVersion}{"\n"}{end}'`)
		for line := range strings.Lines(s.out) {
			if !strings.Contains(line, "/crate-") && !strings.HasPrefix(line, "ConfigMap/sign ") && !strings.Contains(line, "-goods-depot.") {
				out = append(out, namespace+" "+strings.TrimSpace(line))
			}
		}
	}
	if len(out) < 5*len(untouched) {
		d.Fatalf("this is not all: %s", out)
	}
	slices.Sort(out)
	return out
}

// same checks that no object of the workloads was written since.
func (d *shell) same(before []string) {
	d.Helper()
	if after := d.things(); !slices.Equal(before, after) {
		d.Errorf("something was written:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// Today's agent takes over what the older one has deployed, and writes nothing of
// it; then it deploys what that one could not.
func (d *shell) olderReplaced() {
	d.until("all pods are there", func() bool {
		s := d.types(d.east, "kubectl get deployments -A -l app.kubernetes.io/managed-by=Helm -o jsonpath='{.items[*].status.readyReplicas}'")
		return len(strings.Fields(s.out)) >= 3
	})
	d.ends(d.east)
	before := d.things()
	d.startAgent(d.east)
	d.until("today's agent checks in", func() bool { return strings.Contains(d.speaks(), fleet.FieldManagerAgent) })
	d.ready("goods-depot")
	for _, name := range []string{"shop", "stall", "market", "fleet-agent-" + d.joined().Name} {
		d.ready(name)
	}
	d.drift(untouched...)
	d.same(before)
	d.types(d.hub, aShop("shop", "four", ""))
	d.until("it deploys", func() bool { return d.word("shop") == "four" })
	d.ready("shop")
}

// A rollback brings the older one back: it goes on with what today's has deployed,
// and leaves alone what it cannot read.
func (d *shell) olderReturns() {
	const crate = "kubectl -n shop get configmap crate-0 -o jsonpath='{.metadata.uid} {.metadata.resourceVersion}'"
	d.ends(d.east)
	before, stored := d.things(), d.types(d.east, crate).out
	d.runs(d.east, "fleet-agent", "fleet-agent-older", "--checkin-interval=1s")
	d.drift(untouched...)
	d.same(before)
	d.types(d.hub, aShop("shop", "five", ""))
	d.until("it deploys", func() bool { return d.word("shop") == "five" })
	d.ready("shop")
	if now := d.tries(d.east, crate).out; now != stored {
		d.Errorf("what it cannot read was touched: %q, before %q", now, stored)
	}
}
