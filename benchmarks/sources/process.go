package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/hack/measure"
)

// A usage is what a process needed from its start, or a piece of work, to its
// end.
type usage struct {
	Wall, CPU       time.Duration
	Peak, Anonymous int // the most that was resident, and the most of that not backed by a file, in KiB
}

// measured runs a command and returns what it needed. The error of a command
// that fails holds what it said on stderr, unless cmd.Stderr is set.
func measured(cmd *exec.Cmd) (usage, error) {
	var complaint bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &complaint
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	stop := measure.Sample(cmd.Process.Pid)
	err := cmd.Wait()
	most := stop()
	u := usage{Wall: time.Since(begin), Peak: most.Peak, Anonymous: most.Anonymous}
	u.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err != nil {
		return u, fmt.Errorf("run %s: %w: %s", cmd.Path, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return u, nil
}

// An order is work for a process of its own, so that its memory and processor
// time are those of the work alone. Exactly one field is set.
type order struct {
	Read  *readOrder  `json:",omitempty"`
	Chart *chartOrder `json:",omitempty"`
}

// childVariable marks a process that takes an order.
const childVariable = "FLEET_BENCH_ORDER"

// child runs an order in a process of this program and decodes its report.
func child(ctx context.Context, o order, report any) (usage, error) {
	program, err := os.Executable()
	if err != nil {
		return usage{}, fmt.Errorf("find this program: %w", err)
	}
	in, err := json.Marshal(o)
	if err != nil {
		return usage{}, fmt.Errorf("write order: %w", err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stdin, cmd.Stdout = bytes.NewReader(in), &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	u, err := measured(cmd)
	if err != nil {
		return u, err
	}
	var answer struct {
		Peak   int
		Report json.RawMessage
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		return u, fmt.Errorf("read report %q: %w", out.Bytes(), err)
	}
	u.Peak = max(u.Peak, answer.Peak)
	if err := json.Unmarshal(answer.Report, report); err != nil {
		return u, fmt.Errorf("read report %q: %w", answer.Report, err)
	}
	return u, nil
}

// errNoOrder is what a child gets without instructions.
var errNoOrder = errors.New("no order")

// Child does the work of a child process of this suite, and reports whether this process
// is one. It ends the process if the work fails.
func Child(in io.Reader, out io.Writer) bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	if err := takeOrder(in, out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func takeOrder(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	var (
		report any
		err    error
	)
	switch ctx := context.Background(); {
	case o.Read != nil:
		report, err = o.Read.run(ctx)
	case o.Chart != nil:
		report, err = o.Chart.run(ctx)
	default:
		err = errNoOrder
	}
	if err != nil {
		return err
	}
	f, err := measure.Memory(0)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{"Peak": f.Peak, "Report": report})
}
