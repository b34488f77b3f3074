// Package kubeconfig reads a kubeconfig from a Secret: the address of an API server, the
// authority to trust, and the credentials to use. A user who may write that Secret must not
// choose what the manager runs or reads, so a kubeconfig has to hold its credentials
// itself.
//
// The format is that of client-go (tools/clientcmd/api/v1): lists of named clusters, users
// and contexts, and the name of the current context. Only what this package reads is used
// to connect, so no other parser can find in the text what this one has not checked.
// clientcmd.Load is not that parser: decisions do not import client-go, and if a name
// stands twice in a list, its error holds the whole list with all tokens.
package kubeconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// MaxBytes is the longest kubeconfig that is read.
const MaxBytes = 512 << 10

// Reasons of the faults of this package.
const (
	// ReasonUnreadable: it is no kubeconfig, or an incomplete one.
	ReasonUnreadable = "KubeconfigUnreadable"
	// ReasonForbidden: it asks for a program to be run or for a file to be read.
	ReasonForbidden = "KubeconfigForbidden"
)

// An Access is the address of an API server and the credentials to use: the current context
// of a kubeconfig.
type Access struct {
	Server     string // http or https, with a host
	ServerName string // that the certificate must have; empty: the host
	CA         []byte // PEM; empty: the system's authorities
	Insecure   bool   // no certificate is checked
	Proxy      string // URL; empty: that of the process's environment

	Token              string
	Username, Password string
	Cert, Key          []byte // PEM
	As                 Impersonation
}

// An Impersonation is the identity that the user of an Access asks to be treated as.
type Impersonation struct {
	User, UID string
	Groups    []string
	Extra     map[string][]string
}

