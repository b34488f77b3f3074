// Command benchmarks prints the figures of docs/benchmarks.md, each beside what the
// same machine can do at best in the same run. It asserts nothing.
//
//	go run ./benchmarks sources          repositories: reading, charts, push to Ready
//	go run ./benchmarks fanout           one Bundle to thousands of clusters
//	go run ./benchmarks agent            one agent
//	go run ./benchmarks returning        agents after their manager was away
//	go run ./benchmarks join             agents that register at one moment
//	go run ./benchmarks rancher          the clusters of a large Rancher
//	go run ./benchmarks SUITE -h         the flags of a suite
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/benchmarks/agent"
	"github.com/fleetworkspace/fleet/benchmarks/fanout"
	"github.com/fleetworkspace/fleet/benchmarks/join"
	"github.com/fleetworkspace/fleet/benchmarks/rancher"
	"github.com/fleetworkspace/fleet/benchmarks/returning"
	"github.com/fleetworkspace/fleet/benchmarks/sources"
)

var suites = map[string]func(){
	"agent": agent.Main, "fanout": fanout.Main, "join": join.Main,
	"rancher": rancher.Main, "returning": returning.Main, "sources": sources.Main,
}

func main() {
	if sources.Child(os.Stdin, os.Stdout) {
		return // this process is one that a suite measures
	}
	if len(os.Args) < 2 || suites[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "benchmarks: name a suite:", strings.Join(slices.Sorted(maps.Keys(suites)), ", "))
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = append([]string{"benchmarks " + name}, os.Args[2:]...)
	suites[name]()
}
