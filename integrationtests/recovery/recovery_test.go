package recovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// A chapter is a part of the test.
type chapter struct {
	name   string
	report func(*world)
}

// The management cluster burns. What was written six hours before is restored in
// another one, at another address: agents come back with one token, nothing that
// runs is touched, and what is said of it is right at once.
func TestManagementClusterBurns(t *testing.T) {
	w := newWorld(t)
	for _, c := range []chapter{
		{"Before", (*world).before}, {"Copied", (*world).copied}, {"SixHoursLater", (*world).sixHoursLater}, {"Burnt", (*world).burnt},
		{"Restored", (*world).restored}, {"LetIn", (*world).letIn}, {"LetGo", (*world).letGo}, {"Untouched", (*world).untouched},
		{"BroughtBack", (*world).broughtBack}, {"GoesOn", (*world).goesOn},
	} {
		if !t.Run(c.name, func(t *testing.T) { c.report(w.on(t)) }) {
			return
		}
	}
}

// before is a fleet that works: one cluster that joined by a token, one that the
// manager imports, a repository with a password, and a bundle made by hand.
func (w *world) before() {
	w.Types(w.hub, "fleet install controller | kubectl apply -f -")
	w.addresses(w.hub)
	w.Types(w.hub, `kubectl create namespace fleet-default
kubectl -n fleet-default create secret generic git --type=kubernetes.io/basic-auth --from-literal=username=ann --from-literal=password=secret`)
	w.manages(w.hub)
	w.imports(w.imp)
	w.joins(w.east)
	w.repo("shop", w.hub, "web", "extra")
	w.repo("old", w.hub, "old")
	w.file("hand/a.yaml", harness.ConfigMap("byhand", "x"))
	w.file("hand/fleet.yaml", "defaultNamespace: byhand\ntargets: [{clusterSelector: {matchLabels: {shop: 'yes'}}}]\n")
	w.Types(w.hub, "fleet apply -n fleet-default byhand hand")
	// web, extra, old and byhand
	w.sees(w.hub, harness.Timeout, map[string]standing{"east": {4, 4, "", true}, "imp": {4, 4, "", true}})
}

// copied makes the copy.
func (w *world) copied() {
	w.step("backup", w.hub)
	files, err := os.ReadDir(filepath.Join(w.Dir, "backup"))
	w.must(err)
	if len(files) < 7 {
		w.Errorf("files %v", files)
	}
}

// sixHoursLater changes what the copy does not know of: a version, a folder and a
// repository that are gone, a repository and a cluster that are new.
func (w *world) sixHoursLater() {
	w.file("shop/web/app.yaml", app("two"))
	w.must(os.RemoveAll(filepath.Join(w.Dir, "shop/extra")))
	w.commit("second")
	w.Types(w.hub, "kubectl -n fleet-default delete gitrepo old")
	w.repo("new", w.hub, "new")
	w.joins(w.late)
	for _, site := range w.sites() { // before that as many deployments may be ready as after it
		harness.Wait(w, harness.Timeout, site.Name()+" has what was changed", func() bool {
			return w.has(site, "new") && !w.has(site, "old") && !w.has(site, "extra") && w.runs(site) == "two"
		})
	}
	w.sees(w.hub, harness.Timeout, map[string]standing{"east": {3, 3, "", true}, "imp": {3, 3, "", true}, "late": {3, 3, "", true}})
	w.runsVersion("two")
}

// burnt ends the management cluster for good.
func (w *world) burnt() {
	w.Ends(w.hub, "gitjob")
	w.Ends(w.hub, "fleet-controller")
	w.hub.Stop()
	for _, site := range w.sites() {
		harness.Wait(w, harness.Timeout, "the agent of "+site.Name()+" says that its manager is away", func() bool {
			return w.Tries(site, "kubectl -n cattle-fleet-system get configmap fleet-agent-contact -o jsonpath='{.data.reached}'").Out == "false"
		})
	}
	if len(w.written(time.Time{})) == 0 {
		w.Error("the requests do not show that anything was ever deployed")
	}
	*w.since = time.Now()
}

// restored follows the document up to where nothing is deployed yet.
func (w *world) restored() {
	w.step("restore", w.spare)
	w.step("manager", w.spare)
	w.addresses(w.spare)
	w.manages(w.spare)
	if out := w.step("look", w.spare); !strings.Contains(out, "old") {
		w.Errorf("it does not show what is there again:\n%s", out)
	}
	w.Types(w.spare, "kubectl -n fleet-default delete gitrepo old --wait=false")
}

// letIn gives a token to each cluster that joined by one.
func (w *world) letIn() {
	w.step("token", w.spare, "NEW_URL="+w.spare.URL())
	for _, site := range []harness.ControlPlane{w.east, w.late} {
		w.step("site", site)
	}
	harness.Wait(w, harness.Timeout, "they are back", func() bool {
		all := w.standings(w.spare)
		return all["east"].Seen && all["late"].Seen
	})
}

// letGo lets the manager work. What was made since the copy is an orphan.
func (w *world) letGo() {
	w.step("resume", w.spare)
	took := w.sees(w.spare, checkIn+harness.Timeout/2, map[string]standing{
		"east": {2, 2, "new-new", true}, "imp": {2, 2, "new-new", true}, "late": {2, 2, "new-new", true},
	})
	w.Logf("the status is right %s after the brake was released", took.Round(100*time.Millisecond))
	w.step("status", w.spare)
}

// untouched looks at what the API servers of the sites were asked.
func (w *world) untouched() {
	if list := w.written(*w.since); len(list) > 0 {
		w.Errorf("written to the clusters since:\n%s", harness.Lines(list))
	}
	w.runsVersion("two")
	for _, site := range w.sites() {
		for _, gone := range []string{"old", "extra"} {
			if w.has(site, gone) {
				w.Errorf("%s has %q again, which was removed", site.Name(), gone)
			}
		}
	}
}

// broughtBack makes the new repository again: what runs is adopted.
func (w *world) broughtBack() {
	w.repo("new", w.spare, "new")
	w.sees(w.spare, checkIn+harness.Timeout, map[string]standing{"east": {3, 3, "", true}, "imp": {3, 3, "", true}, "late": {3, 3, "", true}})
	w.untouched()
}

// goesOn shows that the fleet works as before.
func (w *world) goesOn() {
	w.file("shop/web/app.yaml", app("three"))
	w.commit("third")
	for _, site := range w.sites() {
		harness.Wait(w, harness.Timeout, site.Name()+" gets the next version", func() bool { return w.runs(site) == "three" })
	}
}
