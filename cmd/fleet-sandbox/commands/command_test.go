package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// call runs the command line as main does, in a cache folder of its own.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newCommand(stdio{strings.NewReader(""), &out, &errs})
	cmd.SetArgs(args)
	code = report(&errs, cmd.ExecuteContext(t.Context()))
	return out.String(), errs.String(), code
}

// TestNothingRuns: every verb says so, and only those that need a sandbox fail.
func TestNothingRuns(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const none = "error: no sandbox is running: fleet-sandbox up starts one\n"
	cases := map[string]struct {
		args           []string
		stdout, stderr string
		code           int
	}{
		"Down":       {[]string{"down"}, "nothing is running\n", "", 0},
		"Status":     {[]string{"status"}, "nothing is running\n", "", 0},
		"StatusJSON": {[]string{"status", "-o", "json"}, "", none, 1},
		"Env":        {[]string{"env"}, "", none, 1},
		"Kubeconfig": {[]string{"kubeconfig", "c1"}, "", none, 1},
		"Kubectl":    {[]string{"kubectl", "c1", "get", "pods"}, "", none, 1},
		"Cut":        {[]string{"cut", "c2"}, "", none, 1},
		"Kill":       {[]string{"kill", "manager"}, "", none, 1},
		"Logs":       {[]string{"logs", "c1"}, "", "error: there are no logs: no sandbox has run yet\n", 1},
		"Ports":      {[]string{"status", "--ports", "80"}, "", "error: --ports 80: want 1024 to 65000\n", 1},
		"KubectlUse": {[]string{"kubectl", "--help"}, "", "error: usage: fleet-sandbox kubectl NAME ARGUMENTS..., as in: fleet-sandbox kubectl c1 get pods -A\n", 1},
		"UpManaged":  {[]string{"up", "--managed", "--clusters", "1"}, "", "error: --managed says which clusters there are: leave --clusters out\n", 1},
		"UpLabel":    {[]string{"up", "--label", "c9=a=b"}, "", "error: --label \"c9=a=b\": there is no cluster \"c9\"; there are c1, c2\n", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := call(t, c.args...)
			got := []any{stdout, stderr, code}
			if diff := cmp.Diff([]any{c.stdout, c.stderr, c.code}, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// running makes a sandbox that looks as if this process ran it.
func running(t *testing.T) place {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := findPlace(fleet.DefaultFirstPort)
	if err != nil {
		t.Fatal(err)
	}
	release, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	if err := os.MkdirAll(p.Run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.write(record{
		PID: os.Getpid(), Since: time.Now(), Address: "http://127.0.0.1:1", Token: "x",
		Repository: p.repository(), Kubernetes: "/nowhere/kubernetes", Clusters: []string{"local", "c1", "c2"},
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEnv(t *testing.T) {
	p := running(t)
	stdout, stderr, code := call(t, "env")
	want := "export PATH='" + p.Run + "/bin':\"$PATH\"\n" +
		"export KUBECONFIG='" + p.Run + "/kubeconfig'\n" +
		"export SANDBOX_REPO='" + p.Run + "/repo'\n"
	if stdout != want || stderr != "" || code != 0 {
		t.Errorf("want\n%s\ngot %d\n%s%s", want, code, stdout, stderr)
	}
}

func TestKubeconfig(t *testing.T) {
	p := running(t)
	if stdout, _, code := call(t, "kubeconfig", "c2"); code != 0 || stdout != p.Run+"/c2/kubeconfig\n" {
		t.Errorf("got %d, %q", code, stdout)
	}
	_, stderr, code := call(t, "kubeconfig", "c3")
	if want := "error: no cluster \"c3\": there is local, c1 and c2\n"; code != 1 || stderr != want {
		t.Errorf("want %q, got %d, %q", want, code, stderr)
	}
}

// TestOnlyOneRuns: a second up in the same place is refused.
func TestOnlyOneRuns(t *testing.T) {
	p := running(t)
	todo := plan{place: p, ports: fleet.Ports{Clusters: 2}} // no ports that could be taken
	err := todo.run(t.Context(), stdio{nil, &bytes.Buffer{}, &bytes.Buffer{}})
	text := said(err)
	if !strings.Contains(text, "still runs here (pid ") || !strings.Contains(text, "fleet-sandbox down") {
		t.Errorf("want a refusal that says what to do, got %q", text)
	}
	if _, err := os.Stat(p.recordFile()); err != nil {
		t.Errorf("the running sandbox lost its record: %v", err)
	}
}

// TestKubectlEnvironment: kubectl sees the sandbox and nothing of the user's.
func TestKubectlEnvironment(t *testing.T) {
	got := kubectlEnvironment([]string{"HOME=/home/ana", "KUBECONFIG=/home/ana/.kube/config", "KUBERC=x"}, place{Run: "/run"}, "c1")
	want := []string{"HOME=/home/ana", "KUBECONFIG=/run/c1/kubeconfig", "KUBECACHEDIR=/run/kubectl-cache", "KUBERC=off"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestLogs(t *testing.T) {
	p := running(t)
	for _, name := range []string{"local/fleet-controller", "local/gitjob", "c1/etcd", "c1/fleet-agent"} {
		path := filepath.Join(p.Log, name+".log")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("this is "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct{ arg, stdout, stderr string }{
		"Agent":   {"c1", "this is c1/fleet-agent\n", ""},
		"Manager": {"local", "this is local/fleet-controller\n", ""},
		"Part":    {"local/gitjob", "this is local/gitjob\n", ""},
		"NoPart":  {"c1/kubelet", "", "error: no log of c1/kubelet: there is etcd and fleet-agent\n"},
		"NoName":  {"c3", "", "error: no logs of \"c3\": there is c1 and local\n"},
		"Escape":  {"../bin", "", "error: no logs of \"..\": there is c1 and local\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, _ := call(t, "logs", c.arg)
			if diff := cmp.Diff([]string{c.stdout, c.stderr}, []string{stdout, stderr}); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestLeftovers: what a launcher left that was killed with its janitor is
// removed by down.
func TestLeftovers(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p, err := findPlace(fleet.DefaultFirstPort)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.Run, p.Log} {
		if err := os.MkdirAll(filepath.Join(dir, "c1"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _, code := call(t, "down")
	if code != 0 || !strings.HasPrefix(stdout, "nothing is running; removed ") {
		t.Errorf("got %d, %q", code, stdout)
	}
	for _, dir := range []string{p.Run, p.Log} {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
}

// TestJanitor: it cleans up after a death, and not after a word.
func TestJanitor(t *testing.T) {
	for word, cleans := range map[string]bool{"": true, "done\n": false} {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		p, err := findPlace(fleet.DefaultFirstPort)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(p.Run, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := runJanitor(p, 0, stdio{in: strings.NewReader(word)}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(p.Run); (err != nil) != cleans {
			t.Errorf("word %q: cleaned %v, want %v", word, err != nil, cleans)
		}
	}
}

// TestDocument: scripts rely on these fields.
func TestDocument(t *testing.T) {
	s := &session{
		plan: plan{place: place{Base: "/cache", Run: "/cache/run"}, ports: fleet.Ports{First: 31000, Clusters: 1}},
		known: facts{
			repo: origin{url: "http://127.0.0.1:31009/examples.git", dir: "/cache/run/repo", branch: "main", commit: "3f9c2e1"},
			took: seconds{Build: 242.04, Start: 8.07, FirstReady: 16.449},
		},
	}
	s.state.Store("Ready")
	d := s.document(fleet.Snapshot{Clusters: []fleet.Row{{
		Workspace: "fleet-default", Name: "c1", State: "Ready", Ready: 2, Desired: 2,
		Labels: map[string]string{"env": "dev", "fleet.cattle.io/bucket": "1f"},
	}}})
	d.PID, d.Version = 48213, "v0.1.0"
	got, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"cli.fleet.cattle.io/v1","kind":"Sandbox","state":"Ready","version":"v0.1.0","stateDir":"/cache","pid":48213,` +
		`"seconds":{"build":242,"start":8.1,"firstReady":16.4},` +
		`"repository":{"url":"http://127.0.0.1:31009/examples.git","dir":"/cache/run/repo","branch":"main","commit":"3f9c2e1"},` +
		`"clusters":[{"workspace":"fleet-default","name":"c1","state":"Ready","labels":{"env":"dev"},"bundles":{"ready":2,"desired":2},` +
		`"kubeconfig":"/cache/run/c1/kubeconfig"}],"processes":0}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
