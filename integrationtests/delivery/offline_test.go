package delivery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// pod is a manifest of a Pod that no node takes: it is Ready when the test says
// so.
func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  nodeSelector: {no: where}\n  containers: [{name: c, image: x}]\n"
}

// runs makes a Pod Ready.
func (p *place) runs(namespace, name string) {
	p.Helper()
	status, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}})
	p.Must(err)
	_, err = kube.StoreOf[*corev1.Pod](p.Hub.Admin).PatchRaw(p.Context(), kube.Key{Namespace: namespace, Name: name}, types.MergePatchType, status, "status")
	p.Must(err)
}

// base is a Bundle of one Pod.
func (p *place) base(name string, on ...fleet.BundleRef) {
	p.Helper()
	p.bundle(name, func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "pod.yaml", Content: pod(name)}}
		s.DependsOn = on
	})
}

// manager is how the test reaches the manager.
func manager(hub *harness.Hub) *rest.Config { return hub.Cluster.REST() }

// offline: what was accepted is deployed by an agent that starts with the
// registry, and the manager, out of reach: when what it depends on is there.
func offline(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "offline")
	p.Stop()
	repo := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{app("1.0.0", "from the store")}})
	way := lineTo(t, repo.Host)
	up := lineTo(t, strings.TrimPrefix(manager(hub).Host, "https://"))
	kubeconfig := strings.ReplaceAll(string(hub.Kubeconfig(p.Token())), strings.TrimPrefix(hub.Cluster.URL(), "https://"), up.addr)
	p.CredentialFor([]byte(kubeconfig))
	p.Start()

	p.base("base")
	p.secret("along", map[string]string{"key": "kept too"})
	p.bundle("app", func(s *fleet.BundleSpec) {
		s.Helm = &fleet.HelmOptions{Repo: "http://" + way.addr, Chart: "app", Version: "1.0.0"}
		s.HelmOpOptions = &fleet.BundleHelmOptions{}
		s.DependsOn = []fleet.BundleRef{{Name: "base"}}
		s.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "along"}}
	})
	p.appears("app")
	p.Says("app", fleet.ConditionDeployed, "DependenciesNotReady", "dependent bundle(s) are not ready: [base]; depends on base, which is NotReady")
	p.State("app", fleet.ErrApplied) // as with the reference

	p.Stop()
	way.cut()
	up.cut()
	asked, before := repo.Requests(""), p.turns()
	p.Start()
	p.Until("the agent looks after both", func() bool { return p.turns() >= before+2 })
	if got := p.data(p.Home("app"), "settings"); got != nil {
		t.Fatalf("base is not Ready, and app is there: %v", got)
	}
	p.runs(p.Home("base"), "base")

	p.eventually(p.Home("app"), "settings", holding("from the store"))
	if s, ok := look[*corev1.Secret](p, p.Home("app"), "along"); !ok || string(s.Data["key"]) != "kept too" {
		t.Errorf("the Secret that goes along: %t %v", ok, s)
	}
	if n := repo.Requests(""); n != asked {
		t.Errorf("the registry was asked %d times", n-asked)
	}
	up.mend()
	p.ready("app")
}

// chain: three bundles of which each depends on the one before wait without
// asking anybody, and are Ready within a second of each other.
func chain(t *testing.T, hub *harness.Hub) {
	over := harness.Fastest(0, func(try int) time.Duration {
		took, limit := chained(t, at(t, hub, fmt.Sprint("chain", try)))
		t.Logf("three bundles took %s, want less than a second for each, and what deploying takes: %s", took, limit)
		return took - limit
	})
	if over > 0 {
		t.Error("bundles that depend on each other come slowly")
	}
}

