package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/schedule"
)

// The hours at which a window of one hour opens each day. The tests begin at midnight.
const first, second = 2, 5

func nights(freeze bool) string {
	return schedule.Encode([]schedule.Definition{{Name: "nights", Cron: "0 0 2,5 * * ?", Duration: "1h", Location: "UTC", Freeze: freeze}})
}

// windowWorld is a manager with a Bundle on the cluster of an agent, in one world.
type windowWorld struct{ *looptest.World }

// deploy lets the manager ask for a version of the Bundle: a ConfigMap that has it.
func (w windowWorld) deploy(version string, windows string) {
	w.Helper()
	m := content.Manifest{Resources: []fleet.BundleResource{{
		Name: "cm.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: \"" + version + "\"}\n"}}}
	id := content.ID(m)
	if looptest.Read[*fleet.Content](w.World, "", id) == nil {
		looptest.Make(w.World, &fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: id}, Content: content.Compress(content.Encode(m))})
	}
	change := func(bd *fleet.BundleDeployment) {
		bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = id+":options", id+":options"
		bd.Spec.Options.DefaultNamespace = "shop"
		bd.Spec.CorrectDrift = &fleet.CorrectDrift{Enabled: true}
		bd.Annotations = map[string]string{fleet.AnnotationWindows: windows}
	}
	if looptest.Read[*fleet.BundleDeployment](w.World, deploymentsAt, "web") != nil {
		looptest.Change(w.World, deploymentsAt, "web", change)
		return
	}
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: deploymentsAt, Name: "web", Labels: map[string]string{
		fleet.LabelBundleNamespace: workspace, fleet.LabelBundleName: "web"}}}
	change(bd)
	looptest.Make(w.World, bd)
}

// until lets time pass until a time of 1 January 2000.
func (w windowWorld) until(hour, minute int) {
	w.Helper()
	w.Pass(time.Until(time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC)))
}

// runs checks which version runs.
func (w windowWorld) runs(want string) {
	w.Helper()
	if got := w.version(); got != want {
		w.Errorf("at %s: version %q runs, want %q", time.Now().UTC().Format(time.DateTime), got, want)
	}
}

func (w windowWorld) version() string {
	if cm := looptest.Read[*corev1.ConfigMap](w.World, "shop", "web"); cm != nil {
		return cm.Data["version"]
	}
	return ""
}

// drifts lets a user change what was deployed.
func (w windowWorld) drifts() {
	looptest.Change(w.World, "shop", "web", func(cm *corev1.ConfigMap) { cm.Data["version"] = "drifted" })
}

// waits checks that the agent has reported that the version waits for a window, and for which.
func (w windowWorld) waits(opens string) {
	w.Helper()
	bd := looptest.Read[*fleet.BundleDeployment](w.World, deploymentsAt, "web")
	c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed)
	if c == nil || c.Status == corev1.ConditionTrue || !strings.Contains(c.Message, "the next one opens at "+opens) {
		w.Errorf("at %s the agent reports %+v", time.Now().UTC().Format(time.DateTime), c)
	}
}

// leave ends the manager: all requests to it fail. The function that it returns starts it again.
func (w windowWorld) leave() (back func()) {
	var lifted []*kubetest.Fault
	for _, resource := range []string{"clusters", "bundledeployments", "contents"} {
		lifted = append(lifted, w.Server.Broken(kubetest.Always, kubetest.Match{Resource: resource, Agent: "process"}))
	}
	w.Server.CutWatches(schema.GroupVersionResource{Group: fleet.Group, Version: "v1alpha1", Resource: "bundledeployments"})
	return func() {
		for _, f := range lifted {
			f.Lift()
		}
	}
}

// obeysWindows runs f beside an agent.
func obeysWindows(t *testing.T, f func(w windowWorld)) {
	t.Helper()
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(nil), Given: func(w *looptest.World) {
			givenAgent(w)
			w.Server.MakeNamespace("shop")
		},
		Regular: func(r kubetest.Request) bool { return isCheckIn(r) || r.Name == contactName },
		When:    func(w *looptest.World) { f(windowWorld{w}) },
		Then:    wantsReached, Rests: 20 * time.Minute,
	})
}

