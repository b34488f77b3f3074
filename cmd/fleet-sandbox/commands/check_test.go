package commands

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

const gibibyte = 1 << 30

// said is what a user sees of an error.
func said(err error) string {
	var out bytes.Buffer
	report(&out, err)
	return out.String()
}

func TestCheckRoom(t *testing.T) {
	cases := map[string]struct {
		why        string
		machine    machine
		downstream int
		building   bool
		want       string
	}{
		"Fits": {
			why:        "a laptop of 8 GiB runs the default",
			machine:    machine{memoryBytes: 4 * gibibyte, diskBytes: 10 * gibibyte},
			downstream: 2,
		},
		"Memory": {
			why:        "the user learns how many would fit",
			machine:    machine{memoryBytes: 11 * gibibyte, diskBytes: 100 * gibibyte},
			downstream: 30,
			want: "error: 31 clusters need about 20 GiB of memory, 11 GiB are free\n" +
				"  15 would fit: fleet-sandbox up --clusters 15        (--force to try anyway)\n",
		},
		"NoMemoryAtAll": {
			why:        "no advice that would not work",
			machine:    machine{memoryBytes: gibibyte / 2, diskBytes: 100 * gibibyte},
			downstream: 2,
			want:       "error: 3 clusters need about 2 GiB of memory, 1 GiB are free\n  (--force to try anyway)\n",
		},
		"Disk": {
			why:        "building takes more disk than running",
			machine:    machine{memoryBytes: 16 * gibibyte, diskBytes: 3 * gibibyte},
			downstream: 2,
			building:   true,
			want: "error: 3 clusters need about 5 GiB of disk in /cache/fleet-sandbox, 3 GiB are free\n" +
				"  XDG_CACHE_HOME can point to another disk        (--force to try anyway)\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkRoom(c.machine, place{Base: "/cache/fleet-sandbox"}, c.downstream, c.building)
			if diff := cmp.Diff(c.want, said(err)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// TestWhatFitsIsNotRefused: advice must work when it is followed.
func TestWhatFitsIsNotRefused(t *testing.T) {
	for memory := uint64(0); memory < 40*gibibyte; memory += gibibyte / 4 {
		m := machine{memoryBytes: memory, diskBytes: 1000 * gibibyte}
		n := fits(memory)
		if n == 0 {
			continue
		}
		if err := checkRoom(m, place{}, n, false); err != nil {
			t.Fatalf("%d should fit into %d MiB: %v", n, memory>>20, err)
		}
		if err := checkRoom(m, place{}, n+1, false); err == nil {
			t.Fatalf("%d is said to be the most for %d MiB, but more fit", n, memory>>20)
		}
	}
}

// takenAPIServer returns a block of ports of which the API server of c1's, which is
// returned too, is taken until the test ends. The ports before it are free.
func takenAPIServer(t *testing.T) (block fleet.Ports, port int) {
	t.Helper()
	for range 100 { // another process may have a port of the block
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { taken.Close() })
		port = taken.Addr().(*net.TCPAddr).Port
		block = fleet.Ports{First: port - 2, Clusters: 2}
		if err := checkPorts(block, []string{"c1", "c2"}, ""); err != nil && strings.Contains(err.Error(), fmt.Sprint(port)+" on") {
			return block, port
		}
	}
	t.Fatal("no block of free ports")
	return block, 0
}

func TestCheckPorts(t *testing.T) {
	ports, port := takenAPIServer(t)
	err := checkPorts(ports, []string{"c1", "c2"}, "a sandbox from 14:02 still runs here (pid 48213)")
	want := fmt.Sprintf("error: port %d on 127.0.0.1 is taken (API server of c1)\n"+
		"  a sandbox from 14:02 still runs here (pid 48213): fleet-sandbox status, or fleet-sandbox down\n"+
		"  or choose other ports: fleet-sandbox up --ports %d\n", port, otherPorts(ports))
	if diff := cmp.Diff(want, said(err)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseMemory(t *testing.T) {
	got, err := parseMemory("MemTotal:       24597484 kB\nMemAvailable:   11534336 kB\n")
	if err != nil || got != 11*gibibyte {
		t.Errorf("want 11 GiB, got %d, %v", got, err)
	}
	if _, err := parseMemory("MemTotal: 1 kB\n"); err == nil {
		t.Error("an unknown amount of memory must not count as none")
	}
}

func FuzzParseMemory(f *testing.F) {
	f.Add("MemAvailable:   11534336 kB\n")
	f.Add("MemAvailable: 99999999999999999999 kB")
	f.Fuzz(func(t *testing.T, text string) {
		bytes, err := parseMemory(text)
		if err != nil && bytes != 0 {
			t.Errorf("an error with %d bytes", bytes)
		}
		if bytes%1024 != 0 {
			t.Errorf("%d is no number of KiB", bytes)
		}
	})
}

// Ports that are suggested are none that outgoing connections take.
func TestOtherPorts(t *testing.T) {
	for _, c := range []struct{ first, clusters, want int }{
		{31000, 3, 32000}, {32000, 3, 20000}, {20000, 3, 21000}, {31000, 400, 20000}, {60000, 3, 20000},
	} {
		if got := otherPorts(fleet.Ports{First: c.first, Clusters: c.clusters}); got != c.want {
			t.Errorf("%d with %d clusters: want %d, got %d", c.first, c.clusters, c.want, got)
		}
	}
}
