package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// The tests that are skipped where nothing is missing, as in CI: one line each,
// "<package> <test>", with a comment above that says why. Packages are relative to
// the module. The second list is that of the race detector's run.
var (
	//go:embed skipped.txt
	skippedList []byte
	//go:embed skipped_race.txt
	skippedRaceList []byte
)

// parseSkips reads one of the lists.
func parseSkips(text []byte) []string {
	var out []string
	for line := range bytes.Lines(text) {
		if name := strings.TrimSpace(string(line)); name != "" && !strings.HasPrefix(name, "#") {
			out = append(out, name)
		}
	}
	return out
}

// compareSkips returns what differs between the tests that were skipped and those
// that may be, a line each, sorted; nothing where they are the same.
func compareSkips(want, got []string) []string {
	var out []string
	for _, name := range got {
		if !slices.Contains(want, name) {
			out = append(out, "skipped, but not in the list: "+name)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			out = append(out, "in the list, but not skipped: "+name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkSkips prints how many tests were skipped, and every difference from the list.
// With strict it returns an error where there is one.
func checkSkips(file string, want, got []string, strict bool) error {
	fmt.Printf("test: %d tests skipped; hack/test/%s lists %d\n", len(got), file, len(want))
	differences := compareSkips(want, got)
	for _, line := range differences {
		fmt.Println("test:", line)
	}
	if len(differences) > 0 && strict {
		return fmt.Errorf("the skipped tests are not those of hack/test/%s", file)
	}
	return nil
}
