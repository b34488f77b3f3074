package lint

import (
	"context"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// AskServer reads the CRDs of the cluster of the kubeconfig, and its version where no
// flag says another one.
func (o *Options) AskServer(ctx context.Context, g *client.Globals, std printer.Stdio) error {
	if !o.server {
		return nil
	}
	a, err := g.Dial(std)
	if err != nil {
		return err
	}
	items, _, err := client.Listed(ctx, a.API, client.Query{Resource: client.Definitions})
	if err != nil {
		return client.DescribeServerError(a.Server, err)
	}
	for _, u := range items {
		o.served = append(o.served, u.Object)
	}
	if o.kubeVersion == "" && o.clusterFile == "" {
		o.kubeVersion = g.Probe(ctx, a).Version
	}
	std.Note("%s has %s%s", a.Server, printer.Plural(len(items), "CRD"), ofKubernetes(o.kubeVersion))
	return nil
}

// ofKubernetes is ", Kubernetes v1.36.3", or empty.
func ofKubernetes(version string) string {
	if version == "" {
		return ""
	}
	return ", Kubernetes " + version
}
