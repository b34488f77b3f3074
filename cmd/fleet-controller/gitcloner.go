package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// Environment of gitcloner, with texts and not paths, as rancher/fleet sets it.
const (
	envKnownHosts    = "FLEET_KNOWN_HOSTS" // lines of a known_hosts file
	envProxyCABundle = "PROXY_CA_BUNDLE"   // PEM certificates that are trusted besides those of --ca-bundle-file
)

// maxCredentialBytes bounds each file with a credential.
const maxCredentialBytes = 1 << 20

// cloneOptions are the flags of gitcloner. Their names are those of rancher/fleet.
type cloneOptions struct {
	branch, revision                              string
	caBundleFile, passwordFile, sshPrivateKeyFile string
	username                                      string
	insecureSkipTLS                               bool
	appID, appInstallation                        int64
	appKeyFile                                    string
}

func newGitClonerCommand(getenv func(string) string) *cobra.Command {
	o := &cloneOptions{}
	cmd := &cobra.Command{
		Use:   "gitcloner REPO PATH",
		Short: "Write the files of one commit of a git repository to a directory",
		Long: "Writes the files of one commit, with submodules and without history, to PATH, which must be empty or missing.\n" +
			"The environment " + envKnownHosts + " holds lines of a known_hosts file, " + envProxyCABundle + " further authorities as PEM.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), getenv, args[0], args[1])
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.branch, "branch", "b", "", "branch to read; it wins over --revision (default master)")
	f.StringVar(&o.revision, "revision", "", "commit, tag or branch to read")
	f.StringVar(&o.caBundleFile, "ca-bundle-file", "", "`file` with PEM certificates that are trusted besides the system's")
	f.StringVarP(&o.username, "username", "u", "", "user name for HTTPS")
	f.StringVar(&o.passwordFile, "password-file", "", "`file` with the password for HTTPS; without user name it is a token")
	f.StringVar(&o.sshPrivateKeyFile, "ssh-private-key-file", "", "`file` with the private key for SSH")
	f.BoolVar(&o.insecureSkipTLS, "insecure-skip-tls", false, "accept any certificate")
	f.Int64Var(&o.appID, "github-app-id", 0, "id of a GitHub App")
	f.Int64Var(&o.appInstallation, "github-app-installation-id", 0, "id of its installation")
	f.StringVar(&o.appKeyFile, "github-app-key-file", "", "`file` with its private key")
	return cmd
}

// run writes the files.
func (o *cloneOptions) run(ctx context.Context, getenv func(string) string, repo, path string) (err error) {
	if err := emptyDirectory(path); err != nil {
		return err
	}
	src, err := o.source(getenv, repo)
	if err != nil {
		return err
	}
	remotes, err := git.New(git.Config{UserAgent: "gitcloner/" + version.Version, Proxy: http.ProxyFromEnvironment, Addresses: address.WithLoopback()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remotes.Close()) }()
	ref := git.Reference{Branch: o.branch, Revision: o.revision}
	if o.branch != "" {
		ref.Revision = ""
	}
	commit, err := remotes.Resolve(ctx, src, ref)
	if err != nil {
		return err
	}
	tree, err := remotes.Fetch(ctx, src, ref, commit)
	if err != nil {
		return err
	}
	defer tree.Close()
	return copyTree(path, tree)
}

// emptyDirectory makes a directory, or checks that there is nothing in it: files of a user
// are never removed or mixed with those of a repository.
func emptyDirectory(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil { //nolint:gosec // others may read the files of a repository
		return fmt.Errorf("make directory: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("look into directory: %w", err)
	}
	defer dir.Close()
	switch _, err := dir.ReadDir(1); {
	case err == nil:
		return fmt.Errorf("%s is not empty: gitcloner writes to an empty or missing directory", path)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("look into directory: %w", err)
	}
	return nil
}

// source returns the repository with its credentials.
func (o *cloneOptions) source(getenv func(string) string, repo string) (git.Source, error) {
	src := git.Source{URL: repo, InsecureSkipTLSVerify: o.insecureSkipTLS}
	src.Credentials.Username, src.Credentials.KnownHosts = o.username, []byte(getenv(envKnownHosts))
	var password, appKey []byte
	for _, f := range []struct {
		flag, path string
		into       *[]byte
	}{
		{"ca-bundle-file", o.caBundleFile, &src.CABundle}, {"password-file", o.passwordFile, &password},
		{"ssh-private-key-file", o.sshPrivateKeyFile, &src.Credentials.SSHPrivateKey}, {"github-app-key-file", o.appKeyFile, &appKey},
	} {
		if f.path == "" {
			continue
		}
		var err error
		if *f.into, err = readBounded(f.path); err != nil {
			return src, fmt.Errorf("--%s: %w", f.flag, err)
		}
	}
	src.Credentials.Password = strings.TrimRight(string(password), "\r\n")
	if more := getenv(envProxyCABundle); more != "" {
		src.CABundle = append(append(bytes.TrimRight(src.CABundle, "\n"), '\n'), more...)
	}
	if o.appID != 0 || o.appInstallation != 0 || len(appKey) > 0 {
		if o.appID == 0 || o.appInstallation == 0 || len(appKey) == 0 {
			return src, errors.New("a GitHub App needs --github-app-id, --github-app-installation-id and --github-app-key-file")
		}
		src.Credentials.App = &git.App{ID: o.appID, Installation: o.appInstallation, PrivateKey: appKey}
	}
	return src, nil
}

// readBounded reads a file of at most maxCredentialBytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCredentialBytes+1))
	if err == nil && len(data) > maxCredentialBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxCredentialBytes)
	}
	return data, err
}

// copyTree writes the files of a commit to a directory. A symbolic link is written as it is,
// and what would follow one is not: os.Root keeps every file within the directory.
func copyTree(path string, tree fs.FS) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case d.IsDir():
			return root.Mkdir(name, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(tree, name)
			if err != nil {
				return err
			}
			return root.Symlink(target, name)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: a submodule that .gitmodules does not name", name)
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return root.WriteFile(name, data, info.Mode().Perm())
	})
}
