package kube

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is how to reach an API server with a bearer token.
type Access struct {
	URL       string
	CA        []byte // PEM; empty: the system's authorities
	Token     string
	Namespace string // of requests that name none
}

// REST is the access as a connection's configuration.
func (a Access) REST() *rest.Config {
	return &rest.Config{Host: a.URL, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}}
}

// Kubeconfig is the access as a kubeconfig file.
func (a Access) Kubeconfig() ([]byte, error) {
	const name = "default"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: a.URL, CertificateAuthorityData: a.CA}
	cfg.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: a.Token}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: a.Namespace}
	cfg.CurrentContext = name
	return clientcmd.Write(*cfg)
}

// ParseKubeconfig reads a kubeconfig that stands in a Secret. It must hold its
// credentials itself: one that runs a program or names a file is refused,
// because whoever writes the Secret would choose what is run or read here.
func ParseKubeconfig(data []byte) (*rest.Config, error) {
	cfg, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("parse kubeconfig: not a kubeconfig file") // the cause may quote the token
	}
	for name, user := range cfg.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" {
			return nil, fmt.Errorf("kubeconfig user %q: programs and files are not allowed, only embedded credentials", name)
		}
	}
	for name, c := range cfg.Clusters {
		if c.CertificateAuthority != "" {
			return nil, fmt.Errorf("kubeconfig cluster %q: files are not allowed, only embedded certificates", name)
		}
	}
	out, err := clientcmd.NewDefaultClientConfig(*cfg, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("parse kubeconfig: it names no usable cluster and user")
	}
	return out, nil
}
