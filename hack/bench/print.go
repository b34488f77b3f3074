package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// title begins a table.
func title(text string) { fmt.Printf("\n## %s\n\n", text) }

// row prints a line of a Markdown table.
func row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func mib(kib int) string { return fmt.Sprintf("%.1f MiB", float64(kib)/1024) }

// share is a part of a whole in percent.
func share(part, whole float64) string { return fmt.Sprintf("%.1f %%", 100*part/whole) }

// median is the middle of the times, or the mean of the two in the middle.
func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func list(times []time.Duration) string {
	var texts []string
	for _, t := range slices.Sorted(slices.Values(times)) {
		texts = append(texts, fmt.Sprintf("%.2f", t.Seconds()))
	}
	return strings.Join(texts, " ")
}

// printMachine says what the figures were measured on.
func printMachine() error {
	row("what", "")
	row("---", "---")
	row("processors", fmt.Sprintf("%d, %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name")))
	row("memory", field("/proc/meminfo", "MemTotal"))
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	row("kernel", strings.TrimSpace(string(kernel)))
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	row("load before the start", strings.Join(strings.Fields(string(load))[:3], " "))
	row("go", runtime.Version())
	row("date", time.Now().UTC().Format(time.DateOnly))
	return nil
}

// field is the value of the first line of a file in /proc with this key.
func field(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