// chained reports how long such a chain takes from its first link on, and how long it
// may.
func chained(t *testing.T, p *place) (took, limit time.Duration) {
	t.Helper()
	p.bundle("last", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("last", "x")}}
		s.DependsOn = []fleet.BundleRef{{Name: "middle", AcceptedStates: []fleet.BundleState{fleet.Ready, fleet.Modified}}}
	})
	p.bundle("middle", func(s *fleet.BundleSpec) {
		s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap("middle", "x")}}
		s.DependsOn = []fleet.BundleRef{{Name: "first"}}
	})
	p.appears("middle")
	p.Says("middle", fleet.ConditionDeployed, "DependenciesNotReady", "list bundledeployments: no bundles matching labels "+
		fleet.LabelBundleName+"=first,"+fleet.LabelBundleNamespace+"="+p.Workspace+" in namespace "+p.Workspace+`; not on this cluster: bundle "first"`)
	p.State("middle", fleet.ErrApplied) // as with the reference
	p.base("first")
	p.appears("first")
	p.appears("last")
	p.Says("middle", fleet.ConditionDeployed, "DependenciesNotReady", "first, which is NotReady")
	p.Says("last", fleet.ConditionDeployed, "DependenciesNotReady", "middle, which is ErrApplied (accepted: Ready, Modified)")

	p.State("first", fleet.NotReady)
	p.rests()

	began := time.Now()
	p.Order("alone", harness.Order{Files: []string{"cm.yaml", harness.ConfigMap("alone", "x")}})
	p.State("alone", fleet.Ready)
	usual := time.Since(began) // what one deployment takes on this machine now

	began = time.Now()
	p.runs(p.Home("first"), "first")
	for _, name := range []string{"first", "middle", "last"} {
		p.ready(name)
		t.Logf("%s is Ready after %s; one deployment takes %s", name, time.Since(began).Round(time.Millisecond), usual.Round(time.Millisecond))
	}
	return time.Since(began), 3 * (time.Second + usual)
}

// rests waits until the agent does nothing for a while.
func (p *place) rests() {
	p.Helper()
	const quiet = 3 * time.Second
	last, since := p.turns(), time.Now()
	p.Until("the agent looks at nothing as long as nothing happens", func() bool {
		if n := p.turns(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > quiet
	})
}

// circle: bundles that wait for each other are all named, and taking out one
// of the edges lets all of them go.
func circle(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "circle")
	for name, on := range map[string]string{"a": "b", "b": "c", "c": "a"} {
		p.bundle(name, func(s *fleet.BundleSpec) {
			s.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: harness.ConfigMap(name, "x")}}
			s.DependsOn = []fleet.BundleRef{{Name: on}}
		})
	}
	for name, ring := range map[string]string{"a": "a -> b -> c -> a", "b": "b -> c -> a -> b", "c": "c -> a -> b -> c"} {
		p.appears(name)
		p.Says(name, fleet.ConditionReady, "DependencyCycle", ring)
		p.State(name, fleet.ErrApplied)
	}
	p.change("c", func(s *fleet.BundleSpec) { s.DependsOn = nil })
	for _, name := range []string{"a", "b", "c"} {
		p.ready(name)
	}
}

// waits: a content that is not there, is damaged, or values that are not there
// are waited for, with a text; a bundle beside them goes on.
func waits(t *testing.T, hub *harness.Hub) {
	p := at(t, hub, "waits")
	good := []string{"cm.yaml", harness.ConfigMap("cm", "good")}
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: good[0], Content: harness.ConfigMap("cm", "late")}}}
	late, err := content.New(m)
	p.Must(err)
	contents := kube.StoreOf[*fleet.Content](hub.Admin)

	p.Order("missing", harness.Order{Files: good, Change: func(bd *fleet.BundleDeployment) {
		bd.Spec.DeploymentID = late.Name + bd.Spec.DeploymentID[strings.Index(bd.Spec.DeploymentID, ":"):]
		bd.Spec.StagedDeploymentID = bd.Spec.DeploymentID
	}})
	p.Order("novalues", harness.Order{Files: good, Change: func(bd *fleet.BundleDeployment) { bd.Spec.ValuesHash = "of values that do not exist" }})
	p.Order("fine", harness.Order{Files: good})
	p.State("fine", fleet.Ready)
	for name, text := range map[string]string{"missing": "the manager does not have content", "novalues": "the Secret with the values is not there yet"} {
		bd := p.Says(name, fleet.ConditionDeployed, map[string]string{"missing": "ContentMissing", "novalues": "ValuesPending"}[name], text)
		if c := condition.Find(bd.Status.Conditions, fleet.ConditionStalled); c != nil {
			t.Errorf("%s is given up: %v", name, c)
		}
	}

	broken := late.DeepCopy()
	broken.Content = append([]byte(nil), late.Content...)
	broken.Content[len(broken.Content)/2] ^= 0xff
	_, err = contents.Create(p.Context(), broken)
	p.Must(err)
	p.Says("missing", fleet.ConditionDeployed, content.ReasonDamaged, late.Name[:10])
	there, err := contents.Get(p.Context(), kube.KeyOf(late))
	p.Must(err)
	mended := there.DeepCopy()
	mended.Content = late.Content
	_, err = contents.Update(p.Context(), mended)
	p.Must(err)
	p.Order("novalues", harness.Order{Files: good})
	p.State("missing", fleet.Ready)
	p.State("novalues", fleet.Ready)
	if got := p.Data(p.Home("missing"), "cm"); got != "" && got != "late" {
		t.Errorf("what came late is %q", got)
	}
}
