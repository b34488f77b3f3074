package pods

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// processOf finds the process of a pod's one container: containerd sets the name of
// its pod as HOSTNAME.
func (w *world) processOf(p corev1.Pod, program string) string {
	w.Helper()
	found, err := filepath.Glob("/proc/[0-9]*")
	w.must(err)
	for _, dir := range found {
		path, err := os.Readlink(dir + "/exe")
		if err != nil || filepath.Base(path) != program {
			continue
		}
		env, err := os.ReadFile(dir + "/environ")
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), "HOSTNAME="+p.Name) {
			return dir
		}
	}
	w.Fatalf("no process %s of pod %s is found", program, p.Name)
	return ""
}

// listening lists the TCP ports that something in a pod's network listens on, and
// every UDP port that any address may send to, as the kernel lists them.
func (w *world) listening(process string) []string {
	w.Helper()
	var ports []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile(process + "/net/" + table)
		w.must(err)
		for _, line := range strings.Split(string(data), "\n")[1:] {
			fields := strings.Fields(line)
			if len(fields) < 4 {
				continue
			}
			const listen, unconnected = "0A", "07"
			if tcp := strings.HasPrefix(table, "tcp"); tcp && fields[3] == listen || !tcp && fields[3] == unconnected {
				ports = append(ports, fmt.Sprintf("%.3s %s", table, w.port(fields[1])))
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// port reads "00000000:1F90". An address that only the pod itself reaches is named.
func (w *world) port(address string) string {
	w.Helper()
	host, port, _ := strings.Cut(address, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	w.must(err)
	raw, err := hex.DecodeString(host)
	w.must(err)
	for i := 0; i+4 <= len(raw); i += 4 { // words in the byte order of the machine
		slices.Reverse(raw[i : i+4])
	}
	ip, _ := netip.AddrFromSlice(raw)
	if ip = ip.Unmap(); ip.IsUnspecified() {
		return text(n)
	}
	return fmt.Sprintf("%s:%d", ip, n)
}

// reaches reports whether something in a pod's network can open a connection.
func (w *world) reaches(process, host, port string) bool {
	w.Helper()
	err := exec.CommandContext(w.Context(), "nsenter", "--net="+process+"/ns/net", "timeout", "3",
		"bash", "-c", "exec 3<>/dev/tcp/"+host+"/"+port).Run()
	return err == nil
}

// memory is the memory of a process, in KiB.
type memory struct{ resident, anonymous int }

func (m memory) String() string {
	return fmt.Sprintf("%.1f MiB resident, %.1f MiB of it anonymous", float64(m.resident)/1024, float64(m.anonymous)/1024)
}

func (w *world) memory(process string) memory {
	w.Helper()
	data, err := os.ReadFile(process + "/status")
	w.must(err)
	var m memory
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "VmRSS:":
			m.resident = kib
		case "RssAnon:":
			m.anonymous = kib
		}
	}
	return m
}
