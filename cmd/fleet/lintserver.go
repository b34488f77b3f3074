package main

import (
	"context"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// askServer reads the CRDs of the cluster of the kubeconfig, and its version where no
// flag says another one.
func (o *lintOptions) askServer(ctx context.Context, g *globals, std printer.Stdio) error {
	if !o.server {
		return nil
	}
	a, err := g.dial(std)
	if err != nil {
		return err
	}
	items, _, err := listed(ctx, a.api, query{resource: definitions})
	if err != nil {
		return reached(a.server, err)
	}
	for _, u := range items {
		o.served = append(o.served, u.Object)
	}
	if o.kubeVersion == "" && o.clusterFile == "" {
		o.kubeVersion = g.probe(ctx, a).Version
	}
	std.Note("%s has %s%s", a.server, printer.Plural(len(items), "CRD"), ofKubernetes(o.kubeVersion))
	return nil
}

// ofKubernetes is ", Kubernetes v1.36.3", or empty.
func ofKubernetes(version string) string {
	if version == "" {
		return ""
	}
	return ", Kubernetes " + version
}
