package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A footprint is the memory of a process in KiB.
type footprint struct {
	all       int // resident: VmRSS
	anonymous int // of that not backed by a file: RssAnon
	peak      int // the most that was ever resident: VmHWM
}

// memoryOf reads the memory of a process from /proc; pid 0 is this one.
func memoryOf(pid int) (footprint, error) {
	var f footprint
	data, err := os.ReadFile(procOf(pid, "status"))
	if err != nil {
		return f, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		for key, field := range map[string]*int{"VmRSS:": &f.all, "RssAnon:": &f.anonymous, "VmHWM:": &f.peak} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				if _, err := fmt.Sscanf(rest, "%d kB", field); err != nil {
					return f, fmt.Errorf("read memory: %q: %w", line, err)
				}
			}
		}
	}
	return f, nil
}

func procOf(pid int, file string) string {
	if pid == 0 {
		return "/proc/self/" + file
	}
	return fmt.Sprintf("/proc/%d/%s", pid, file)
}

// tick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 on
// every architecture that Go runs on (proc_pid_stat(5)).
const tick = 10 * time.Millisecond

// cpuOf is the processor time, user and system, that a process has needed so
// far; pid 0 is this one.
func cpuOf(pid int) (time.Duration, error) {
	if pid == 0 { // finer than ticks
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
	}
	data, err := os.ReadFile(procOf(pid, "stat"))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseStat(string(data))
}

// parseStat reads utime and stime, the 14th and 15th field of /proc/PID/stat.
// The second field, a name in parentheses, may hold blanks.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("read processor time: %d fields behind the name in %q", len(fields), text)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// A usage is what a process needed from its start, or a piece of work, to its
// end.
type usage struct {
	Wall, CPU       time.Duration
	Peak, Anonymous int // the most that was resident, and the most of that not backed by a file, in KiB
}

// sampleEvery is how often the memory of a process is looked at. VmHWM misses
// nothing between two looks but what comes after the last one.
const sampleEvery = 5 * time.Millisecond

// sampled notes the memory of a process until stop is called, which returns
// the most that was seen.
func sampled(pid int) (stop func() usage) {
	quit, done := make(chan struct{}), make(chan struct{})
	var most usage
	go func() {
		defer close(done)
		every := time.NewTicker(sampleEvery)
		defer every.Stop()
		for {
			if f, err := memoryOf(pid); err == nil {
				most.Peak, most.Anonymous = max(most.Peak, f.peak), max(most.Anonymous, f.anonymous)
			}
			select {
			case <-quit:
				return
			case <-every.C:
			}
		}
	}()
	return func() usage {
		close(quit)
		<-done
		return most
	}
}

// resetPeak makes the peak of a process begin anew at what is resident now
// (proc_pid_clear_refs(5)).
func resetPeak(pid int) error {
	if err := os.WriteFile(procOf(pid, "clear_refs"), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak of memory: %w", err)
	}
	return nil
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
	stop := sampled(cmd.Process.Pid)
	err := cmd.Wait()
	u := stop()
	u.Wall = time.Since(begin)
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

// errNoOrder is what a child gets that was not told what to do.
var errNoOrder = errors.New("no order")

// work takes an order where this process is there for one, and ends the
// process if that fails. It tells whether there was one.
func work(in io.Reader, out io.Writer) bool {
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
	f, err := memoryOf(0)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{"Peak": f.peak, "Report": report})
}