// file is the format of a kubeconfig. Fields that name a file or a program are
// read in order to be refused.
type file struct {
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type cluster struct {
	Server        string `json:"server"`
	ServerName    string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	Authority     string `json:"certificate-authority"`
	AuthorityData []byte `json:"certificate-authority-data"`
	Proxy         string `json:"proxy-url"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type user struct {
	Certificate     string              `json:"client-certificate"`
	CertificateData []byte              `json:"client-certificate-data"`
	Key             string              `json:"client-key"`
	KeyData         []byte              `json:"client-key-data"`
	Token           string              `json:"token"`
	TokenFile       string              `json:"tokenFile"`
	As              string              `json:"as"`
	AsUID           string              `json:"as-uid"`
	AsGroups        []string            `json:"as-groups"`
	AsExtra         map[string][]string `json:"as-user-extra"`
	Username        string              `json:"username"`
	Password        string              `json:"password"`
	AuthProvider    any                 `json:"auth-provider"`
	Exec            any                 `json:"exec"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// Parse reads a kubeconfig and returns the access of its current context.
//
// Every error is permanent, says what to do and quotes nothing but names and
// the address of the server. A program (exec, auth-provider) or a file
// (tokenFile, client-certificate, client-key, certificate-authority) is refused
// wherever it stands, also outside of the current context.
func Parse(data []byte) (Access, error) {
	if len(data) > MaxBytes {
		return Access{}, unreadable("it has more than %d bytes", MaxBytes)
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return Access{}, unreadable("it is empty")
	}
	var f file
	if yaml.Unmarshal(data, &f) != nil { // the cause may quote a token
		return Access{}, unreadable("it is not YAML or JSON of the form that kubectl config view --raw --flatten prints")
	}
	if err := f.refusePlugins(); err != nil {
		return Access{}, err
	}
	c, u, err := f.current()
	if err != nil {
		return Access{}, err
	}
	a := Access{
		Server: c.Server, ServerName: c.ServerName, CA: c.AuthorityData, Insecure: c.Insecure, Proxy: c.Proxy,
		Token: u.Token, Username: u.Username, Password: u.Password, Cert: u.CertificateData, Key: u.KeyData,
		As: Impersonation{User: u.As, UID: u.AsUID, Groups: u.AsGroups, Extra: u.AsExtra},
	}
	return a, a.validate()
}

// refusePlugins refuses programs and files.
func (f file) refusePlugins() error {
	for _, c := range f.Clusters {
		if c.Cluster.Authority != "" {
			return forbidden("cluster", c.Name, "certificate-authority", "a file", "certificate-authority-data")
		}
	}
	for _, u := range f.Users {
		for _, field := range []struct {
			set        bool
			name, what string
			instead    string
		}{
			{u.User.Exec != nil, "exec", "a program", "a token or a client certificate"},
			{u.User.AuthProvider != nil, "auth-provider", "a program", "a token or a client certificate"},
			{u.User.TokenFile != "", "tokenFile", "a file", "token"},
			{u.User.Certificate != "", "client-certificate", "a file", "client-certificate-data"},
			{u.User.Key != "", "client-key", "a file", "client-key-data"},
		} {
			if field.set {
				return forbidden("user", u.Name, field.name, field.what, field.instead)
			}
		}
	}
	return nil
}

// current finds the cluster and the user of the current context.
func (f file) current() (cluster, user, error) {
	var in *namedContext
	for i := range f.Contexts {
		if f.Contexts[i].Name != f.CurrentContext {
			continue
		}
		if in != nil {
			return cluster{}, user{}, unreadable("context %q stands in it twice", shortenName(f.CurrentContext))
		}
		in = &f.Contexts[i]
	}
	if in == nil {
		return cluster{}, user{}, unreadable("current-context is %q, and there is no context of that name", shortenName(f.CurrentContext))
	}
	var c []cluster
	for _, n := range f.Clusters {
		if n.Name == in.Context.Cluster {
			c = append(c, n.Cluster)
		}
	}
	var u []user
	for _, n := range f.Users {
		if n.Name == in.Context.User {
			u = append(u, n.User)
		}
	}
	switch {
	case len(c) != 1:
		return cluster{}, user{}, unreadable("context %q names cluster %q, which stands in it %d times", shortenName(in.Name), shortenName(in.Context.Cluster), len(c))
	case len(u) != 1:
		return cluster{}, user{}, unreadable("context %q names user %q, which stands in it %d times", shortenName(in.Name), shortenName(in.Context.User), len(u))
	}
	return c[0], u[0], nil
}

// validate reports what cannot work.
func (a Access) validate() error {
	if err := checkURL("server", a.Server, "https", "http"); err != nil {
		return err
	}
	if a.Proxy != "" {
		if err := checkURL("proxy-url", a.Proxy, "http", "https", "socks5"); err != nil {
			return err
		}
	}
	switch {
	case len(a.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(a.CA):
		return unreadable("certificate-authority-data holds no certificate in PEM")
	case a.Insecure && len(a.CA) > 0:
		return unreadable("it has both certificate-authority-data and insecure-skip-tls-verify: remove one")
	case (len(a.Cert) > 0) != (len(a.Key) > 0):
		return unreadable("of client-certificate-data and client-key-data it has only one")
	case a.Token == "" && a.Username == "" && len(a.Cert) == 0:
		return unreadable("its user has no credential: want token, or client-certificate-data and client-key-data")
	case strings.ContainsAny(a.Token, "\r\n"):
		return unreadable("its token has more than one line")
	}
	if len(a.Cert) > 0 {
		if _, err := tls.X509KeyPair(a.Cert, a.Key); err != nil {
			return unreadable("client-certificate-data and client-key-data are no PEM, or do not belong together")
		}
	}
	return nil
}

func checkURL(field, text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return unreadable("its %s is no URL with a host", field)
	}
	for _, s := range schemes {
		if u.Scheme == s {
			if field == "server" && u.User != nil {
				return unreadable("its server holds a user name: credentials belong to the user")
			}
			return nil
		}
	}
	return unreadable("its %s begins with none of %s://", field, strings.Join(schemes, "://, "))
}

func unreadable(format string, args ...any) error {
	return reconcile.TerminalError(ReasonUnreadable, fmt.Errorf("read kubeconfig: "+format, args...))
}

func forbidden(kind, name, field, what, instead string) error {
	return reconcile.TerminalError(ReasonForbidden, errors.New("read kubeconfig: "+kind+" "+
		fmt.Sprintf("%q", shortenName(name))+" names "+what+" ("+field+"), which is not allowed in a Secret: put "+instead+
		" there; kubectl config view --raw --flatten embeds files"))
}

// shortenName makes a name short enough for a message.
func shortenName(name string) string {
	const enough = 60
	if len(name) > enough {
		return name[:enough] + "..."
	}
	return name
}
