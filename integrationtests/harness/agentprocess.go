package harness

import (
	"context"
	"os"
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
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// program is where the agent's program is, once it was built.
var program struct {
	build        sync.Once
	folder, path string
	err          error
}

// agentProgram is the agent's program, as users run it.
func agentProgram(ctx context.Context) (string, error) {
	program.build.Do(func() {
		folder, err := os.MkdirTemp("", "fleet-victim-")
		if err != nil {
			program.err = err
			return
		}
		program.folder = folder
		program.path, program.err = Program(ctx, "fleet-agent", folder)
	})
	return program.path, program.err
}

// RemoveProgram removes the program that Victims run. It is for TestMain.
func RemoveProgram() {
	if program.folder != "" {
		_ = os.RemoveAll(program.folder)
	}
}

// An AgentProcess is a Site whose agent is a process of its own. All its requests, to its
// own cluster and to its manager, go through a Reaper.
type AgentProcess struct {
	*Site
	CrashProxy *CrashProxy
	// Reborn: an agent that the CrashProxy kills is replaced by another process
	// at once.
	Reborn bool

	group *process.Group
	spec  process.Spec
	mu    sync.Mutex
	agent *process.Process
	ended bool // it was stopped, not killed
	died  bool
}

// NewAgentProcess makes a Site with such an agent, and does not start it.
func NewAgentProcess(t testing.TB, hub *Hub, name string) *AgentProcess {
	t.Helper()
	path, err := agentProgram(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := &AgentProcess{Site: NewSite(t, hub, hub, name), CrashProxy: newCrashProxy(t, hub.Cluster.REST()), group: process.NewGroup()}
	t.Cleanup(func() { v.group.Close(time.Second) })
	v.Address = func(token string) []byte { return Kubeconfig(v.CrashProxy.URL, v.CrashProxy.ca(), token) }
	v.Run = v.run
	v.Credential()
	dir := t.TempDir()
	own := filepath.Join(dir, "kubeconfig")
	v.Must(os.WriteFile(own, v.Address(v.ownToken()), 0o600))
	v.spec = process.Spec{
		Name: "agent of " + name, Path: path, Dir: dir, Log: filepath.Join(dir, "log"),
		Args: []string{"--kubeconfig=" + own, "--namespace=" + v.Namespace, "--agent-scope=" + v.Namespace},
		Env:  []string{"HOME=" + dir, "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()},
	}
	t.Cleanup(v.explain)
	return v
}

// ownToken is a token of the agent's account on its own cluster, which has the
// rights that its chart gives it.
func (v *AgentProcess) ownToken() string {
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

// run starts the agent, and returns what stops it, as a node stops a pod: an agent that ends
// with another exit code than 0 fails the test.
func (v *AgentProcess) run() (stop func()) {
	v.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = false
	v.Must(v.launch())
	if v.Reborn {
		go v.succeed(v.agent)
	}
	return func() {
		v.mu.Lock()
		v.ended = true
		agent := v.agent
		v.mu.Unlock()
		agent.Stop(10 * time.Second)
		if code := agent.ExitCode(); code > 0 {
			v.root.Errorf("the agent ended with exit code %d after SIGTERM", code)
		}
	}
}

// launch starts a process with the Site's settings. The caller holds mu.
func (v *AgentProcess) launch() (err error) {
	spec := v.spec
	spec.Args = append(spec.Args[:len(spec.Args):len(spec.Args)],
		"--checkin-interval="+v.Config.CheckinInterval.String(),
		"--orphan-policy="+v.Config.OrphanPolicy,
		"--orphan-grace-period="+v.Config.OrphanGracePeriod.String(),
	)
	if v.CrashProxy.Fatal() { // also where it was killed when it was being stopped
		v.died = true
		v.CrashProxy.Arm(nil)
	}
	if v.agent, err = v.group.Start(spec); err == nil {
		v.CrashProxy.watches(v.agent)
	}
	return err
}

// succeed lets another process take the place of one that the Reaper has killed.
func (v *AgentProcess) succeed(agent *process.Process) {
	for {
		<-agent.Done()
		v.mu.Lock()
		if v.ended || v.agent != agent || !v.CrashProxy.Fatal() {
			v.mu.Unlock()
			return
		}
		err := v.launch()
		agent = v.agent
		v.mu.Unlock()
		if err != nil {
			v.root.Error(err)
			return
		}
	}
}

// Process is the agent that was started last.
func (v *AgentProcess) Process() *process.Process {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.agent
}

// Died reports whether another process has taken the place of one that was killed.
func (v *AgentProcess) Died() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.died
}

// Dead reports whether the agent has ended, and what it has sent has been answered.
func (v *AgentProcess) Dead() bool {
	select {
	case <-v.Process().Done():
		return v.CrashProxy.Quiet()
	default:
		return false
	}
}

// HeartbeatOfLife reports whether a Write says no more than that the agent lives.
func (w Write) HeartbeatOfLife() bool {
	return w.Method == "PATCH" && strings.Contains(w.Path, "/"+fleet.Group+"/") && strings.Contains(w.Path, "/clusters/") && strings.HasSuffix(w.Path, "/status")
}

// explain shows the end of the agent's log if the test has failed.
func (v *AgentProcess) explain() {
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
