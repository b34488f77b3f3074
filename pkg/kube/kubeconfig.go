package kube

import (
	"errors"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
)

// Access is how to reach an API server with a bearer token.
type Access struct {
	URL       string
	CA        []byte // PEM; empty: the system's authorities
	Token     string
	Namespace string // of requests that name none
}

// REST returns the access as a connection's configuration.
func (a Access) REST() *rest.Config {
	return &rest.Config{Host: a.URL, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}}
}

// Kubeconfig returns the access as a kubeconfig file.
func (a Access) Kubeconfig() ([]byte, error) {
	const name = "default"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: a.CA}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: a.Token}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: a.Namespace}
	cfg.CurrentContext = name
	return clientcmd.Write(*cfg)
}

// ParseKubeconfig reads a kubeconfig from a Secret, by the rules of package kubeconfig:
// it must hold its credentials itself.
func ParseKubeconfig(data []byte) (*rest.Config, error) {
	a, err := kubeconfig.Parse(data)
	if err != nil {
		return nil, err
	}
	return RESTOf(a)
}

// RESTOf returns the access of a kubeconfig as a connection's configuration.
func RESTOf(a kubeconfig.Access) (*rest.Config, error) {
	cfg := &rest.Config{
		Host: a.Server, BearerToken: a.Token, Username: a.Username, Password: a.Password,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: a.ServerName, Insecure: a.Insecure, CAData: a.CA, CertData: a.Cert, KeyData: a.Key,
		},
		Impersonate: rest.ImpersonationConfig{UserName: a.As.User, UID: a.As.UID, Groups: a.As.Groups, Extra: a.As.Extra},
	}
	if a.Proxy != "" {
		proxy, err := url.Parse(a.Proxy)
		if err != nil {
			return nil, errors.New("read kubeconfig: its proxy-url is no URL")
		}
		cfg.Proxy = http.ProxyURL(proxy)
	}
	return cfg, nil
}
