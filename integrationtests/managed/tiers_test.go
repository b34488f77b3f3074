package managed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"helm.sh/helm/v3/pkg/action"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// tiers is the fleet of fleet-sandbox up --managed: the programs as they are, each
// with the account of its chart.
type tiers struct {
	world
	fleet        *sandbox.Fleet
	upper, lower *sandbox.Tier
	middle, leaf *sandbox.Member
	work         string // working copy of the repository
}

// A manager's downstream cluster has a manager of its own, with a leaf. Either of
// the two can be torn down: the other goes on, and so does all that either has
// deployed.
func TestThreeTiers(t *testing.T) {
	t.Parallel()
	w := startTiers(t)
	ok := t.Run("Ready", func(t *testing.T) { w.part(t).allReady() }) &&
		t.Run("T12_OneNode", func(t *testing.T) { w.part(t).noPorts() }) &&
		t.Run("14_Leases", func(t *testing.T) { w.part(t).leasesDiffer() }) &&
		t.Run("22_LowerTornDown", func(t *testing.T) { w.part(t).lowerTornDown() }) &&
		t.Run("22_UpperTornDown", func(t *testing.T) { w.part(t).upperTornDown() })
	if !ok {
		for _, p := range w.fleet.Parts() {
			if strings.HasPrefix(p.Name, "fleet") || p.Name == "gitjob" {
				text, _ := os.ReadFile(p.Log)
				t.Logf("%s/%s:\n%s", p.Cluster, p.Name, tail(string(text), 30))
			}
		}
	}
}

func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func startTiers(t *testing.T) *tiers {
	t.Helper()
	w := &tiers{world: world{t, t}, work: filepath.Join(t.TempDir(), "work")}
	binary := harness.Kubernetes(t)
	root, err := source.Root()
	w.must(err)
	programs, err := harness.Programs(t.Context())
	w.must(err)
	w.fleet, err = sandbox.Start(t.Context(), sandbox.Config{
		Dir: t.TempDir(), Kubernetes: binary, Programs: programs, Charts: filepath.Join(root, "charts"), CheckIn: 2 * time.Second,
		Downstream: []sandbox.Downstream{{
			Name: "lower", Labels: map[string]string{"env": "dev"},
			Downstream: []sandbox.Downstream{{Name: "leaf", Labels: map[string]string{"env": "prod"}}},
		}},
	})
	w.must(err)
	t.Cleanup(w.fleet.Stop)
	w.upper, w.lower = w.fleet.Tiers()[0], w.fleet.Tiers()[1]
	w.middle, w.leaf = w.upper.Downstream[0], w.lower.Downstream[0]
	return w
}

func (w *tiers) part(t *testing.T) *tiers {
	p := *w
	p.world = w.in(t)
	return &p
}

// commit writes what is deployed, and returns the commit.
func (w *tiers) commit(value string) string {
	w.Helper()
	w.must(os.MkdirAll(filepath.Join(w.work, "app"), 0o700))
	w.must(os.WriteFile(filepath.Join(w.work, "app", "fleet.yaml"), []byte("defaultNamespace: shop\n"), 0o600))
	w.must(os.WriteFile(filepath.Join(w.work, "app", "a.yaml"), []byte(harness.ConfigMap("a", value)), 0o600))
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", value}, {"push", "--quiet"}} {
		_, err := gitserver.Git(w.work, args...)
		w.must(err)
	}
	head, err := w.fleet.Git.Head("shop", gitserver.Branch)
	w.must(err)
	return head
}

// has waits until a cluster has a value.
func (w *tiers) has(m *sandbox.Member, want string) string {
	w.Helper()
	client, err := kube.Connect(kube.Config{REST: m.Cluster.REST(), UserAgent: harness.TestAgent, FieldManager: "test"})
	w.must(err)
	uid := ""
	w.until(fmt.Sprintf("%s has %s", m.Name, want), func() bool {
		cm, err := kube.StoreOf[*corev1.ConfigMap](client).Get(w.Context(), kube.Key{Namespace: "shop", Name: "a"})
		if err == nil {
			uid = string(cm.UID)
		}
		return err == nil && cm.Data["k"] == want
	})
	return uid
}

