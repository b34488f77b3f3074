// Package kubeconfig writes kubeconfig files of its own. It never reads or
// changes the user's.
package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An Entry is one way into one cluster: with a token, or with a client
// certificate and its key.
type Entry struct {
	Name       string // of the cluster, the context and the user
	Server     string // URL of the API server
	CA         []byte // PEM
	Token      string
	ClientCert []byte // PEM
	ClientKey  []byte // PEM
}

// Bytes returns a kubeconfig with one context per entry; the first is the
// current one.
func Bytes(entries ...Entry) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	for i, e := range entries {
		config.Clusters[e.Name] = &clientcmdapi.Cluster{Server: e.Server, CertificateAuthorityData: e.CA}
		config.AuthInfos[e.Name] = &clientcmdapi.AuthInfo{
			Token:                 e.Token,
			ClientCertificateData: e.ClientCert,
			ClientKeyData:         e.ClientKey,
		}
		config.Contexts[e.Name] = &clientcmdapi.Context{Cluster: e.Name, AuthInfo: e.Name}
		if i == 0 {
			config.CurrentContext = e.Name
		}
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}

// Write puts Bytes into a file that only its owner may read; a file that is
// there is replaced in one step.
func Write(path string, entries ...Entry) error {
	data, err := Bytes(entries...)
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
