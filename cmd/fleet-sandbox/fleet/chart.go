package fleet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// A release is one chart to be installed as helm install would.
type release struct {
	chart     string // folder
	name      string
	namespace string // made if it is missing
	values    map[string]any
}

// install installs r without its Deployments: their processes run on this
// machine, with the service accounts that the chart makes for them.
func install(ctx context.Context, config *rest.Config, r release) error {
	var cfg action.Configuration
	if err := cfg.Init(getter{config, r.namespace}, r.namespace, "secret", func(string, ...any) {}); err != nil {
		return fmt.Errorf("install chart %s: %w", filepath.Base(r.chart), err)
	}
	loaded, err := load(r.chart)
	if err != nil {
		return err
	}
	install := action.NewInstall(&cfg)
	install.ReleaseName, install.Namespace, install.CreateNamespace = r.name, r.namespace, true
	install.DisableOpenAPIValidation = true // the API server validates
	install.PostRenderer = withoutDeployments{}
	if _, err := install.RunWithContext(ctx, loaded, r.values); err != nil {
		return fmt.Errorf("install chart %s: %w", filepath.Base(r.chart), err)
	}
	return nil
}

// load reads a chart from its folder. Its appVersion is the version of the programs
// that run here, which are built from the same clone as this one.
func load(folder string) (*chart.Chart, error) {
	out, err := loader.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", filepath.Base(folder), err)
	}
	out.Metadata.AppVersion = strings.TrimPrefix(version.Version, "v")
	return out, nil
}

// withoutDeployments is a post-renderer that drops Deployments.
type withoutDeployments struct{}

// Run returns the documents of in that are no Deployments.
func (withoutDeployments) Run(in *bytes.Buffer) (*bytes.Buffer, error) {
	out := &bytes.Buffer{}
	reader := yaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read rendered chart: %w", err)
		}
		var object struct {
			Kind string `json:"kind"`
		}
		if err := sigsyaml.Unmarshal(document, &object); err != nil {
			return nil, fmt.Errorf("read rendered chart: %w", err)
		}
		if object.Kind != "Deployment" {
			out.WriteString("---\n")
			out.Write(document)
		}
	}
}

// A getter gives Helm its clients. Unlike the usual one it reads no
// kubeconfig and keeps no cache in the user's home.
type getter struct {
	config    *rest.Config
	namespace string
}

// ToRESTConfig implements genericclioptions.RESTClientGetter, as all below.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns a client with a cache of its own.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(g.config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

// ToRESTMapper maps by what the API server serves.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

// ToRawKubeConfigLoader returns a config with the namespace; Helm needs nothing
// else of it.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
