package main

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/install"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	planinstall "github.com/fleetworkspace/fleet/pkg/plan/install"
)

const installText = `Prints what kubectl applies: the manager, an agent for a new cluster, or labels for an agent to ask for. The charts of this version are in this
program; nothing is downloaded.`

func newInstallCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "install", Short: "Print what to apply: manager, agent, labels", Long: installText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInstallControllerCommand(g, std), newInstallTokenCommand(g, std), newInstallConfigCommand(g, std))
	return cmd
}

const installControllerText = `Prints Fleet's kinds and its manager, for: fleet install controller | kubectl apply -f -

No connection is made. Where Fleet is to be configured further, or upgraded by Helm later, install the charts instead.`

func newInstallControllerCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var o install.ControllerOptions
	cmd := &cobra.Command{
		Use: "controller", Short: "Print the manager", Long: installControllerText, Args: cli.NoArguments,
		Example: "  fleet install controller | kubectl apply -f -\n  fleet install controller --crds-only | kubectl apply -f -",
		RunE:    func(*cobra.Command, []string) error { return install.Controller(o, g.System, std) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.ControllerImage, "controller-image", "", "`image` of the manager; default: that of this version")
	fs.StringVar(&o.ControllerImage, "manager-image", "", "the same as --controller-image")
	_ = fs.MarkHidden("manager-image")
	fs.StringVar(&o.AgentImage, "agent-image", "", "`image` of the agents that the manager installs; default: that of this version")
	fs.BoolVar(&o.CrdsOnly, "crds-only", false, "only Fleet's kinds")
	return cmd
}

const installConfigText = `Prints the labels that the agent of a cluster asks for when it registers, to be applied to that cluster before the agent is:

  fleet install agent-config --label env=prod | kubectl --context new apply -f -

The manager gives them to the Cluster when it is made, and never changes them after that. Labels of Fleet and Rancher are not given. No connection
is made.`

func newInstallConfigCommand(g *client.Globals, std printer.Stdio) *cobra.Command {
	var labels map[string]string
	cmd := &cobra.Command{
		Use: "agent-config", Short: "Print labels for an agent to ask for", Long: installConfigText, Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			cm, err := planinstall.LabelsConfig(g.System, labels)
			if err != nil {
				return err
			}
			u, err := install.Loose(cm)
			if err != nil {
				return err
			}
			return install.PrintManifest(std, nil, planinstall.Complete([]*unstructured.Unstructured{u}))
		},
	}
	cli.LabelFlag(cmd.Flags(), &labels, "labels to ask for, `k=v,...`")
	return cmd
}
