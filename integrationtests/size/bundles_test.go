package size_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// each is how much data one ConfigMap of the tests has.
const each = 512 << 10

// onlyC1 leaves out c2: it would read the largest bundle as it reads the others.
const onlyC1 = "targetCustomizations: [{name: c2, clusterSelector: {matchLabels: {env: prod}}, doNotDeploy: true}]\n"

// fill writes a directory of ConfigMaps with that much data, and what else its fleet.yaml
// is to say.
func fill(repo *harness.Repository, dir string, seed, mib int, more string) {
	repo.Write(dir+"/fleet.yaml", "defaultNamespace: "+repo.Name+"-"+dir+"\n"+more)
	for i := range mib << 20 / each {
		r := configMap(fmt.Sprintf("cm-%02d", i), seed+i, each)
		repo.Write(dir+"/"+r.Name, r.Content)
	}
}

// Bundles of 1, 2 and 10 MiB of data that does not compress get from git to clusters
// without any registry, the smaller ones to two. No object is above 1 MiB, and the
// controller never holds what is in them: it would need 10 MiB, or 7 packed.
func TestLargeBundles(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("large")
	repo.Uncompressed()
	for i, mib := range []int{1, 2, 10} {
		more := ""
		if mib == 10 {
			more = onlyC1
		}
		fill(repo, fmt.Sprintf("data%02d", mib), 100*i, mib, more)
	}
	before := w.AnonymousMiB(nil)
	watching := watchMemory(w)
	start := time.Now()
	commit := repo.Commit("first")
	repo.Deploy()
	ready(w, repo, commit, 5)
	t.Logf("13 MiB are deployed after %s", time.Since(start).Round(time.Second))
	controller, agent := watching()
	t.Logf("anonymous memory: controller %d MiB before and %d MiB at most, agent of c1 %d MiB at most", before, controller, agent)
	if controller-before >= 5 {
		t.Errorf("the controller grew by %d MiB", controller-before)
	}
	largest(t, w)
	if got := harness.Data(w, w.C1, "large-data10", "cm-19")()["k"]; got != noise(219, each) {
		t.Errorf("the last of 20 ConfigMaps is %.20q", got)
	}
	for _, m := range w.Downstream() {
		if got := harness.Data(w, m, "large-data02", "cm-03")()["k"]; got != noise(103, each) {
			t.Errorf("%s: the last of 4 ConfigMaps is %.20q", m.Name, got)
		}
	}

	// Of the next commit only what has changed is read, written and deployed again.
	revision := repo.Release(w.C1, "large-data10").Revision
	fill(repo, "data02", 7, 2, "")
	repo.Remove("data02/cm-03.yaml")
	commit = repo.Commit("second")
	ready(w, repo, commit, 2)
	w.Until("the removed object goes", func() string {
		if harness.Data(w, w.C1, "large-data02", "cm-03")() != nil {
			return "not yet"
		}
		return ""
	})
	if got := repo.Release(w.C1, "large-data10").Revision; got != revision {
		t.Errorf("what did not change is now revision %d", got)
	}
	largest(t, w)

	oldAgent(t, w, repo)
}

// ready waits until so many deployments have a commit and all are Ready. Moving
// so much takes longer than other tests may.
func ready(w *harness.World, repo *harness.Repository, commit string, deployments int) {
	harness.Within(w, 5*time.Minute, "all is Ready with "+commit[:8], func() string {
		there := 0
		for _, d := range repo.Deployments(nil) {
			if d.Labels[fleet.LabelCommit] == commit && d.Status.AppliedDeploymentID == d.Spec.DeploymentID {
				there++
			}
		}
		c := condition.Find(repo.GitRepo().Status.Conditions, fleet.ConditionReady)
		if c == nil || there < deployments {
			return fmt.Sprintf("%d of %d deployments", there, deployments)
		}
		return string(c.Status) + " " + c.Message
	}, "True ")
}

