package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// A janitor is a small process that outlives a launcher that crashed, ends
// what may be left of it and removes its folder.
type janitor struct {
	in  io.WriteCloser
	cmd *exec.Cmd
}

// startJanitor starts one for this process. It learns of our death from the
// end of its standard input.
func startJanitor(p place) (*janitor, error) {
	cmd := exec.Command("/proc/self/exe", "janitor", "--ports", strconv.Itoa(p.First), "--launcher", strconv.Itoa(os.Getpid()))
	cmd.Args[0] = "fleet-sandbox"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	return &janitor{in: in, cmd: cmd}, nil
}

// dismiss ends the janitor after everything was put in order.
func (j *janitor) dismiss() {
	_, _ = io.WriteString(j.in, "done\n")
	_ = j.in.Close()
	_ = j.cmd.Wait()
}

func newJanitor(std stdio, at locate) *cobra.Command {
	var launcher int
	cmd := &cobra.Command{
		Use:    "janitor",
		Short:  "Clean up after a launcher that crashed",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			return runJanitor(p, launcher, std)
		},
	}
	cmd.Flags().IntVar(&launcher, "launcher", 0, "process `id` of the launcher")
	return cmd
}

// runJanitor waits for the end of its launcher and cleans up, unless the
// launcher, a process id, said that it did so itself or another one has
// started since.
func runJanitor(p place, launcher int, std stdio) error {
	word, err := io.ReadAll(std.in)
	if err != nil || strings.TrimSpace(string(word)) == "done" {
		return err
	}
	// Its descriptors are closed one after the other: our input first, the
	// lock later. It is our parent until all of them are closed.
	for os.Getppid() == launcher {
		time.Sleep(5 * time.Millisecond)
	}
	release, err := p.take()
	if errors.Is(err, errHeld) {
		return nil // the new one cleans up
	}
	if err != nil {
		return err
	}
	defer release()
	return p.clean()
}

// clean ends processes that a crashed launcher may have left, which the
// kernel should have done, and removes run and log folders. Only the holder
// of the lock may call it.
func (p place) clean() error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := p.leftovers()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("clean up: processes %v work in %s and do not end", left, short(p.Run))
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return p.remove(true)
}

// remove deletes the run folder and, where asked to, the logs.
func (p place) remove(logs bool) error {
	err := os.RemoveAll(p.Run)
	if logs {
		err = errors.Join(err, os.RemoveAll(p.Log))
	}
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// leftovers lists processes, other than this one, that work in a folder below
// the run folder's clusters, as all children of a launcher do.
func (p place) leftovers() []int {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	var found []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, p.Run+"/") || strings.HasPrefix(target, p.repository()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && pid != os.Getpid() && ours(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// ours reports by its executable whether a process is a child of a launcher,
// and not one that a user runs in the same folder.
func ours(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	name := filepath.Base(exe)
	return err == nil && (strings.HasPrefix(name, "kubernetes") || strings.HasPrefix(name, "fleet-controller") || strings.HasPrefix(name, "fleet-agent"))
}
