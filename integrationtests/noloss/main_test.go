// Package noloss proves that an agent uninstalls what it was ordered to uninstall
// and nothing else. Each test is a mishap that looks like a reason to remove a
// workload: nothing of it is deleted, by what the API server was asked. Each has a
// twin, in which the same objects must go because they were ordered to.
package noloss

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func TestMain(m *testing.M) {
	code := harness.Parallel(m)
	harness.RemoveProgram()
	os.Exit(code)
}

// A scenario is one mishap on one agent.
type scenario struct {
	why string
	// config changes the agent's settings; nil: the defaults.
	config func(*site)
	// deploy brings about what must not be lost; nil: deployment "app" is Ready.
	deploy func(*site)
	// mishap is what happens, up to where the agent has noticed it.
	mishap func(*site)
	// ordered is the twin: the manager orders the agent to remove the workload.
	ordered func(*site)
}

// site is the agent of a test.
type site struct {
	*harness.Site
}

// app is the deployment that tests are about.
const app = "app"

// report runs a test: the mishap, the agent's restart in the middle of it, another
// deployment that shows that the agent works, and then the twin. begins is called
// when there is something to lose.
func (st scenario) report(t *testing.T, s *site, begins func()) {
	if st.config != nil {
		st.config(s)
	}
	s.Start()
	if st.deploy == nil {
		s.app()
	} else {
		st.deploy(s)
	}
	before, since := s.objects(), s.Moment()
	if len(before) == 0 {
		t.Fatal("there is nothing to lose")
	}
	begins()
	st.mishap(s)
	s.Restart()
	s.unharmed(before, since)
	if st.ordered == nil {
		return
	}
	st.ordered(s)
	s.Until("what was ordered to go has gone", func() bool { return len(s.objects()) == 0 })
}

// unharmed checks that no object of the workloads was deleted or created again.
func (s *site) unharmed(before map[string]string, since time.Time) {
	s.Helper()
	if gone := s.Removed(since); len(gone) > 0 {
		s.Errorf("deleted:\n%s", harness.Lines(gone))
	}
	if diff := cmp.Diff(before, s.objects()); diff != "" {
		s.Errorf("objects with their UIDs: -before +after\n%s", diff)
	}
}

// files of the deployment "app", with a value.
func files(value string) []string {
	return []string{"a.yaml", harness.ConfigMap("a", value), "b.yaml", harness.ConfigMap("b", "data")}
}

// app orders the deployment "app" and waits until it is Ready.
func (s *site) app() *fleet.BundleDeployment {
	s.Helper()
	s.Order(app, harness.Order{Files: files("one")})
	return s.State(app, fleet.Ready)
}

// adopted waits until "app" is Ready, without a new revision of its release.
func (s *site) adopted() {
	s.Helper()
	if bd := s.State(app, fleet.Ready); bd.Status.Release != s.Home(app)+"/app:1" {
		s.Errorf("deployed again: %q", bd.Status.Release)
	}
}

// works shows that the agent still carries out orders.
func (s *site) works() {
	s.Helper()
	s.Order("proof", harness.Order{Files: []string{"p.yaml", harness.ConfigMap("p", "x")}, Options: fleet.BundleDeploymentOptions{DefaultNamespace: "proof-" + s.Prefix + "x"}})
	s.State("proof", fleet.Ready)
}

// withdrawn orders "app" to go and waits for the answer.
func (s *site) withdrawn() {
	s.Helper()
	s.Withdraw(app, "the-end")
	s.Answered(app, "the-end")
}

// backAndWithdrawn orders "app" again, which must change nothing, and then its
// removal.
func (s *site) backAndWithdrawn() {
	s.Helper()
	s.Order(app, harness.Order{Files: files("one")})
	s.adopted()
	s.withdrawn()
}

// orphaned waits until the agent reports orphans.
func (s *site) orphaned(names ...string) {
	s.Helper()
	s.Until(fmt.Sprintf("orphans %v are reported", names), func() bool { return slices.Equal(s.Orphans(), names) })
}

// away waits until the agent knows that its manager does not answer.
func (s *site) away() {
	s.Helper()
	s.Until("the manager is away", func() bool { return s.Contact()["reached"] == "false" })
}

// objects are the UIDs of the ConfigMaps in the namespaces of the site's
// workloads, by namespace and name.
func (s *site) objects() map[string]string {
	s.Helper()
	list, err := kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).List(s.Context(), "", "")
	s.Must(err)
	out := map[string]string{}
	for _, cm := range list {
		if strings.HasPrefix(cm.Namespace, s.Prefix) && cm.Name != "kube-root-ca.crt" {
			out[cm.Namespace+"/"+cm.Name] = string(cm.UID)
		}
	}
	return out
}
