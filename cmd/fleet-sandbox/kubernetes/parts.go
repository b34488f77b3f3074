package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	leasestages "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runAPIServer() int { return cli.Run(apiserver.NewAPIServerCommand()) }

func runControllerManager() int { return cli.Run(controllermanager.NewControllerManagerCommand()) }

func runScheduler() int { return cli.Run(scheduler.NewSchedulerCommand()) }

func runKubectl() int {
	dropSharedFlags()
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints and exits with kubectl's own code
	}
	return 0
}

// stages say how simulated nodes and pods behave: nodes become and stay
// Ready, pods run at once, Jobs complete and deleted pods go.
var stages = []string{
	nodestages.DefaultNodeInit,
	leasestages.DefaultNodeHeartbeatWithLease,
	podstages.DefaultPodReady,
	podstages.DefaultPodComplete,
	podstages.DefaultPodDelete,
}

// runKwok is kwok with the stages above instead of a configuration file.
// kwok reads its configuration from standard input, which is a pipe here.
func runKwok() int {
	dropSharedFlags()
	if err := feedStdin(strings.Join(stages, "\n---\n")); err != nil {
		return fail(err)
	}
	os.Args = append(os.Args, "--config", "-")

	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		return fail(err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// dropSharedFlags forgets the flags that the servers' packages have put into
// the set that every cobra command inherits; their --version is another one.
func dropSharedFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}

// feedStdin makes text the standard input of this process.
func feedStdin(text string) error {
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open pipe: %w", err)
	}
	os.Stdin = in
	go func() {
		_, _ = out.WriteString(text) // a reader that went away needs no text
		_ = out.Close()
	}()
	return nil
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "error:", err)
	return 1
}
