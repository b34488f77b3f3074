package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
)

// files are the paths of what a cluster's parts read and write.
type files struct {
	ca                string
	server            pairFiles
	signing           pairFiles
	kubeconfig        string
	controllerManager string
	scheduler         string
	kwok              string
	auditPolicy       string
	auditLog          string

	admin kubeconfig.Entry
}

type pairFiles struct{ cert, key string }

// auditPolicy logs every request once, when it is answered: who (user and
// program), what, to which object.
const auditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n"

// clients are the parts that need a credential, each with its user and group.
var clients = []struct {
	user, group string
	file        func(*files) *string
}{
	{"system:kube-controller-manager", "", func(f *files) *string { return &f.controllerManager }},
	{"system:kube-scheduler", "", func(f *files) *string { return &f.scheduler }},
	{"kwok", "system:masters", func(f *files) *string { return &f.kwok }},
	{AdminUser, "system:masters", func(f *files) *string { return &f.kubeconfig }},
}

// writeFiles makes the cluster's folder with keys, certificates, kubeconfigs
// and the audit policy. A folder that already holds a cluster is an error.
func writeFiles(cfg Config) (files, error) {
	f := files{
		kubeconfig:        filepath.Join(cfg.Dir, "kubeconfig"),
		controllerManager: filepath.Join(cfg.Dir, "kube-controller-manager.kubeconfig"),
		scheduler:         filepath.Join(cfg.Dir, "kube-scheduler.kubeconfig"),
		kwok:              filepath.Join(cfg.Dir, "kwok.kubeconfig"),
		auditPolicy:       filepath.Join(cfg.Dir, "audit-policy.yaml"),
		auditLog:          filepath.Join(cfg.Dir, "audit.log"),
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return f, err
	}
	if _, err := os.Stat(f.kubeconfig); !errors.Is(err, os.ErrNotExist) {
		return f, fmt.Errorf("folder %q holds a cluster already", cfg.Dir)
	}
	if err := os.WriteFile(f.auditPolicy, []byte(auditPolicy), 0o600); err != nil {
		return f, err
	}
	return f, f.writeKeys(cfg)
}

func (f *files) writeKeys(cfg Config) error {
	ca, err := pki.NewAuthority(cfg.Name + "-ca")
	if err != nil {
		return err
	}
	f.ca = filepath.Join(cfg.Dir, "ca.crt")
	if err := os.WriteFile(f.ca, ca.Cert, 0o600); err != nil {
		return err
	}
	server, err := ca.Server(
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}, cfg.addresses())
	if err != nil {
		return err
	}
	if f.server, err = writePair(cfg.Dir, "server", server); err != nil {
		return err
	}
	signing, err := pki.SigningKey()
	if err != nil {
		return err
	}
	if f.signing, err = writePair(cfg.Dir, "signing", signing); err != nil {
		return err
	}
	return f.writeKubeconfigs(cfg, ca)
}

func (f *files) writeKubeconfigs(cfg Config, ca *pki.Authority) error {
	for _, c := range clients {
		var groups []string
		if c.group != "" {
			groups = []string{c.group}
		}
		pair, err := ca.Client(c.user, groups...)
		if err != nil {
			return err
		}
		entry := kubeconfig.Entry{
			Name: cfg.Name, Server: cfg.url(), CA: ca.Cert,
			ClientCert: pair.Cert, ClientKey: pair.Key,
		}
		if err := kubeconfig.Write(*c.file(f), entry); err != nil {
			return err
		}
		if c.user == AdminUser {
			f.admin = entry
		}
	}
	return f.writeMachineFiles(cfg, ca)
}

func writePair(dir, name string, pair pki.Pair) (pairFiles, error) {
	p := pairFiles{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
	if err := os.WriteFile(p.cert, pair.Cert, 0o600); err != nil {
		return p, err
	}
	return p, os.WriteFile(p.key, pair.Key, 0o600)
}
