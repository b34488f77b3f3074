package client

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// kubeconfigParts are what a kubeconfig needs, for errors.
const kubeconfigParts = "a kubeconfig (kind Config) has clusters, users, contexts and current-context"

// brokenKubeconfig is an error for the files that are read, where they are there and
// cannot be what connects: it says what a file is, or which part is missing. It is nil
// where that is not known.
func (g *Globals) brokenKubeconfig(rules *clientcmd.ClientConfigLoadingRules) error {
	files := readableFiles(rules)
	for file, data := range files {
		if what := notKubeconfig(data); what != "" {
			return fmt.Errorf("no kubeconfig: %s %s; %s", file, what, kubeconfigParts)
		}
	}
	config, err := rules.Load()
	if err != nil || len(files) == 0 {
		return nil
	}
	return incompleteError(rules, config, g.Context)
}

// readableFiles are the files of a kubeconfig that can be read, by path.
func readableFiles(rules *clientcmd.ClientConfigLoadingRules) map[string][]byte {
	files := rules.Precedence
	if rules.ExplicitPath != "" {
		files = []string{rules.ExplicitPath}
	}
	out := map[string][]byte{}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			out[file] = data
		}
	}
	return out
}

// notKubeconfig is what a file is that is no kubeconfig; empty for one that may be one.
func notKubeconfig(data []byte) string {
	if len(bytes.TrimSpace(data)) == 0 {
		return "is empty"
	}
	if block, _ := pem.Decode(data); block != nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		return fmt.Sprintf("is a PEM file (%s)", block.Type)
	}
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return fmt.Sprintf("is no YAML, or was cut off (%v)", err)
	}
	fields, ok := doc.(map[string]any)
	if !ok {
		return "is a text without fields"
	}
	kind, _ := fields["kind"].(string)
	version, _ := fields["apiVersion"].(string)
	if kind != "" && kind != "Config" {
		return fmt.Sprintf("is a manifest (%s %s)", version, kind)
	}
	return ""
}

// incompleteError returns an error for a kubeconfig that lacks a part, or that names a
// missing one. context is that of --context.
func incompleteError(rules *clientcmd.ClientConfigLoadingRules, config *clientcmdapi.Config, context string) error {
	lack := missingPart(config, cmp.Or(context, config.CurrentContext))
	if lack == "" {
		return nil
	}
	return fmt.Errorf("kubeconfig %s: %s", strings.Join(slices.Sorted(maps.Keys(readableFiles(rules))), ", "), lack)
}

// missingPart is which part of a kubeconfig is missing, for the context of a name.
func missingPart(config *clientcmdapi.Config, name string) string {
	names := slices.Sorted(maps.Keys(config.Contexts))
	switch {
	case len(config.Clusters) == 0:
		return "names no cluster: clusters is missing; " + kubeconfigParts
	case len(names) == 0:
		return "contexts is missing: the file may be cut off; " + kubeconfigParts
	case name == "":
		return "current-context is missing; choose one with --context: " + view.List(names, MaxNames)
	}
	chosen := config.Contexts[name]
	if chosen == nil {
		return fmt.Sprintf("current-context %q is not in contexts; choose another with --context: %s", name, view.List(names, MaxNames))
	}
	switch cluster, user := config.Clusters[chosen.Cluster], config.AuthInfos[chosen.AuthInfo]; {
	case cluster == nil:
		return fmt.Sprintf("context %q names cluster %q, which is not in clusters", name, chosen.Cluster)
	case cluster.Server == "":
		return fmt.Sprintf("cluster %q has no server", chosen.Cluster)
	case user == nil && chosen.AuthInfo != "":
		return fmt.Sprintf("context %q names user %q, which is not in users: the file may be cut off", name, chosen.AuthInfo)
	}
	return ""
}

// kubeconfigError is the error for a kubeconfig that client-go cannot use.
func (g *Globals) kubeconfigError(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	if broken := g.brokenKubeconfig(rules); broken != nil {
		return broken
	}
	switch empty := clientcmd.IsEmptyConfig(err); {
	case empty && g.Kubeconfig != "":
		return fmt.Errorf("no kubeconfig: --kubeconfig %s names no cluster", g.Kubeconfig)
	case empty:
		return noKubeconfig(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	case errors.Is(err, os.ErrNotExist) && g.Kubeconfig != "":
		return fmt.Errorf("no kubeconfig: --kubeconfig %s is not there", g.Kubeconfig)
	}
	return fmt.Errorf("read kubeconfig: %w", err)
}
