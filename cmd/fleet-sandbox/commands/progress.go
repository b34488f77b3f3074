package commands

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
)

// silence is how long nothing may be printed before a line says what is being
// waited for.
const silence = 8 * time.Second

// A progressPrinter prints what up does: one line per finished step, and now and then
// what it waits for. On a terminal that is one moving line.
type progressPrinter struct {
	out    io.Writer
	begin  time.Time
	moving bool
	now    func() string // what is being waited for

	mu   sync.Mutex
	last time.Time // of the last line
	open bool      // the moving line is on the screen
	done chan struct{}
	wg   sync.WaitGroup
}

// newProgressPrinter starts a progressPrinter; now may be called from another goroutine. It
// must be closed.
func newProgressPrinter(out io.Writer, now func() string) *progressPrinter {
	t := &progressPrinter{out: out, begin: time.Now(), now: now, done: make(chan struct{})}
	t.last = t.begin
	if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		t.moving = term.IsTerminal(int(f.Fd()))
	}
	t.wg.Go(t.run)
	return t
}

func (p *progressPrinter) run() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
			p.wait()
		}
	}
}

// wait says what is being waited for, if it is time to.
func (p *progressPrinter) wait() {
	text := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case text == "":
	case p.moving:
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line("wait", clip(text, 60)))
		p.open = true
	case time.Since(p.last) >= silence:
		fmt.Fprintln(p.out, p.line("wait", text))
		p.last = time.Now()
	}
}

// step prints one line of progress.
func (p *progressPrinter) step(step, text string) { p.print(p.line(step, text)) }

// print prints a line as it is.
func (p *progressPrinter) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.out, line)
	p.last = time.Now()
}

// close takes the moving line off the screen and ends the progressPrinter.
func (p *progressPrinter) close() {
	close(p.done)
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progressPrinter) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}

func (p *progressPrinter) line(step, text string) string {
	return fmt.Sprintf("%s  %-8s  %s", kubebin.Elapsed(time.Since(p.begin)), step, text)
}

// clip cuts text to n runes.
func clip(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
