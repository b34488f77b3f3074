package sources

import (
	"context"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// TestMain lets the test's program take orders, as the bench's does.
func TestMain(m *testing.M) {
	if Child(os.Stdin, os.Stdout) {
		return
	}
	os.Exit(m.Run())
}

func TestPolls(t *testing.T) {
	cases := map[string]struct {
		why     string
		window  time.Duration
		every   time.Duration
		remotes int
		want    string
	}{
		"Good":   {"twenty remotes, each asked every 15s and up to a tenth later", 10 * time.Minute, interval, 20, "727 to 800"},
		"Broken": {"two remotes once a minute", 10 * time.Minute, slowest, 2, "18 to 20"},
		"None":   {"there are no requests", time.Hour, interval, 0, "0 to 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := polls(c.window, c.every, c.remotes).String(); got != c.want {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
		})
	}
}

// Each kind of remote does what its name says, and what it was asked is
// counted.
func TestHosts(t *testing.T) {
	server, err := gitserver.Start(gitserver.Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(server.Close)
	h, err := openHost(server)
	must(t, err)
	t.Cleanup(h.close)
	closed, err := closePort()
	must(t, err)
	t.Cleanup(closed.close)
	within := func(timeout time.Duration) *git.Remotes {
		remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Timeout: timeout})
		must(t, err)
		t.Cleanup(func() { _ = remotes.Close() })
		return remotes
	}
	patient, hurried := within(2*time.Minute), within(2*time.Second)
	cases := map[kind]struct {
		why       string
		permanent bool
		wait      bool
		want      asked
	}{
		good:    {why: "one list of references to resolve, and the commit to fetch", want: asked{lists: 1, fetches: 1}},
		refused: {why: "no server is there to count", wait: true},
		denied:  {why: "asked once", permanent: true, want: asked{lists: 1}},
		failing: {why: "asked once", wait: true, want: asked{lists: 1}},
		silent:  {why: "asked once", wait: true, want: asked{lists: 1}},
		endless: {why: "asked until it is too much", permanent: true, want: asked{lists: 1}},
	}
	for k, c := range cases {
		t.Run(string(k), func(t *testing.T) {
			r := &remote{name: strings.ReplaceAll(string(k), " ", "-"), kind: k, tree: t.TempDir(), head: map[string]string{}}
			r.url = h.add(r.name, k)
			switch k {
			case good:
				must(t, r.begin(server))
			case refused:
				r.url = closed.url(r.name)
			}
			remotes := patient
			if k == silent {
				remotes = hurried
			}
			commit, err := remotes.Resolve(t.Context(), git.Source{URL: r.url}, git.Reference{Branch: gitserver.Branch})
			if reconcile.IsTerminal(err) != c.permanent || reconcile.IsRequeue(err) != c.wait {
				t.Errorf("%s: %v", c.why, err)
			}
			if k == good {
				if string(commit) != r.head[gitserver.Branch] {
					t.Errorf("resolved %q, not %q", commit, r.head[gitserver.Branch])
				}
				tree, err := remotes.Fetch(t.Context(), git.Source{URL: r.url}, git.Reference{Branch: gitserver.Branch}, commit)
				must(t, err)
				tree.Close()
			}
			if diff := cmp.Diff(c.want, h.counts()[r.name], cmp.AllowUnexported(asked{})); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// The remotes of the sources part are 30, ten of them broken, and every group
// of the table has the branches that its GitRepos follow.
func TestNetwork(t *testing.T) {
	e := &env{dir: t.TempDir()}
	n, err := e.openRemotes()
	must(t, err)
	t.Cleanup(n.close)
	for _, r := range n.list {
		r.follow(perRemote)
	}
	got := map[string][3]int{}
	for _, g := range n.groups() {
		sum := [3]int{len(g)}
		for _, r := range g {
			sum[1], sum[2] = sum[1]+len(r.repos), sum[2]+r.branches()
		}
		got[g[0].group()] = sum
	}
	want := map[string][3]int{"good, on a host of their own": {10, 100, 20}, "good, on a host with broken ones": {10, 100, 20}}
	for _, k := range brokenKinds() {
		want[string(k)] = [3]int{2, 20, 2}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("remotes, GitRepos, branches\n-want +got\n%s", diff)
	}
	if got := len(n.broken()); got != 10 {
		t.Errorf("want 10 broken remotes, got %d", got)
	}
}

// What the parts without a fleet do, at a small size: so the bench does not
// rot between two runs of it.
func TestReading(t *testing.T) {
	server, err := gitserver.Start(gitserver.Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(server.Close)
	o := &readOrder{URL: server.URL("reading"), Tree: t.TempDir(), Cache: t.TempDir(), Dirs: 5, Runs: 2}
	must(t, o.prepare(server, "reading"))
	var r readReport

	u, err := child(t.Context(), order{Read: o}, &r)

	must(t, err)
	got := []int{len(r.First), len(r.Same), len(r.One), len(r.None), r.Bundles}
	if diff := cmp.Diff([]int{1, 2, 2, 2, 5}, got); diff != "" {
		t.Errorf("reads of each sort and bundles\n-want +got\n%s", diff)
	}
	if r.First[0].Read.Wall <= 0 || r.First[0].Fetch.CPU <= 0 || r.Raw.Wall <= 0 || u.Peak <= u.Anonymous || u.Anonymous <= 0 || u.CPU <= 0 {
		t.Errorf("nothing was measured: %+v %+v", r, u)
	}
}

func TestChart(t *testing.T) {
	for name, noise := range map[string]int{"Text": 0, "Half": 50} {
		t.Run(name, func(t *testing.T) {
			repo, size, err := openChartRepository(t.TempDir(), 2<<20, noise)
			must(t, err)
			t.Cleanup(repo.close)
			if random := size > 1<<20; random != (noise > 0) {
				t.Errorf("2 MiB with %d %% of random bytes are packed into %d bytes", noise, size)
			}
			for _, raw := range []bool{true, false} {
				var r chartReport
				_, err := child(t.Context(), order{Chart: &chartOrder{Repo: repo.url, Raw: raw, Cache: t.TempDir()}}, &r)
				must(t, err)
				if r.Files < 6 { // four of half a MiB and two small ones
					t.Errorf("raw %t: %d files", raw, r.Files)
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	parse := func(args ...string) (options, error) {
		var o options
		fs := flag.NewFlagSet("bench", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		o.addFlags(fs)
		err := fs.Parse(args)
		return o, err
	}
	o, err := parse("-only", "reading,big", "-big-sizes", "1,2")
	must(t, err)
	if diff := cmp.Diff([]any{[]string{"reading", "big"}, []int{1, 2}, 10 * time.Minute}, []any{o.only, o.bigMiB, o.sourcesTime}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, bad := range [][]string{{"-only", "nothing"}, {"-big-sizes", "1,x"}} {
		if _, err := parse(bad...); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// A child without an order fails, and its error reaches the parent.
func TestChildFails(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := child(ctx, order{}, new(readReport)); err == nil {
		t.Error("no error")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func Example() {
	measure.Title("A table")
	measure.Row("what", "figure")
	measure.Row("---", "---:")
	measure.Row("a part", measure.Share(1, 8))
	measure.Row("memory", measure.MiB(1536))
	// Output:
	// ## A table
	//
	// | what | figure |
	// | --- | ---: |
	// | a part | 12.5 % |
	// | memory | 1.5 MiB |
}