// watchMemory looks at the memory of the controller and of the agent of c1 until
// it is asked for the most that they used.
func watchMemory(w *harness.World) func() (controller, agent int) {
	var mu sync.Mutex
	var top [2]int
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, a := w.AnonymousMiB(nil), w.AnonymousMiB(w.C1)
			mu.Lock()
			top[0], top[1] = max(top[0], c), max(top[1], a)
			mu.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond): // how often it looks
			}
		}
	}()
	return func() (int, int) {
		close(stop)
		<-done
		return top[0], top[1]
	}
}

// largest checks that no object of any cluster is above 1 MiB, as it is stored:
// Kubernetes' own kinds as protobuf, others as JSON.
func largest(t *testing.T, w *harness.World) {
	t.Helper()
	size, name := 0, ""
	take := func(m *harness.Member, o kube.Object, n int) {
		if n > size {
			size, name = n, fmt.Sprintf("%T %s on %s", o, kube.KeyOf(o), m.Name)
		}
	}
	asJSON := func(m *harness.Member, o kube.Object) {
		raw, err := json.Marshal(o)
		if err == nil {
			take(m, o, len(raw))
		}
	}
	for _, m := range w.Members() {
		for _, o := range harness.List[*corev1.Secret](w, m, "", "") {
			take(m, o, o.Size())
		}
		for _, o := range harness.List[*corev1.ConfigMap](w, m, "", "") {
			take(m, o, o.Size())
		}
	}
	for _, o := range harness.List[*fleet.Content](w, w.Local, "", "") {
		asJSON(w.Local, o)
	}
	for _, o := range harness.List[*fleet.Bundle](w, w.Local, "", "") {
		asJSON(w.Local, o)
	}
	for _, o := range harness.List[*fleet.BundleDeployment](w, w.Local, "", "") {
		asJSON(w.Local, o)
	}
	t.Logf("the largest object is %s with %d KiB", name, size>>10)
	if size > mebibyte {
		t.Errorf("%s is stored with %d bytes", name, size)
	}
}

