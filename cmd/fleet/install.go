package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/charts"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

const installText = `Prints what kubectl applies: the manager, an agent for a new cluster, or labels for an agent to ask for. The charts of this version are in this
program; nothing is downloaded.`

func newInstallCommand(g *globals, std printer.Stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "install", Short: "Print what to apply: manager, agent, labels", Long: installText,
		Args: knownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInstallControllerCommand(g, std), newInstallTokenCommand(g, std), newInstallConfigCommand(g, std))
	return cmd
}

const installControllerText = `Prints Fleet's kinds and its manager, for: fleet install controller | kubectl apply -f -

No connection is made. Where Fleet is to be configured further, or upgraded by Helm later, install the charts instead.`

type controllerOptions struct {
	agentImage      string
	controllerImage string
	crdsOnly        bool
}

func newInstallControllerCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o controllerOptions
	cmd := &cobra.Command{
		Use: "controller", Short: "Print the manager", Long: installControllerText, Args: noArguments,
		Example: "  fleet install controller | kubectl apply -f -\n  fleet install controller --crds-only | kubectl apply -f -",
		RunE:    func(*cobra.Command, []string) error { return runInstallController(o, g.system, std) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.controllerImage, "controller-image", "", "`image` of the manager; default: that of this version")
	fs.StringVar(&o.controllerImage, "manager-image", "", "the same as --controller-image")
	_ = fs.MarkHidden("manager-image")
	fs.StringVar(&o.agentImage, "agent-image", "", "`image` of the agents that the manager installs; default: that of this version")
	fs.BoolVar(&o.crdsOnly, "crds-only", false, "only Fleet's kinds")
	return cmd
}

// runInstallController prints kinds and manager for a namespace.
func runInstallController(o controllerOptions, system string, std printer.Stdio) error {
	values := map[string]any{}
	for _, f := range []struct{ flag, key, image string }{
		{"--controller-image", "image", o.controllerImage}, {"--agent-image", "agentImage", o.agentImage},
	} {
		if f.image == "" {
			continue
		}
		v, err := install.ImageValues(f.image)
		if err != nil {
			return fmt.Errorf("%s: %w", f.flag, err)
		}
		values[f.key] = v
	}
	objects, err := templated(std, charts.CRDs, system, nil)
	if err != nil {
		return err
	}
	about := []string{"Kinds of Fleet " + version.Version + ", printed by: fleet install controller --crds-only"}
	if !o.crdsOnly {
		rest, err := templated(std, charts.Manager, system, values)
		if err != nil {
			return err
		}
		objects = install.Complete(append(objects, rest...))
		about = []string{"Fleet " + version.Version + " in namespace " + system + ", printed by: fleet install controller"}
	}
	return printManifest(std, about, objects)
}

// templated are the objects of one of Fleet's charts, as a release of the
// chart's name would have them.
func templated(std printer.Stdio, chart, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	files, err := charts.Files(chart)
	if err != nil {
		return nil, err
	}
	t, err := helm.Template(files, release.ID{Namespace: namespace, Name: chart}, values, helm.RenderOptions{KubeVersion: recentKubernetes})
	if err != nil {
		return nil, err
	}
	for _, hook := range t.Hooks {
		std.Note("left out, because only Helm runs it: hook %s of chart %s", hook, chart)
	}
	return t.Objects, nil
}

func printManifest(std printer.Stdio, about []string, objects []*unstructured.Unstructured) error {
	text, err := install.Text(about, objects)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(printer.Exact(std.Out), text)
	return err
}

// loose is an object of the API without its type.
func loose(o runtime.Object) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(raw, "status")
	return &unstructured.Unstructured{Object: raw}, nil
}

const installConfigText = `Prints the labels that the agent of a cluster asks for when it registers, to be applied to that cluster before the agent is:

  fleet install agent-config --label env=prod | kubectl --context new apply -f -

The manager gives them to the Cluster when it is made, and never changes them after that. Labels of Fleet and Rancher are not given. No connection
is made.`

func newInstallConfigCommand(g *globals, std printer.Stdio) *cobra.Command {
	var labels map[string]string
	cmd := &cobra.Command{
		Use: "agent-config", Short: "Print labels for an agent to ask for", Long: installConfigText, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			cm, err := install.LabelsConfig(g.system, labels)
			if err != nil {
				return err
			}
			u, err := loose(cm)
			if err != nil {
				return err
			}
			return printManifest(std, nil, install.Complete([]*unstructured.Unstructured{u}))
		},
	}
	labelFlag(cmd.Flags(), &labels, "labels to ask for, `k=v,...`")
	return cmd
}

// labelFlag is --label. Its hidden names are --labels and -l, which is a selector
// in all other commands.
func labelFlag(fs *pflag.FlagSet, into *map[string]string, usage string) {
	labelsVar(fs, into, "label", "", usage)
	hiddenFlag(fs, "label", "labels", "l")
}

// hiddenFlag gives a flag another name, and letter, that it had before: help does
// not list it.
func hiddenFlag(fs *pflag.FlagSet, name, old, letter string) {
	f := fs.Lookup(name)
	alias := fs.VarPF(f.Value, old, letter, "deprecated: the same as --"+name)
	alias.NoOptDefVal, alias.Hidden = f.NoOptDefVal, true
}

// reachOptions are the flags that say where agents find the API server.
type reachOptions struct {
	caFile    string
	noCA      bool
	serverURL string
}

func (o *reachOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.caFile, "ca-file", "c", "", "`file` with the certificate authority that agents trust, in PEM; default: that of the kubeconfig")
	fs.BoolVar(&o.noCA, "no-ca", false, "agents trust what their system trusts")
	fs.StringVar(&o.serverURL, "server-url", "", "`URL` of the manager's API server for agents; default: that of the kubeconfig")
}

// upstream returns the manager's address and authorities for agents, from the flags and
// the kubeconfig.
func (o reachOptions) upstream(a access) (install.Upstream, error) {
	r := install.Reach{URL: a.server, ServerURL: o.serverURL, NoCA: o.noCA}
	var err error
	if o.caFile != "" {
		if r.CAFile, err = os.ReadFile(o.caFile); err != nil {
			return install.Upstream{}, fmt.Errorf("read --ca-file: %w", err)
		}
	}
	if a.rest != nil {
		tls := a.rest.TLSClientConfig
		r.CA, r.Insecure = tls.CAData, tls.Insecure
		if len(r.CA) == 0 && tls.CAFile != "" {
			if r.CA, err = os.ReadFile(tls.CAFile); err != nil {
				return install.Upstream{}, fmt.Errorf("read the certificate authority of the kubeconfig: %w", err)
			}
		}
	}
	return r.Upstream()
}

// agentObjects are all objects of an agent: the namespace, its token and itself;
// or with tokenOnly its bootstrap Secret alone.
func agentObjects(std printer.Stdio, a install.Agent, tokenOnly bool) ([]*unstructured.Unstructured, error) {
	values, err := a.Values()
	if err != nil {
		return nil, err
	}
	objects, err := templated(std, charts.Agent, a.Namespace, values)
	if err != nil {
		return nil, err
	}
	if !tokenOnly {
		return install.Complete(objects), nil
	}
	for _, o := range objects {
		if o.GetKind() == "Secret" && o.GetName() == fleet.SecretAgentBootstrap {
			return []*unstructured.Unstructured{o}, nil
		}
	}
	return nil, fmt.Errorf("the chart %s has no Secret %s", charts.Agent, fleet.SecretAgentBootstrap)
}