// An agent with the change windows of its cluster opens and closes them by its clock, while
// the manager is there, while it is away, and after a restart of the agent meanwhile.
func TestAgentObeysWindowsAlone(t *testing.T) {
	obeysWindows(t, func(w windowWorld) {
		w.deploy("1", "")
		w.until(0, 10)
		w.runs("1")
		w.deploy("2", nights(false))
		w.until(0, 20)
		w.runs("1")
		w.waits("2000-01-01T02:00:00Z")
		back := w.leave()
		w.until(0, 30)
		w.Restart()
		w.until(first-1, 59)
		w.runs("1")
		w.until(first, 2)
		w.runs("2")
		back()
		w.until(first, 30)
		w.deploy("3", nights(false))
		w.until(first, 40)
		w.runs("3")
		w.until(first+1, 1)
		w.deploy("4", nights(false))
		w.until(first+1, 10)
		w.waits("2000-01-01T05:00:00Z")
		back = w.leave()
		w.until(second-1, 59)
		w.runs("3")
		w.Restart()
		w.until(second, 2)
		w.runs("4")
		back()
		w.until(second+1, 30)
	})
}

// Outside of the windows an agent corrects drift and reports it, also while a version
// waits and while the manager is away, unless a Schedule asks that nothing is corrected.
func TestAgentCorrectsOutsideOfWindows(t *testing.T) {
	for name, freeze := range map[string]bool{"Correct": false, "Freeze": true} {
		t.Run(name, func(t *testing.T) {
			obeysWindows(t, func(w windowWorld) {
				corrected := "1"
				if freeze {
					corrected = "drifted"
				}
				w.deploy("1", "")
				w.until(0, 10)
				w.deploy("1", nights(freeze))
				w.until(0, 20)
				w.drifts()
				w.until(0, 40)
				w.runs(corrected)
				w.deploy("2", nights(freeze))
				w.drifts()
				w.until(1, 0)
				w.runs(corrected)
				back := w.leave()
				w.drifts()
				w.until(1, 20)
				w.runs(corrected)
				w.until(first, 30)
				w.runs("2")
				back()
				w.until(first+1, 30)
			})
		})
	}
}

// Outside of the windows an agent reports what has become of a deployment, unless a Schedule
// asks that nothing happens.
func TestAgentReportsOutsideOfWindows(t *testing.T) {
	for name, freeze := range map[string]bool{"Report": false, "Freeze": true} {
		t.Run(name, func(t *testing.T) {
			obeysWindows(t, func(w windowWorld) {
				w.deploy("1", nights(freeze))
				w.until(first, 30)
				looptest.Change(w.World, deploymentsAt, "web", func(bd *fleet.BundleDeployment) { bd.Spec.CorrectDrift = nil })
				w.until(first+1, 10)
				w.drifts()
				w.until(first+1, 50)
				bd := looptest.Read[*fleet.BundleDeployment](w.World, deploymentsAt, "web")
				if bd.Status.NonModified != freeze {
					w.Errorf("the agent reports that nothing is modified: %t", bd.Status.NonModified)
				}
			})
		})
	}
}

// An override opens one deployment until its end, and is recorded in an event with its reason.
func TestOverrideOpensDeployment(t *testing.T) {
	obeysWindows(t, func(w windowWorld) {
		w.deploy("1", "")
		w.until(0, 10)
		w.deploy("2", nights(false))
		w.until(0, 20)
		w.runs("1")
		looptest.Change(w.World, deploymentsAt, "web", func(bd *fleet.BundleDeployment) {
			bd.Annotations[fleet.AnnotationOpenUntil] = "2000-01-01T01:00:00Z fix for the checkout"
		})
		w.until(0, 30)
		w.runs("2")
		if n := looptest.Events(w.World, home, "WindowOverridden"); n == 0 {
			w.Error("no event")
		}
		until := looptest.Read[*fleet.BundleDeployment](w.World, deploymentsAt, "web").Annotations[fleet.AnnotationOpenUntil]
		w.until(1, 5)
		w.deploy("3", nights(false))
		looptest.Change(w.World, deploymentsAt, "web", func(bd *fleet.BundleDeployment) { bd.Annotations[fleet.AnnotationOpenUntil] = until })
		w.until(1, 30)
		w.runs("2")
		w.until(first, 30)
		w.runs("3")
	})
}
