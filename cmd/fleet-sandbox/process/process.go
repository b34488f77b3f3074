// Package process runs child processes that never outlive this one.
//
// A child has a process group of its own, so that a terminal's Ctrl-C reaches
// only the launcher, and it is killed by the kernel when its Group ends, in
// whatever way that happens. Its output goes to a log file. Linux only.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Name string   // as people call it, e.g. "etcd of c1"
	Path string   // the executable
	Args []string // without the executable's own name
	Dir  string   // working directory
	Env  []string // the whole environment; nothing is inherited
	Log  string   // file for stdout and stderr, appended; its folder is made
}

// A Process is a running or ended child.
type Process struct {
	spec    Spec
	cmd     *exec.Cmd
	started time.Time
	done    chan struct{}

	mu      sync.Mutex
	stopped bool
	death   *Death
}

// PID is the child's process id. It may belong to another process after Done.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name is the name given in its Spec.
func (p *Process) Name() string { return p.spec.Name }

// Log is the path of the file that holds its output.
func (p *Process) Log() string { return p.spec.Log }

// Done is closed when the child has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Death says how the child ended by itself. It is nil while the child runs and
// for a child that Stop or Kill ended.
func (p *Process) Death() *Death {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.death
}

// ExitCode returns the exit code of an ended child, and -1 for one that a signal killed or
// that runs.
func (p *Process) ExitCode() int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	default:
		return -1
	}
}

// Stop asks the child to end, kills it after grace, and returns when it is
// gone. Any number of calls may be made at any time.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the child's whole group with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	select {
	case <-p.done: // reaped: the id may belong to another process by now
	default:
		_ = syscall.Kill(-p.PID(), s)
	}
}

// wait reaps the child and notes how it ended.
func (p *Process) wait() {
	err := p.cmd.Wait()
	p.mu.Lock()
	if !p.stopped {
		p.death = newDeath(p, err)
	}
	p.mu.Unlock()
	close(p.done)
}

// A Group is a set of children that end together. The zero Group is not
// valid: use NewGroup.
type Group struct {
	starts chan func()
	closed chan struct{}
	once   sync.Once

	closing bool // no process starts any more; only the goroutine that holds the turn uses it

	mu       sync.Mutex
	children []*Process
	deaths   chan *Death
}

// NewGroup returns an empty group. It must be closed.
func NewGroup() *Group {
	g := &Group{starts: make(chan func()), closed: make(chan struct{}), deaths: make(chan *Death, 64)}
	go g.serve()
	return g
}

// serve starts all children from one operating system thread: the kernel
// sends the parent death signal when the *thread* that forked ends, and the
// Go runtime ends threads as it likes unless they are locked.
func (g *Group) serve() {
	runtime.LockOSThread()
	for {
		select {
		case start := <-g.starts:
			start()
		case <-g.closed:
			return
		}
	}
}

// ErrClosed is what Start returns after Close.
var ErrClosed = errors.New("process group is closed")

// Start runs spec as a child of this group.
func (g *Group) Start(spec Spec) (*Process, error) {
	var p *Process
	err := ErrClosed
	g.inTurn(func() { p, err = g.start(spec) })
	return p, err
}

// inTurn calls f where children are started, one after the other, and waits for it.
// After the end of the group it does nothing.
func (g *Group) inTurn(f func()) {
	done := make(chan struct{})
	select {
	case g.starts <- func() { defer close(done); f() }:
		<-done
	case <-g.closed:
	}
}

// start runs a child, which Close knows of from the same moment on.
func (g *Group) start(spec Spec) (*Process, error) {
	if g.closing {
		return nil, ErrClosed
	}
	p, err := run(spec)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.children = append(g.children, p)
	g.mu.Unlock()
	go g.watch(p)
	return p, nil
}

func run(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, fmt.Errorf("make log folder of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, started: time.Now(), done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// watch passes on the death of p.
func (g *Group) watch(p *Process) {
	<-p.Done()
	g.mu.Lock()
	g.children = remove(g.children, p)
	g.mu.Unlock()
	if death := p.Death(); death != nil {
		select {
		case g.deaths <- death:
		default: // no receiver reads, and 64 are waiting to be read
		}
	}
}

func remove(list []*Process, p *Process) []*Process {
	var rest []*Process
	for _, one := range list {
		if one != p {
			rest = append(rest, one)
		}
	}
	return rest
}

// Deaths delivers each child that ended by itself.
func (g *Group) Deaths() <-chan *Death { return g.deaths }

// Running lists the children that have not ended, in the order of their start.
func (g *Group) Running() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*Process(nil), g.children...)
}

// Close stops all children at once, kills after grace what is left, and returns
// when all are gone; a Start meanwhile gets ErrClosed. Any number of calls may
// be made.
func (g *Group) Close(grace time.Duration) {
	g.inTurn(func() { g.closing = true }) // after the start that is under way
	var wg sync.WaitGroup
	for _, p := range g.Running() {
		wg.Go(func() { p.Stop(grace) })
	}
	wg.Wait()
	g.once.Do(func() { close(g.closed) })
}
