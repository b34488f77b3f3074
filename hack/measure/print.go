package measure

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Title begins a table.
func Title(text string) { fmt.Printf("\n## %s\n\n", text) }

// Row prints a line of a Markdown table.
func Row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

// Seconds is a time with two decimals.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// Milliseconds is a time with one decimal.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// MiB is a size that is given in KiB.
func MiB(kib int) string { return fmt.Sprintf("%.1f MiB", float64(kib)/1024) }

// Share is a part of a whole in percent.
func Share(part, whole float64) string { return fmt.Sprintf("%.1f %%", 100*part/whole) }

// Median is the middle of the times, or the mean of the two in the middle.
func Median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// List is all times in seconds, sorted.
func List(times []time.Duration) string {
	var texts []string
	for _, t := range slices.Sorted(slices.Values(times)) {
		texts = append(texts, fmt.Sprintf("%.2f", t.Seconds()))
	}
	return strings.Join(texts, " ")
}

// Machine says what the figures were measured on.
func Machine() error {
	Row("what", "")
	Row("---", "---")
	Row("processors", fmt.Sprintf("%d, %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name")))
	Row("memory", field("/proc/meminfo", "MemTotal"))
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	Row("kernel", strings.TrimSpace(string(kernel)))
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	Row("load before the start", strings.Join(strings.Fields(string(load))[:3], " "))
	Row("go", runtime.Version())
	Row("date", time.Now().UTC().Format(time.DateOnly))
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
