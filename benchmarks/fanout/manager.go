package fanout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A manager is the process that is measured.
type manager struct {
	args []string
	env  []string
	log  string // path
	cmd  *exec.Cmd
	done chan struct{}
}

var errNoCommand = errors.New("the manager's command line is empty")

// startManager starts the command line with an account of its own.
func startManager(ctx context.Context, h *hub, line, dir string) (*manager, error) {
	token, err := h.account(ctx)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "manager.kubeconfig")
	entry := kubeconfig.Entry{Name: "hub", Server: h.URL(), CA: h.CA(), Token: token}
	if err := kubeconfig.Write(path, entry); err != nil {
		return nil, err
	}
	replace := strings.NewReplacer("{kubeconfig}", path, "{namespace}", fleet.NamespaceSystem)
	m := &manager{log: filepath.Join(dir, "manager.log"), env: append(os.Environ(), "KUBECONFIG="+path, "NAMESPACE="+fleet.NamespaceSystem)}
	for _, arg := range strings.Fields(line) {
		m.args = append(m.args, replace.Replace(arg))
	}
	if len(m.args) == 0 {
		return nil, errNoCommand
	}
	return m, m.start()
}

func (m *manager) start() error {
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(m.args[0], m.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = m.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start manager: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // its end shows in alive
	}()
	m.cmd, m.done = cmd, done
	return nil
}

func (m *manager) pid() int { return m.cmd.Process.Pid }

// kill ends the process as an accident does, and waits for that.
func (m *manager) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	<-m.done
}

var errEnded = errors.New("the manager has ended")

func (m *manager) alive() error {
	select {
	case <-m.done:
		return errEnded
	default:
		return nil
	}
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
