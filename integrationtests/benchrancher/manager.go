package main

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

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A manager is a process that is measured.
type manager struct {
	name string
	log  string // path
	cmd  *exec.Cmd
	done chan struct{}
}

// startManager starts the role that maps Rancher's objects, with the leases of
// production and an account that may do anything: what it may not do, the stories
// tell.
func startManager(ctx context.Context, h *hub, program, dir, name string) (*manager, error) {
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	token, err := h.account(ctx, name)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := kubeconfig.Write(path, kubeconfig.Entry{Name: "hub", Server: h.URL(), CA: h.CA(), Token: token}); err != nil {
		return nil, err
	}
	m := &manager{name: name, log: filepath.Join(dir, "log"), done: make(chan struct{})}
	log, err := os.Create(m.log)
	if err != nil {
		return nil, fmt.Errorf("start manager: %w", err)
	}
	defer log.Close()
	m.cmd = exec.Command(program, "--roles=workspace", "--workspace-mode=standalone", "--kubeconfig="+path,
		"--namespace="+fleet.NamespaceSystem, "--identity="+name, "--takeover")
	m.cmd.Stdout, m.cmd.Stderr = log, log
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

// account makes an account for one manager, so that its requests are told from those
// of others, and returns a token of it, good for a day.
func (h *hub) account(ctx context.Context, name string) (string, error) {
	meta := metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: name}
	if _, err := kube.StoreOf[*corev1.ServiceAccount](h.admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}); err != nil {
		return "", err
	}
	_, err := kube.StoreOf[*rbacv1.ClusterRoleBinding](h.admin).Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	})
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(h.REST())
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	seconds := int64((24 * time.Hour).Seconds())
	made, err := client.CoreV1().ServiceAccounts(meta.Namespace).CreateToken(ctx, name,
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return made.Status.Token, nil
}

// user is who a manager is in the audit log.
func (m *manager) user() string {
	return "system:serviceaccount:" + fleet.NamespaceSystem + ":" + m.name
}

func (m *manager) pid() int { return m.cmd.Process.Pid }

// kill ends the process at once, and waits for that.
func (m *manager) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.done
}

// stop lets the process end in good order.
func (m *manager) stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-m.done
}

// lastWords is the end of the log.
func (m *manager) lastWords() string {
	data, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}
