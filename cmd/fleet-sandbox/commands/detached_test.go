package commands

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
)

// TestDetached: the whole of up with the real programs. It returns when
// everything is Ready, keeps running, and obeys the other commands.
func TestDetached(t *testing.T) {
	kubernetes := cachedKubernetes(t)
	programs := realPrograms(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("LAUNCHER_TEST", "1")
	ports := fleet.Ports{First: freeBlock(t), Clusters: 1}
	at := fmt.Sprintf("--ports=%d", ports.First)
	p, err := findPlace(ports.First)
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	for name, text := range map[string]string{
		"fleet.yaml":    "defaultNamespace: hello\n",
		"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\n",
	} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := exec.Command("/proc/self/exe", "up", "--detach", "-o", "json", "--clusters=1", "--label=c1=ring=1", "--repo="+repo,
		"--kubernetes-bin="+kubernetes, "--fleet-bin="+programs, "--force", at)
	var stdout, stderr bytes.Buffer
	up.Stdout, up.Stderr = &stdout, &stderr // Run returns only when no process holds them any more
	if err := up.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	t.Cleanup(func() { _, _, _ = call(t, "down", at) })

	golden(t, "up", transcript(stderr.String(), ports.First, repo))

	var d document
	if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	c1 := d.Clusters[len(d.Clusters)-1]
	if d.State != "Ready" || c1.Name != "c1" || c1.Bundles != (bundleCount{1, 1}) || c1.Labels["ring"] != "1" || d.Processes != 15 {
		t.Errorf("unexpected document %s", stdout.String())
	}
	faults(t, at)
	if left := downAndLeft(t, p, ports, at); len(left) > 0 {
		t.Errorf("left by down: %v", left)
	}
}

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// golden compares text with testdata/TEST/name.golden.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", t.Name(), name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s, -want +got\n%s", path, diff)
	}
}

// transcript replaces in what up has said all that differs from machine to
// machine and from run to run, and drops the lines that only pass the time.
func transcript(text string, firstPort int, repo string) string {
	for i := range 20 {
		text = strings.ReplaceAll(text, fmt.Sprint(firstPort+i), fmt.Sprint(31000+i))
	}
	text = strings.ReplaceAll(text, repositoryName(repo), "hello")
	for _, r := range [][2]string{
		{`(?m)^ ?\d?\d:\d\d  (wait|build) .*\n`, ""},
		{`(?m)^ ?\d?\d:\d\d  `, " M:SS  "},
		{`go \S+, git .*`, "go VERSION, git VERSION, N GiB memory free, N GiB disk free"},
		{`Kubernetes \d+\.\d+`, "Kubernetes VERSION"},
		{`at [0-9a-f]{7}`, "at COMMIT"},
		{`\d+\.\ds after`, "N.Ns after"},
		{`lives  in \S+;`, "lives  in STATE;"},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}

// realPrograms builds Fleet's programs and returns their folder.
func realPrograms(t *testing.T) string {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	programs, err := builder.Fleet(t.Context())
	if err != nil {
		t.Fatal(said(err))
	}
	return programs
}

// faults breaks and mends what can be broken, and looks at what status says.
func faults(t *testing.T, at string) {
	t.Helper()
	for _, step := range []struct {
		args   []string
		says   string // on stdout
		faults string // of status then, without times
	}{
		{[]string{"cut", "c1"}, "c1 is off the net since ", "cut c1"},
		{[]string{"stop", "c1"}, "the agent of c1 is stopped since ", "cut c1, stop c1"},
		{[]string{"heal", "c1"}, "c1 is back on the net at ", "stop c1"},
		{[]string{"start", "c1"}, "the agent of c1 runs since ", ""},
		{[]string{"stop", "manager"}, "the manager is stopped since ", "stop manager"},
		{[]string{"start", "manager"}, "the manager runs since ", ""},
		{[]string{"kill", "manager"}, "the manager was killed at ", ""},
	} {
		if stdout, stderr, code := call(t, append(step.args, at)...); code != 0 || !strings.HasPrefix(stdout, step.says) {
			t.Errorf("%v: got %d: %s%s", step.args, code, stdout, stderr)
		}
		if got := currentFaults(t, at); got != step.faults {
			t.Errorf("after %v: want faults %q, got %q", step.args, step.faults, got)
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for statusOf(t, at).Processes != 15 { // the killed manager comes back by itself
		if time.Now().After(deadline) {
			t.Fatalf("want 15 processes again, got %d", statusOf(t, at).Processes)
		}
		time.Sleep(50 * time.Millisecond) // only status reports the end
	}
}

func statusOf(t *testing.T, at string) document {
	t.Helper()
	stdout, stderr, code := call(t, "status", "-o", "json", at)
	var d document
	if err := json.Unmarshal([]byte(stdout), &d); code != 0 || err != nil {
		t.Fatalf("status: %d, %v: %s%s", code, err, stdout, stderr)
	}
	return d
}

func currentFaults(t *testing.T, at string) string {
	t.Helper()
	var texts []string
	for _, text := range statusOf(t, at).Faults {
		what, _, _ := strings.Cut(text, " since ")
		texts = append(texts, what)
	}
	return strings.Join(texts, ", ")
}

func downAndLeft(t *testing.T, p place, ports fleet.Ports, at string) []string {
	t.Helper()
	stdout, stderr, code := call(t, "down", at)
	if code != 0 || !strings.HasPrefix(stdout, "stopped 15 processes, removed ") {
		t.Errorf("down: got %d: %s%s", code, stdout, stderr)
	}
	return (&launched{place: p, ports: ports}).left()
}
