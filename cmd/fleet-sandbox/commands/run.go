package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
)

// A session is one run of up.
type session struct {
	plan     plan
	std      stdio
	progress *progressPrinter
	since    time.Time

	wait  atomic.Value                // string: what is being waited for while it starts
	fleet atomic.Pointer[fleet.Fleet] // nil until it is there
	state atomic.Value                // string: Starting, Ready or NotReady

	control string // address of the control server
	token   string // to be shown there

	mu    sync.Mutex
	known facts
}

// facts are what a session finds out while other commands may ask for it.
type facts struct {
	kubernetes string // the executable
	repo       origin
	took       seconds
	broken     map[string]time.Time // "cut c2", "stop manager": since when
}

// learn changes what the session knows.
func (s *session) learn(change func(*facts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.known)
}

// facts is what the session knows now.
func (s *session) facts() facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.known
	now.broken = maps.Clone(now.broken)
	return now
}

// seconds is how long the parts of a start took.
type seconds struct {
	Build      float64 `json:"build"`
	Start      float64 `json:"start"`
	FirstReady float64 `json:"firstReady"`
}

// run does all of up, from the first check to the last process stopped.
func (p plan) run(ctx context.Context, std stdio) error {
	release, err := p.place.take()
	if errors.Is(err, errHeld) {
		return p.refuseSecond()
	}
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go endWithParent(ctx, stop)
	s := &session{plan: p, std: std, since: time.Now()}
	s.wait.Store("")
	s.state.Store("Starting")
	s.progress = newProgressPrinter(std.err, s.waiting)
	defer s.progress.close()
	err = s.work(ctx)
	switch {
	case errors.Is(err, errNotReady):
		return err
	case ctx.Err() != nil && s.state.Load() == "Starting":
		return errInterrupted
	case ctx.Err() != nil:
		return nil // the user ended a fleet that ran
	default:
		return err
	}
}

// refuseSecond says that a sandbox runs here already.
func (p plan) refuseSecond() error {
	text := "a sandbox that is just being started still runs here"
	if r, err := p.place.read(); err == nil {
		text = fmt.Sprintf("a sandbox from %s still runs here (pid %d)", r.Since.Local().Format("15:04"), r.PID)
	}
	if err := checkPorts(p.ports, p.names(), text); err != nil {
		return err
	}
	return &refusal{text: text, advice: []string{"fleet-sandbox status, or fleet-sandbox down"}}
}

func (p plan) names() []string {
	var names []string
	for _, d := range fleet.Flatten(p.downstream) {
		names = append(names, d.Name)
	}
	return names
}

// work is run between taking the lock and giving it back.
func (s *session) work(ctx context.Context) (err error) {
	building, err := s.check(ctx)
	if err != nil {
		return err
	}
	if err := s.plan.place.clean(); err != nil {
		return err
	}
	sweeper, err := startJanitor(s.plan.place)
	if err != nil {
		return err
	}
	defer sweeper.dismiss()
	defer func() {
		var kept accident // its text leads to a log
		_ = s.plan.place.remove(!errors.As(err, &kept))
	}()
	control, err := s.serve()
	if err != nil {
		return err
	}
	defer control.close()
	programs, err := s.build(ctx, building)
	if err != nil {
		return err
	}
	return s.launch(ctx, programs)
}

// check looks at the machine and refuses what it is too small for. It reports
// whether Kubernetes is still to be built.
func (s *session) check(ctx context.Context) (building bool, err error) {
	p := s.plan
	if p.kubernetes == "" {
		p.kubernetes, err = p.builder.Cached(ctx)
		building = err != nil
	}
	s.learn(func(k *facts) { k.kubernetes = p.kubernetes })
	if err := checkPorts(p.ports, p.names(), ""); err != nil {
		return false, err
	}
	m, err := lookAtMachine(ctx, p.place, p.builder)
	if err != nil {
		return false, err
	}
	if !p.options.force {
		if err := checkRoom(m, p.place, len(p.names()), building); err != nil {
			return false, err
		}
	}
	p.printHead(s.std)
	s.progress.step("check", m.String())
	return building, nil
}

// build makes what is missing and returns the folder of Fleet's programs.
func (s *session) build(ctx context.Context, building bool) (string, error) {
	begin := time.Now()
	s.wait.Store("the build")
	say := func(line string) { s.progress.step("build", line) }
	if building {
		path, err := s.plan.builder.Narrated(ctx, say)
		if err != nil {
			return "", err
		}
		s.learn(func(k *facts) { k.kubernetes = path })
	}
	programs := s.plan.programs
	if programs == "" {
		var err error
		if programs, err = s.plan.builder.NarratedFleet(ctx, say); err != nil {
			return "", err
		}
		if time.Since(begin) > 2*time.Second {
			say(strings.Join(kubebin.Programs, ", ") + ": done")
		}
	}
	s.learn(func(k *facts) { k.took.Build = time.Since(begin).Seconds() })
	return programs, s.install(programs)
}

