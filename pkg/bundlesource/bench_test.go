//go:build unix

package bundlesource_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
)

// BenchmarkCommit measures what the first reading of a repository of 1,000
// bundle directories of 3 files costs, and a reading after a commit that touches
// one of them, both with the fetch from a git server.
func BenchmarkCommit(b *testing.B) {
	const dirs = 1000
	repo := gittest.NewRepo(b)
	files := map[string]string{}
	for i := range dirs {
		dir := fmt.Sprintf("team-%02d/app-%03d/", i%20, i)
		files[dir+"fleet.yaml"] = fmt.Sprintf("defaultNamespace: app-%d\nlabels:\n  app: a%d\nhelm:\n  values:\n    replicas: %d\n", i, i, i%5)
		files[dir+"deployment.yaml"] = fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-%d\nspec:\n  replicas: 2\n  selector:\n    matchLabels: {app: a}\n  template:\n    metadata:\n      labels: {app: a}\n    spec:\n      containers:\n      - name: main\n        image: nginx:1.%d\n", i, i)
		files[dir+"config.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-%d\ndata:\n  key: value-%d\n", i, i)
	}
	commit := git.Commit(repo.Commit("first", files))
	server := gittest.ServeHTTP(b, filepath.Dir(repo.Dir))
	src, ref := git.Source{URL: server.URL + "/repo"}, git.Reference{Branch: "main"}

	read := func(remotes *git.Remotes, r *bundlesource.Reader, before *bundlesource.Memory, c git.Commit, sum *cost) *bundlesource.Memory {
		start := now(b)
		tree, err := remotes.Fetch(b.Context(), src, ref, c)
		if err != nil {
			b.Fatal(err)
		}
		defer tree.Close()
		set, m, err := r.Read(b.Context(), bundlesource.Input{Tree: tree, Options: bundle.Options{Repo: "repo", Labels: map[string]string{"fleet.cattle.io/commit": string(c)}}, Previous: before})
		end := now(b)
		if err != nil || len(set.Results) != dirs {
			b.Fatalf("want %d bundles, got %d, %v", dirs, len(set.Results), err)
		}
		for _, f := range set.Results {
			if f.Bundle == nil {
				b.Fatal(f.Findings)
			}
		}
		sum.wall += end.wall - start.wall
		sum.cpu += end.cpu - start.cpu
		return m
	}
	var first, again, none cost
	for n := 0; b.Loop(); n++ {
		remotes, err := git.New(git.Config{Addresses: address.WithLoopback(), Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		r, err := bundlesource.New(bundlesource.Config{Addresses: address.WithLoopback(), Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		m := read(remotes, r, nil, commit, &first)
		commit = git.Commit(repo.Commit("one file", map[string]string{"team-07/app-007/config.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata: {n: \"%d\"}\n", n)}))
		m = read(remotes, r, m, commit, &again)
		commit = git.Commit(repo.Commit("no file", nil))
		_ = read(remotes, r, m, commit, &none)
		_, _ = r.Close(), remotes.Close()
	}
	for name, c := range map[string]cost{"first": first, "commit": again, "empty-commit": none} {
		b.ReportMetric(float64(c.wall.Microseconds())/1000/float64(b.N), "ms/"+name)
		b.ReportMetric(float64(c.cpu.Microseconds())/1000/float64(b.N), "cpu-ms/"+name)
	}
	b.ReportMetric(100*float64(again.wall)/float64(first.wall), "%/commit")
	b.ReportMetric(100*float64(again.cpu)/float64(first.cpu), "cpu-%/commit")
}

// A cost is time of the wall clock, and of all processors in this process: the
// git server's programs are others.
type cost struct{ wall, cpu time.Duration }

func now(b *testing.B) cost {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return cost{wall: time.Since(began), cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}

var began = time.Now()
