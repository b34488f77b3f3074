package install

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/charts"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// ControllerOptions are the flags and the arguments of fleet install controller.
type ControllerOptions struct {
	AgentImage      string
	ControllerImage string
	CrdsOnly        bool
}

// Controller prints kinds and manager for a namespace.
func Controller(o ControllerOptions, system string, std printer.Stdio) error {
	values := map[string]any{}
	for _, f := range []struct{ flag, key, image string }{
		{"--controller-image", "image", o.ControllerImage}, {"--agent-image", "agentImage", o.AgentImage},
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
	if !o.CrdsOnly {
		rest, err := templated(std, charts.Manager, system, values)
		if err != nil {
			return err
		}
		objects = install.Complete(append(objects, rest...))
		about = []string{"Fleet " + version.Version + " in namespace " + system + ", printed by: fleet install controller"}
	}
	return PrintManifest(std, about, objects)
}

// templated are the objects of one of Fleet's charts, as a release of the
// chart's name would have them.
func templated(std printer.Stdio, chart, namespace string, values map[string]any) ([]*unstructured.Unstructured, error) {
	files, err := charts.Files(chart)
	if err != nil {
		return nil, err
	}
	t, err := helm.Template(files, release.ID{Namespace: namespace, Name: chart}, values, helm.RenderOptions{KubeVersion: sources.RecentKubernetes})
	if err != nil {
		return nil, err
	}
	for _, hook := range t.Hooks {
		std.Note("left out, because only Helm runs it: hook %s of chart %s", hook, chart)
	}
	return t.Objects, nil
}

// PrintManifest prints objects as YAML, below comments about them.
func PrintManifest(std printer.Stdio, about []string, objects []*unstructured.Unstructured) error {
	text, err := install.Text(about, objects)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(printer.DocumentWriter(std.Out), text)
	return err
}

// Loose is an object of the API without its type.
func Loose(o runtime.Object) (*unstructured.Unstructured, error) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(raw, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(raw, "status")
	return &unstructured.Unstructured{Object: raw}, nil
}

// ReachOptions are the flags that say where agents find the API server.
type ReachOptions struct {
	caFile    string
	noCA      bool
	serverURL string
}

// AddFlags adds the flags that say where agents find the API server.
func (o *ReachOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.caFile, "ca-file", "c", "", "`file` with the certificate authority that agents trust, in PEM; default: that of the kubeconfig")
	fs.BoolVar(&o.noCA, "no-ca", false, "agents trust what their system trusts")
	fs.StringVar(&o.serverURL, "server-url", "", "`URL` of the manager's API server for agents; default: that of the kubeconfig")
}

// upstream returns the manager's address and authorities for agents, from the flags and
// the kubeconfig.
func (o ReachOptions) upstream(a client.Access) (install.Upstream, error) {
	r := install.UpstreamFlags{URL: a.Server, ServerURL: o.serverURL, NoCA: o.noCA}
	var err error
	if o.caFile != "" {
		if r.CAFile, err = os.ReadFile(o.caFile); err != nil {
			return install.Upstream{}, fmt.Errorf("read --ca-file: %w", err)
		}
	}
	if a.Rest != nil {
		tls := a.Rest.TLSClientConfig
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
