package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// An agent is the process that is measured.
type agent struct {
	args    []string
	log     string // path
	profile string // address of its profiles; empty: it shows none
	folder  string // where profiles go
	cmd     *exec.Cmd
	done    chan struct{}
}

func newAgent(o settings, dir, config string) *agent {
	a := &agent{log: filepath.Join(dir, "agent.log"), folder: o.profile}
	a.args = []string{filepath.Join(o.programs, "fleet-agent"), "--kubeconfig=" + config, "--namespace=" + agentNamespace}
	if o.profile != "" {
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			a.profile = l.Addr().String()
			_ = l.Close()
			a.args = append(a.args, "--profile-address="+a.profile)
		}
	}
	return a
}

func (a *agent) start() error {
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(a.args[0], a.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(a.log), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // its end shows in alive
	}()
	a.cmd, a.done = cmd, done
	return nil
}

func (a *agent) pid() int { return a.cmd.Process.Pid }

// kill ends the process as an accident does, and waits for that.
func (a *agent) kill() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.done
}

var errEnded = errors.New("the agent has ended")

// lastWords is the end of the log.
func (a *agent) lastWords() string {
	data, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
}

// usage is what a process has needed between two moments.
type usage struct {
	cpu    time.Duration
	memory measure.Footprint // at the end; Peak is the most meanwhile
}

// meter begins to measure the process; the function that it returns ends it.
func (a *agent) meter() (func() (usage, error), error) {
	if err := measure.ResetPeak(a.pid()); err != nil {
		return nil, err
	}
	before, err := measure.CPU(a.pid())
	if err != nil {
		return nil, err
	}
	return func() (u usage, err error) {
		after, err := measure.CPU(a.pid())
		if err != nil {
			return u, err
		}
		u.cpu = after - before
		u.memory, err = measure.Memory(a.pid())
		return u, err
	}, nil
}

// keepProfile writes a profile of the agent into the folder for profiles, where
// there is one: "heap", or "profile?seconds=N" of the processor.
func (a *agent) keepProfile(ctx context.Context, kind, name string) error {
	if a.profile == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.profile+"/debug/pprof/"+kind, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := os.MkdirAll(a.folder, 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(filepath.Join(a.folder, name), data, 0o600)
}
