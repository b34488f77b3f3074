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

func (t *progressPrinter) run() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-tick.C:
			t.wait()
		}
	}
}

// wait says what is being waited for, if it is time to.
func (t *progressPrinter) wait() {
	text := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case text == "":
	case t.moving:
		fmt.Fprintf(t.out, "\r\x1b[K%s", t.line("wait", clip(text, 60)))
		t.open = true
	case time.Since(t.last) >= silence:
		fmt.Fprintln(t.out, t.line("wait", text))
		t.last = time.Now()
	}
}

// step prints one line of progress.
func (t *progressPrinter) step(step, text string) { t.print(t.line(step, text)) }

// print prints a line as it is.
func (t *progressPrinter) print(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintln(t.out, line)
	t.last = time.Now()
}

// close takes the moving line off the screen and ends the progressPrinter.
func (t *progressPrinter) close() {
	close(t.done)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
}

func (t *progressPrinter) clear() {
	if t.open {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.open = false
	}
}

func (t *progressPrinter) line(step, text string) string {
	return fmt.Sprintf("%s  %-8s  %s", kubebin.Elapsed(time.Since(t.begin)), step, text)
}

// clip cuts text to n runes.
func clip(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}
