package kill_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// programFolder holds the program, once it is there.
var programFolder string

// program builds the agent's program, as users run it.
var program = sync.OnceValues(func() (string, error) {
	root, err := source.Root()
	if err != nil {
		return "", err
	}
	if programFolder, err = os.MkdirTemp("", "fleet-kill-"); err != nil {
		return "", err
	}
	path := filepath.Join(programFolder, "fleet-agent")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./cmd/fleet-agent")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as the sandbox does, so that both share what is compiled
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fleet-agent: %w\n%s", err, out)
	}
	return path, nil
})

// TestMain removes the copy of the program.
func TestMain(m *testing.M) {
	code := m.Run()
	if programFolder != "" {
		_ = os.RemoveAll(programFolder)
	}
	os.Exit(code)
}

// victim is an agent as a process of its own, whose requests to its own cluster
// and to its manager all go through a reaper.
type victim struct {
	*harness.Site
	reaper *reaper
	group  *process.Group
	spec   process.Spec
	agent  *process.Process
}

// newVictim makes the Site of an agent, and starts it.
func newVictim(t testing.TB, hub *harness.Hub, name string) *victim {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{
		Site:   harness.NewSite(t, hub, hub, name),
		reaper: newReaper(t, hub.Cluster.REST()),
		group:  process.NewGroup(),
	}
	t.Cleanup(func() { v.group.Close(time.Second) })
	v.CredentialFor(v.kubeconfig(v.Token()))
	dir := t.TempDir()
	own := filepath.Join(dir, "kubeconfig")
	v.Must(os.WriteFile(own, v.kubeconfig(v.ownToken()), 0o600))
	v.spec = process.Spec{
		Name: "agent of " + name, Path: path, Dir: dir, Log: filepath.Join(dir, "log"),
		// Signs of life are another story: one at the start is enough here.
		Args: []string{"--kubeconfig=" + own, "--namespace=" + v.Namespace, "--agent-scope=" + v.Namespace, "--checkin-interval=1h"},
		Env:  []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()},
	}
	t.Cleanup(v.explain)
	v.start()
	return v
}

// ownToken is a token of the agent's account on its own cluster, which has the
// rights that its chart gives it.
func (v *victim) ownToken() string {
	v.Helper()
	const name = "fleet-agent"
	_, err := kube.StoreOf[*corev1.ServiceAccount](v.Down.Admin).Create(v.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: name}})
	v.Must(err)
	_, err = kube.StoreOf[*rbacv1.ClusterRoleBinding](v.Down.Admin).Create(v.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: v.Namespace},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: v.Namespace, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	})
	v.Must(err)
	made, err := v.Down.Client.CoreV1().ServiceAccounts(v.Namespace).CreateToken(v.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	v.Must(err)
	return made.Status.Token
}

// kubeconfig leads through the reaper.
func (v *victim) kubeconfig(token string) []byte {
	return harness.Kubeconfig(v.reaper.URL, v.reaper.ca(), token)
}

// start starts the agent.
func (v *victim) start() {
	v.Helper()
	var err error
	v.agent, err = v.group.Start(v.spec)
	v.Must(err)
	v.reaper.watches(v.agent)
}

// dead tells whether the agent has ended.
func (v *victim) dead() bool {
	select {
	case <-v.agent.Done():
		return true
	default:
		return false
	}
}

// explain shows the end of the agent's log if the test has failed.
func (v *victim) explain() {
	if !v.Failed() {
		return
	}
	data, err := os.ReadFile(v.spec.Log)
	if err != nil {
		v.Log(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	v.Logf("the agent said:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
}

// record is what the agent has in its store about a deployment.
func (v *victim) record(name string) (store.Record, bool) {
	v.Helper()
	list, err := v.Down.Client.CoreV1().Secrets(v.Namespace).List(v.Context(), metav1.ListOptions{
		LabelSelector: fleet.LabelManagerID, FieldSelector: "type=" + fleet.SecretTypeAgentStore,
	})
	v.Must(err)
	for i := range list.Items {
		var r store.Record
		if json.Unmarshal(list.Items[i].Data["deployment"], &r) == nil && r.Key.Name == name {
			return r, true
		}
	}
	return store.Record{}, false
}
