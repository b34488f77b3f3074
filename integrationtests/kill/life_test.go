package kill_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// The phases of a life.
const (
	install  = "install"
	upgrade  = "upgrade"
	correct  = "correct"
	withdraw = "withdraw"
)

// order is the order by which the deployment of a life is withdrawn.
const order = "order-1"

// chart are the files of a chart with two objects, a third one in its first
// version, and a hook before and after each action.
func chart(version int) []string {
	hook := func(name, when string) string {
		events := make([]string, 0, 4)
		for _, action := range []string{"install", "upgrade", "rollback", "delete"} {
			events = append(events, when+"-"+action)
		}
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  annotations: {helm.sh/hook: %q}\n", name, strings.Join(events, ","))
	}
	files := []string{
		"Chart.yaml", fmt.Sprintf("apiVersion: v2\nname: life\nversion: %d.0.0\n", version),
		"templates/a.yaml", configMap("a", fmt.Sprint("v", version)),
		"templates/b.yaml", configMap("b", "kept"),
		"templates/before.yaml", hook("before", "pre"),
		"templates/after.yaml", hook("after", "post"),
	}
	if version == 1 {
		files = append(files, "templates/old.yaml", configMap("old", "goes"))
	}
	return files
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  k: %s\n", name, value)
}

// life is a test of one bundle: it is installed, upgraded, changed by others,
// and withdrawn, and in each of these phases its agent may be killed once.
type life struct {
	*harness.AgentProcess
	home string
	at   map[string]harness.Point // where the agent dies, by phase
	died map[string]bool
	sum  map[string]int // writes by phase, where it did not die

	uids    map[string]types.UID
	dropped time.Time // since when "old" may go
	ordered time.Time // since when all may go
}

const bundle = "app"

// newAgentProcess is an AgentProcess that was started. It checks in once, at the start:
// other tests are about heartbeats.
func newAgentProcess(t testing.TB, hub *harness.Hub, name string) *harness.AgentProcess {
	t.Helper()
	v := harness.NewAgentProcess(t, hub, name)
	v.Config.CheckinInterval = time.Hour
	v.Start()
	return v
}

func newLife(t testing.TB, hub *harness.Hub, name string, at map[string]harness.Point) *life {
	v := newAgentProcess(t, hub, name)
	return &life{AgentProcess: v, home: v.Home(bundle), at: at, died: map[string]bool{}, sum: map[string]int{}, uids: map[string]types.UID{}}
}

// live goes through all phases.
func (l *life) live() {
	l.Helper()
	l.begin()
	l.dropped = time.Now()
	l.phase(upgrade, func() { l.want(2) }, func() string { return l.deployed(2) })
	before := l.Deployment(bundle).Status.Release
	l.phase(correct, func() { l.SetData(l.home, "a", "changed by others") }, func() string { return l.corrected(before) })
	l.ordered = time.Now()
	l.phase(withdraw, func() { l.Withdraw(bundle, order) }, l.gone)
	l.DeleteDeployment(bundle)
}

// begin installs the bundle.
func (l *life) begin() {
	l.Helper()
	l.until("registered", func() string { // what an agent writes at its start is no part of a phase
		if l.Contact()["reached"] != "true" {
			return "no contact yet"
		}
		return ""
	})
	l.phase(install, func() { l.want(1) }, func() string { return l.deployed(1) })
}

// want orders a version of the chart.
func (l *life) want(version int) {
	l.Helper()
	l.Order(bundle, harness.Order{Files: chart(version), Options: fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}})
}

// phase goes through one phase and returns when it is at rest, with a new agent
// if the first one has died.
func (l *life) phase(name string, act func(), missing func() string) {
	l.Helper()
	first, second, at := l.perform(name, act, func() {}, missing)
	for _, hook := range []string{"before", "after"} {
		l.checkHook(name, hook, first, second, at)
	}
}

// perform is phase without looking at hooks. between is called while no agent
// lives. It returns the writes of the first agent and of the next one, and where
// the first has died.
func (l *life) perform(name string, act, between func(), missing func() string) (first, second []harness.Write, at *harness.Point) {
	l.Helper()
	if p, ok := l.at[name]; ok {
		at = &p
	}
	l.CrashProxy.Arm(at)
	act()
	l.until(name, func() string {
		if l.CrashProxy.Fatal() {
			<-l.Process().Done()
		}
		if l.Dead() {
			if l.died[name] || at == nil {
				l.Fatalf("%s: the agent ended without being killed: %v", name, l.Process().Death())
			}
			l.died[name], first = true, l.CrashProxy.Seen()
			l.CrashProxy.Arm(nil)
			between()
			l.Start()
		}
		why := missing()
		if why != "" {
			return why
		}
		second = l.CrashProxy.Seen()
		if !l.CrashProxy.Next(nil) {
			return "the agent is about to die" // its last write is what completed the picture
		}
		return ""
	})
	if !l.died[name] {
		l.sum[name] = len(second)
		return first, second, nil
	}
	l.Logf("%s: killed %s: %s", name, at, first[len(first)-1])
	return first, second, at
}

// checkHook counts how often a hook was run: once, and no more than twice where
// the agent died before it could write down that it ended.
func (l *life) checkHook(phase, hook string, first, second []harness.Write, at *harness.Point) {
	l.Helper()
	runs := 0
	for _, w := range slices.Concat(first, second) {
		if w.Method == "POST" && w.Name == hook && w.Code == 201 {
			runs++
		}
	}
	most := 1
	if at != nil && unknown(first, *at, hook) {
		most = 2
	}
	if runs < 1 || runs > most {
		l.Errorf("%s: hook %q ran %d times, want 1 to %d\nfirst:\n%s\nthen:\n%s", phase, hook, runs, most, lines(first), lines(second))
	}
}