// allReady: one repository reaches both tiers.
func (w *tiers) allReady() {
	dir := w.root.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "README"), []byte("shop\n"), 0o600))
	_, err := w.fleet.Git.Publish("shop", dir)
	w.must(err)
	w.must(gitserver.Clone(w.fleet.Git.URL("shop"), w.work))
	head := w.commit("one")
	w.must(w.fleet.Deploy(w.Context(), sandbox.Repository{
		Name: "shop", URL: w.fleet.Git.URL("shop"), Branch: gitserver.Branch, Polling: time.Second,
	}))
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	snap, err := w.fleet.WaitReady(ctx, head)
	w.must(err)
	var rows []string
	for _, r := range snap.Clusters {
		rows = append(rows, fmt.Sprintf("%s: %s/%s %d/%d %s", r.Manager, r.Workspace, r.Name, r.Ready, r.Desired, r.State))
	}
	want := "local: fleet-local/local 0/0 Ready, local: fleet-default/lower 1/1 Ready, lower: fleet-local/local 0/0 Ready, lower: fleet-default/leaf 1/1 Ready"
	if got := strings.Join(rows, ", "); got != want {
		w.Errorf("want %s\ngot  %s", want, got)
	}
}

// noPorts: the two agents of a cluster, which are in the network of one machine,
// listen nowhere.
func (w *tiers) noPorts() {
	listening := listeners(w)
	found := 0
	for _, p := range w.fleet.Parts() {
		if p.Cluster != w.middle.Name || !strings.HasPrefix(p.Name, "fleet-agent") || p.PID == 0 {
			continue
		}
		found++
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		w.must(err)
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil && listening[to] {
				w.Errorf("%s listens (%s)", p.Name, to)
			}
		}
	}
	if found != 2 {
		w.Errorf("want two agents, found %d", found)
	}
}

// listeners are the sockets of this machine that listen, as links of files.
func listeners(w *tiers) map[string]bool {
	w.Helper()
	out := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(file)
		w.must(err)
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == "0A" { // LISTEN, in include/net/tcp_states.h
				out["socket:["+fields[9]+"]"] = true
			}
		}
	}
	return out
}

// leasesDiffer: the leases of the manager and of both agents are different ones,
// each with a holder of its own.
func (w *tiers) leasesDiffer() {
	locks := []string{fleet.NamespaceSystem + "/fleet-agentmanagement-lock", fleet.NamespaceSystem + "/fleet-cleanup-lock"}
	for _, want := range locks { // a process may be late: nothing has waited for it
		w.until("lease "+want, func() bool {
			_, err := kube.StoreOf[*coordinationv1.Lease](w.lower.Client()).Get(w.Context(), kube.ParseKey(want))
			return err == nil
		})
	}
	list, err := kube.StoreOf[*coordinationv1.Lease](w.lower.Client()).List(w.Context(), "", "")
	w.must(err)
	var names []string
	holders := map[string]string{}
	for _, l := range list {
		if l.Namespace != fleet.NamespaceSystem && l.Namespace != fleet.NamespaceLocalAgent {
			continue
		}
		name := l.Namespace + "/" + l.Name
		names = append(names, name)
		if l.Name == "fleet-agent" && l.Spec.HolderIdentity != nil {
			holders[*l.Spec.HolderIdentity] = name
		}
	}
	w.Logf("leases: %v, agents %v", names, holders)
}

// lowerTornDown: the lower manager is uninstalled. What it had deployed stays; the
// upper manager goes on with the cluster that it lived in. Installed again, it has
// its leaf back.
func (w *tiers) lowerTornDown() {
	middle, leaf := w.has(w.middle, "one"), w.has(w.leaf, "one")
	if !w.lower.Stop() {
		w.Error("the lower manager did not run")
	}
	hub := harness.ConnectHub(w, w.middle.Cluster)
	for _, name := range []string{"fleet", "fleet-crd"} {
		if _, err := action.NewUninstall(w.helm(hub, fleet.NamespaceSystem)).Run(name); err != nil {
			w.Fatal(err)
		}
	}
	w.commit("two")
	if w.has(w.middle, "two") != middle || w.has(w.leaf, "one") != leaf {
		w.Error("a workload was created again")
	}
	w.must(w.fleet.Reinstall(w.Context(), w.lower))
	if w.has(w.leaf, "two") != leaf {
		w.Error("a workload was created again")
	}
}

// upperTornDown: the cluster of the upper manager is gone. The lower one goes on,
// and what the upper one had deployed stays.
func (w *tiers) upperTornDown() {
	middle, leaf := w.has(w.middle, "two"), w.has(w.leaf, "two")
	w.upper.Kill()
	w.fleet.Local.Cluster.Stop()
	w.commit("three")
	if w.has(w.leaf, "three") != leaf || w.has(w.middle, "two") != middle {
		w.Error("a workload was created again")
	}
}
