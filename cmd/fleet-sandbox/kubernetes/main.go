// Command kubernetes is a whole control plane in one executable: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl.
//
// The part is chosen by the name under which the executable is called (a link
// named kubectl is kubectl) or else by its first argument. All further
// arguments are the part's own.
//
// It is a Go module of its own, so that the main module does not depend on
// Kubernetes' server code.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// parts holds what this executable can be. Each part reads os.Args and does
// not return before it is finished; its result is the exit code.
var parts = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
}

func main() {
	run, args := choose(os.Args)
	if run == nil {
		fmt.Fprintf(os.Stderr, "usage: kubernetes PART ARGUMENTS...; parts: %s\n", strings.Join(names(), ", "))
		os.Exit(1)
	}
	os.Args = args
	os.Exit(run())
}

// choose returns the part that args ask for and the arguments it shall see,
// its own name first. It returns nil where args name no part.
func choose(args []string) (func() int, []string) {
	if run, ok := parts[filepath.Base(args[0])]; ok {
		return run, args
	}
	if len(args) > 1 {
		return parts[args[1]], args[1:]
	}
	return nil, args
}

func names() []string {
	var list []string
	for name := range parts {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
