// Package measure reads what processes need and prints figures, for the
// commands that measure Fleet. It is no part of any program.
package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Footprint is the memory of a process in KiB.
type Footprint struct {
	All       int // resident: VmRSS
	Anonymous int // of that not backed by a file: RssAnon
	Peak      int // the most that was ever resident: VmHWM
}

// Memory reads the memory of a process from /proc; pid 0 is this one.
func Memory(pid int) (Footprint, error) {
	var f Footprint
	data, err := os.ReadFile(procOf(pid, "status"))
	if err != nil {
		return f, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		for key, field := range map[string]*int{"VmRSS:": &f.All, "RssAnon:": &f.Anonymous, "VmHWM:": &f.Peak} {
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

// CPU is the processor time, user and system, that a process has needed so
// far; pid 0 is this one.
func CPU(pid int) (time.Duration, error) {
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

// Most is the most memory that a process had while it was sampled, in KiB.
type Most struct{ Peak, Anonymous int }

// sampleEvery is how often the memory of a process is looked at. VmHWM misses
// nothing between two looks but what comes after the last one.
const sampleEvery = 5 * time.Millisecond

// Sample notes the memory of a process until stop is called, which returns
// the most that was seen.
func Sample(pid int) (stop func() Most) {
	quit, done := make(chan struct{}), make(chan struct{})
	var most Most
	go func() {
		defer close(done)
		every := time.NewTicker(sampleEvery)
		defer every.Stop()
		for {
			if f, err := Memory(pid); err == nil {
				most.Peak, most.Anonymous = max(most.Peak, f.Peak), max(most.Anonymous, f.Anonymous)
			}
			select {
			case <-quit:
				return
			case <-every.C:
			}
		}
	}()
	return func() Most {
		close(quit)
		<-done
		return most
	}
}

// ResetPeak resets the peak of a process to what is resident now
// (proc_pid_clear_refs(5)).
func ResetPeak(pid int) error {
	if err := os.WriteFile(procOf(pid, "clear_refs"), []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak of memory: %w", err)
	}
	return nil
}