// oldAgent plays a cluster whose agent reads no parts: it gets an error that says
// what to do, the others go on, and when its agent is replaced it gets the
// bundles without another commit.
func oldAgent(t *testing.T, w *harness.World, repo *harness.Repository) {
	c := harness.Create(w, w.Local, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: repo.Workspace, Name: "old"}})
	t.Cleanup(func() { harness.Delete(w, w.Local, c) })
	namespace := ""
	w.Until("the cluster has a namespace", func() string {
		now, _ := harness.Get[*fleet.Cluster](w, w.Local, c.Namespace, c.Name)
		var ok bool
		if namespace, ok = registration.DeploymentNamespace(now); !ok {
			return "not yet"
		}
		return ""
	})
	bundle := func() string {
		b, _ := harness.Get[*fleet.Bundle](w, w.Local, repo.Workspace, "large-data10")
		for _, r := range b.Status.Summary.NonReadyResources {
			if r.Name == repo.Workspace+"/old" {
				return string(r.State) + " " + r.Message
			}
		}
		return "nothing about it"
	}
	report := func(protocol int, at time.Time) {
		client, err := kube.Connect(kube.Config{REST: w.Local.Cluster.REST(), UserAgent: "test", FieldManager: fmt.Sprint(fleet.FieldManagerAgentPrefix, protocol)})
		if err == nil {
			body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q,"namespace":"cattle-fleet-system"}}}`, at.UTC().Format(time.RFC3339))
			_, err = kube.StoreOf[*fleet.Cluster](client).PatchRaw(t.Context(), kube.KeyOf(c), types.MergePatchType, []byte(body), "status")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	report(1, time.Now())
	w.Until("the error says what to do", func() string {
		for _, word := range []string{"ErrApplied", "protocol 1", "1 MiB", "cm-00.yaml (512 KiB)", "upgrade the agent"} {
			if text := bundle(); !strings.Contains(text, word) {
				return fmt.Sprintf("%q lacks %q", text, word)
			}
		}
		return ""
	})
	if _, there := harness.Get[*fleet.BundleDeployment](w, w.Local, namespace, "large-data10"); there {
		t.Error("what the agent cannot read was given to it")
	}
	for _, d := range repo.Deployments(w.C1) {
		if !d.Status.Ready {
			t.Errorf("%s on c1 is disturbed", d.Name)
		}
	}
	report(2, time.Now().Add(time.Second))
	w.Until("the new agent gets it without another commit", func() string {
		if _, there := harness.Get[*fleet.BundleDeployment](w, w.Local, namespace, "large-data10"); !there {
			return "not yet: " + bundle()
		}
		return ""
	})
}

// Bundles that are kept in a registry reach their clusters: only what it takes to
// read goes there. While the registry is away what runs is kept, and a cluster
// that needs something new says which registry it waits for.
func TestBundlesInARegistry(t *testing.T) {
	w := harness.Open(t)
	storage := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: "push", Password: "push-canary"}, {Username: "pull", Password: "pull-secret"}}})
	repo := w.Repository("stored")
	repo.Write("app/fleet.yaml", "defaultNamespace: stored\n")
	repo.Write("app/cm.yaml", configMap("cm", 1, 100).Content)
	secret := harness.Create(w, w.Local, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: repo.Workspace, Name: "stored-registry"},
		Type: fleet.SecretTypeOCIStorage, StringData: map[string]string{
			"reference": storage.Host + "/bundles", "username": "push", "password": "push-canary",
			"agentUsername": "pull", "agentPassword": "pull-secret", "basicHTTP": "true"}})
	t.Cleanup(func() { harness.Delete(w, w.Local, secret) })
	commit := repo.Commit("one")
	repo.Deploy(func(s *fleet.GitRepoSpec) { s.OCIRegistrySecret = secret.Name })
	ready(w, repo, commit, 2)
	bd := repo.Deployment(w.C1, "stored-app")
	id, _, _ := strings.Cut(bd.Spec.DeploymentID, ":")
	if !bd.Spec.OCIContents || !storage.Has(t, "bundles/"+id, "latest") {
		t.Errorf("not kept in the registry: %+v", bd.Spec)
	}
	if _, there := harness.Get[*fleet.Content](w, w.Local, "", id); there {
		t.Error("kept in the cluster as well")
	}
	copied, _ := harness.Get[*corev1.Secret](w, w.Local, bd.Namespace, id)
	for key, value := range copied.Data {
		if strings.Contains(string(value), "push-canary") {
			t.Errorf("%s of the copy holds what it takes to push", key)
		}
	}

	// The registry goes away after the next commit is pushed to it, before c2 reads it.
	w.StopAgent(w.C2)
	repo.Write("app/cm.yaml", configMap("cm", 2, 100).Content)
	commit = repo.Commit("two")
	harness.Eventually(w, "c1 has it", harness.Data(w, w.C1, "stored", "cm"), map[string]string{"k": noise(2, 100)})
	storage.Break(503)
	w.StartAgent(w.C2)
	w.Until("c2 says which registry it waits for", func() string {
		d := repo.Deployment(w.C2, "stored-app")
		for _, c := range d.Status.Conditions {
			if strings.Contains(c.Message, storage.Host) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", d.Status.Conditions)
	})
	if got := harness.Data(w, w.C2, "stored", "cm")()["k"]; got != noise(1, 100) {
		t.Errorf("what runs on c2 is not kept: %.20q", got)
	}
	storage.Intercept(nil)
	ready(w, repo, commit, 2)

	last, _, _ := strings.Cut(repo.Deployment(w.C1, "stored-app").Spec.DeploymentID, ":")
	repo.Delete()
	w.Until("the artifact goes with its Bundle", func() string {
		if storage.Has(t, "bundles/"+last, "latest") {
			return "not yet"
		}
		return ""
	})
	w.Until("and so do the copies", func() string {
		if _, there := harness.Get[*corev1.Secret](w, w.Local, bd.Namespace, last); there {
			return "not yet"
		}
		return ""
	})
}