// install puts the commands that env offers into a folder of their own.
func (s *session) install(programs string) error {
	p := s.plan.place
	if err := os.MkdirAll(p.bin(), 0o700); err != nil {
		return fmt.Errorf("make folder of commands: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the launcher: %w", err)
	}
	for name, target := range map[string]string{"fleet": filepath.Join(programs, "fleet"), "fleet-sandbox": self} {
		if err := os.Symlink(target, filepath.Join(p.bin(), name)); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\nKUBECACHEDIR=%s KUBERC=off exec %s kubectl \"$@\"\n",
		quote(filepath.Join(p.Run, "kubectl-cache")), quote(s.facts().kubernetes))
	if err := os.WriteFile(filepath.Join(p.bin(), "kubectl"), []byte(script), 0o700); err != nil {
		return fmt.Errorf("write kubectl: %w", err)
	}
	return nil
}

// quote makes text one word of a POSIX shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// launch starts the fleet, deploys, and waits for the end of all.
func (s *session) launch(ctx context.Context, programs string) error {
	begin := time.Now()
	timed, cancel := context.WithTimeoutCause(ctx, s.plan.options.timeout, errTimeout)
	defer cancel()
	config := fleet.Config{
		Dir: s.plan.place.Run, LogDir: s.plan.place.Log,
		Kubernetes: s.facts().kubernetes, Programs: programs,
		Charts:     filepath.Join(s.plan.builder.Root, "charts"),
		Downstream: s.plan.downstream,
		Ports:      s.plan.ports,
		CheckIn:    10 * time.Second,
		Debug:      s.plan.options.debug,
		Report: func(step, text string) {
			if step == "start" {
				s.learn(func(k *facts) { k.took.Start = time.Since(begin).Seconds() })
			}
			s.progress.step(step, text)
		},
		Waiting: func(text string) { s.wait.Store(text) },
	}
	f, err := fleet.Start(timed, config)
	if err != nil {
		return s.stopped(err)
	}
	s.fleet.Store(f)
	defer s.down(f)
	if err := f.Kubeconfig(s.plan.place.kubeconfig()); err != nil {
		return err
	}
	if err := s.deploy(timed, f); err != nil {
		return s.stopped(err)
	}
	snap, unready := f.WaitReady(timed, s.facts().repo.commit)
	if ctx.Err() != nil || f.Err() != nil {
		return s.stopped(f.Err())
	}
	s.learn(func(k *facts) { k.took.FirstReady = time.Since(begin).Seconds() })
	if err := s.show(snap, unready); err != nil {
		return err
	}
	return s.keep(ctx, f, unready)
}

// keep waits until the user or an accident ends the fleet.
func (s *session) keep(ctx context.Context, f *fleet.Fleet, unready error) error {
	select {
	case <-ctx.Done():
	case <-f.Done():
		return s.stopped(f.Err())
	}
	if unready != nil {
		return errNotReady
	}
	return nil
}

// accident is an error after which everything was stopped.
type accident struct{ error }

func (a accident) Unwrap() error { return a.error }

// Details are those of the error, and that nothing is left.
func (a accident) Details() []string {
	var lines []string
	var inner interface{ Details() []string }
	if errors.As(a.error, &inner) {
		for _, line := range inner.Details() {
			if path, ok := strings.CutPrefix(line, "whole log: "); ok {
				line = "whole log: " + short(path)
			}
			lines = append(lines, line)
		}
	}
	return append(lines, "everything else was stopped; nothing is left running")
}

// stopped wraps the error that ends a session.
func (s *session) stopped(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return accident{err}
}

// down stops the fleet and says so.
func (s *session) down(f *fleet.Fleet) {
	n := f.Running()
	size := sizeBytes(s.plan.place.Run)
	f.Stop()
	if s.state.Load() != "Starting" {
		s.progress.step("down", fmt.Sprintf("stopped %d processes, removed %d MiB; the build stays (%d MiB)",
			n, size>>20, sizeBytes(filepath.Dir(s.plan.place.Lock))>>20))
	}
}

// waiting says what is being waited for, for the moving line.
func (s *session) waiting() string {
	if s.state.Load() != "Starting" {
		return ""
	}
	text, _ := s.wait.Load().(string)
	return text
}
