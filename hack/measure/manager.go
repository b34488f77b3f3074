package measure

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Manager is a process that is measured, with an account that may do anything: the
// integration tests prove what it may not do.
type Manager struct {
	Name string // of its account, which distinguishes its requests from those of others

	log  string // path
	cmd  *exec.Cmd
	done chan struct{}
}

// StartManager starts fleet-controller, which program is the path of, with args. Its
// log and its credential are in dir, which must not exist; the cluster has Fleet's
// namespace.
func StartManager(ctx context.Context, c *cluster.Cluster, name, program, dir string, args ...string) (*Manager, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	token, err := administrator(ctx, c, name)
	if err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := kubeconfig.Write(path, kubeconfig.Entry{Name: "hub", Server: c.URL(), CA: c.CA(), Token: token}); err != nil {
		return nil, err
	}
	m := &Manager{Name: name, log: filepath.Join(dir, "log"), done: make(chan struct{})}
	log, err := os.Create(m.log)
	if err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	defer log.Close()
	m.cmd = exec.Command(program, append([]string{"--kubeconfig=" + path, "--namespace=" + fleet.NamespaceSystem}, args...)...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.Env = append(os.Environ(), sandbox.AllowLoopback)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	go func() {
		defer close(m.done)
		_ = m.cmd.Wait() // whether it has ended shows in what is measured
	}()
	return m, nil
}

// administrator makes an account that may do anything, and returns a token of it,
// good for a day.
func administrator(ctx context.Context, c *cluster.Cluster, name string) (string, error) {
	client, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	accounts := client.CoreV1().ServiceAccounts(fleet.NamespaceSystem)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("make account: %w", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: fleet.NamespaceSystem, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("let account do anything: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	made, err := accounts.CreateToken(ctx, name, &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return made.Status.Token, nil
}

// User is who the manager is in the audit log.
func (m *Manager) User() string {
	return "system:serviceaccount:" + fleet.NamespaceSystem + ":" + m.Name
}

// PID is that of its process.
func (m *Manager) PID() int { return m.cmd.Process.Pid }

// Kill ends the process at once, and waits for that.
func (m *Manager) Kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.done
}

// Stop lets the process end in good order, and waits for that.
func (m *Manager) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-m.done
}

// LastWords are the end of the log.
func (m *Manager) LastWords() string {
	data, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}