// unknown reports whether an agent died between the making of a hook and the moment
// when the record says that it has ended.
func unknown(writes []harness.Write, at harness.Point, hook string) bool {
	made := slices.IndexFunc(writes, func(w harness.Write) bool { return w.Method == "POST" && w.Name == hook })
	if made < 0 || at.Write == made && !at.After {
		return false
	}
	noted := slices.IndexFunc(writes[made:], func(w harness.Write) bool { return w.Method == "PUT" && w.Record() })
	return noted < 0 || made+noted == at.Write && !at.After
}

func lines(list []harness.Write) string {
	var b strings.Builder
	for i, w := range list {
		fmt.Fprintf(&b, "  %2d %s\n", i, w)
	}
	return b.String()
}

// until returns when missing returns nothing.
func (l *life) until(what string, missing func() string) {
	l.Helper()
	last := ""
	for deadline := time.Now().Add(harness.Timeout); ; {
		if last = missing(); last == "" {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("not in time: %s: %s\nwrites since:\n%s", what, last, lines(l.CrashProxy.Seen()))
		}
		time.Sleep(10 * time.Millisecond) // how often it looks
	}
}

// deployed says what is missing until a version is deployed, and nothing is left
// to do for the agent.
func (l *life) deployed(version int) string {
	l.Helper()
	if why := l.ready(); why != "" {
		return why
	}
	if got := l.Data(l.home, "a"); got != fmt.Sprint("v", version) {
		return fmt.Sprintf("a is %q", got)
	}
	l.same("a", "b")
	if there := l.Data(l.home, "old") != ""; there != (version == 1) {
		return fmt.Sprintf("version %d, and old is there: %t", version, there)
	}
	return ""
}

// ready says what is missing until the deployment that is wanted runs, by its
// status, by Helm's records and by the agent's own.
func (l *life) ready() string {
	l.Helper()
	bd := l.Deployment(bundle)
	id := bd.Spec.DeploymentID
	c := condition.Find(bd.Status.Conditions, fleet.ConditionReady)
	if c == nil || c.ObservedGeneration != bd.Generation || summary.State(bd, "") != fleet.Ready || bd.Status.AppliedDeploymentID != id {
		return fmt.Sprintf("it is %s: %+v", summary.State(bd, ""), c)
	}
	if states := l.records(); len(states) == 0 || states[len(states)-1] != "deployed" || slices.Contains(states[:len(states)-1], "deployed") ||
		slices.ContainsFunc(states, func(s string) bool { return strings.HasPrefix(s, "pending") || s == "uninstalling" }) {
		return fmt.Sprintf("Helm's records are %v", states)
	}
	if r, ok := record(l.Site, bundle); !ok || r.Applied != id || r.Chunks > 0 || r.Failed != nil {
		return fmt.Sprintf("the agent has kept %+v", r)
	}
	return ""
}

// records are the states of Helm's records, oldest first.
func (l *life) records() []string {
	l.Helper()
	list, err := l.Down.Client.CoreV1().Secrets(l.home).List(l.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + bundle})
	l.Must(err)
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int {
		return len(a.Name) - len(b.Name) + strings.Compare(a.Name, b.Name)
	})
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Labels["status"])
	}
	return out
}

// same fails the test if an object was created again since it was seen first.
func (l *life) same(names ...string) {
	l.Helper()
	for _, name := range names {
		cm, err := l.Down.Client.CoreV1().ConfigMaps(l.home).Get(l.Context(), name, metav1.GetOptions{})
		l.Must(err)
		if l.uids[name] == "" {
			l.uids[name] = cm.UID
		}
		if l.uids[name] != cm.UID {
			l.Errorf("%s is another object than it was", name)
		}
	}
}

// corrected says what is missing until the change by others is undone by a new
// revision.
func (l *life) corrected(before string) string {
	l.Helper()
	if release := l.Deployment(bundle).Status.Release; release == before {
		return "still at " + release
	}
	return l.deployed(2)
}

// gone says what is missing until nothing of the bundle is left and the order is
// answered.
func (l *life) gone() string {
	l.Helper()
	if bd := l.Deployment(bundle); !report.Answered(bd, order) {
		return "not answered"
	}
	if _, ok := record(l.Site, bundle); ok {
		return "the agent has kept it"
	}
	if states := l.records(); len(states) > 0 {
		return fmt.Sprintf("answered, and Helm's records are %v", states)
	}
	for _, name := range []string{"a", "b", "old"} {
		if l.Data(l.home, name) != "" {
			return name + " is still there"
		}
	}
	return ""
}

// record returns the agent's record of a deployment in its store.
func record(s *harness.Site, name string) (store.Record, bool) {
	s.Helper()
	list, err := s.Down.Client.CoreV1().Secrets(s.Namespace).List(s.Context(), metav1.ListOptions{
		LabelSelector: fleet.LabelManagerID, FieldSelector: "type=" + fleet.SecretTypeAgentStore,
	})
	s.Must(err)
	for i := range list.Items {
		var r store.Record
		if json.Unmarshal(list.Items[i].Data["deployment"], &r) == nil && r.Key.Name == name {
			return r, true
		}
	}
	return store.Record{}, false
}
