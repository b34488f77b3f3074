package fleet

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// restartDelay is how long a program that ended by itself stays away, as a
// Deployment's container would.
const restartDelay = time.Second

// stopGrace is how long a program may take to end when it is asked to.
const stopGrace = 5 * time.Second

// A program is one of Fleet's processes: it is started again when it ends by
// itself, and left alone when it was stopped or killed on purpose.
type program struct {
	group  *process.Group
	spec   process.Spec
	onExit func(*process.Death) // called for each end without Stop or Kill

	mu      sync.Mutex
	current *process.Process // nil while it shall not run
	retry   *time.Timer      // set while it waits to be started again
}

// start runs the program unless it runs already.
func (p *program) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked()
}

func (p *program) startLocked() error {
	if p.current != nil {
		return nil
	}
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
	child, err := p.group.Start(p.spec)
	if err != nil {
		return err
	}
	p.current = child
	go p.watch(child)
	return nil
}

// watch starts the program again if child ends while it is still wanted.
func (p *program) watch(child *process.Process) {
	<-child.Done()
	death := child.Death() // nil after Stop and Kill
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != child || death == nil {
		return // ended on purpose
	}
	p.current = nil
	p.retry = time.AfterFunc(restartDelay, p.again)
	if p.onExit != nil {
		p.onExit(death)
	}
}

// again starts the program after restartDelay, unless it was stopped since: a
// timer that has fired cannot be stopped any more.
func (p *program) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retry != nil {
		_ = p.startLocked() // fails only if all is being stopped
	}
}

// end stops the program, and does not start it again. If kill is set, it kills the process
// at once; otherwise the process has time to stop. end reports whether the program ran or
// was about to be started again.
func (p *program) end(kill bool) bool {
	p.mu.Lock()
	child := p.current
	p.current = nil
	waiting := p.retry != nil
	if waiting {
		p.retry.Stop()
	}
	p.retry = nil
	p.mu.Unlock()
	switch {
	case child == nil:
		return waiting
	case kill:
		child.Kill()
	default:
		child.Stop(stopGrace)
	}
	return true
}

// running returns the program's process id, or 0.
func (p *program) running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		return 0
	}
	return p.current.PID()
}
