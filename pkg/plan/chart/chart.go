// Package chart decides about charts that are not in the directory that names
// them: what a chart's source means, which version of it is taken, and whose
// credentials may be sent where.
package chart

import (
	"io/fs"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// A Request is something that has to be fetched before a bundle can be made: what options
// of Helm name, or one dependency of a chart.
type Request struct {
	Repo    string // URL of a Helm repository or OCI artifact; may be empty
	Chart   string // name of the chart in Repo, or a source by itself
	Version string // exact, or a range; empty is the newest stable one
	// Archive asks for the packaged chart as it is, as a dependency stands in
	// charts/; else for its files.
	Archive bool
}

// Dir returns the directory of a bundle that the files of the chart go to.
func (r Request) Dir() string { return naming.ChartDir(r.Chart, r.Repo, r.Version) }

// Fetched is the result of a Request.
type Fetched struct {
	Files   fs.FS  // the chart's files; nil for an archive
	Archive []byte // the packaged chart
	Name    string // of an archive: the chart's name
	Version string // that was taken; empty where sources have none
	// Digest names Files: with equal digests they are equal. Without one nothing
	// made of them is taken over by a later reading.
	Digest string
	// Err says why it cannot be had: reconcile.Terminal, or reconcile.RequeueAfter if it may
	// be had later. The text holds no credential.
	Err error
}

// Credentials are the secrets that may be sent to a host, and the TLS settings
// of the connection.
type Credentials struct {
	Username, Password string
	SSHPrivateKey      []byte // PEM
	KnownHosts         []byte
	CABundle           []byte // PEM, besides the system's
	InsecureSkipVerify bool   // accept any certificate
	BasicHTTP          bool   // talk to registries without TLS
}

// Access says which credentials go with which directory and URL.
type Access struct {
	Default Credentials
	// ByPath, if not nil, stands in for Default: keys are directories of the
	// repository or patterns of them.
	ByPath map[string]Credentials
	// URLs is the regular expression, anchored at its start, that a URL must
	// match for user name, password and key to be sent; empty: never.
	URLs string
}
