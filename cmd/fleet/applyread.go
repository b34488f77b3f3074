package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// helmAccess are the flags that say what charts are downloaded with.
type helmAccess struct {
	username      string
	passwordFile  string
	caFile        string
	keyFile       string
	byPathFile    string
	urls          string
	basicHTTP     bool
	insecure      bool
	knownHosts    string
	usernameGiven bool
}

func (h *helmAccess) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&h.username, "username", "", "user `name` for charts, with --password-file; default: HELM_USERNAME")
	fs.StringVar(&h.passwordFile, "password-file", "", "`file` with the password for charts")
	fs.StringVar(&h.caFile, "cacerts-file", "", "PEM `file` with authorities for charts, besides the system's")
	fs.StringVar(&h.keyFile, "ssh-privatekey-file", "", "PEM `file` with the SSH key for charts from git; known hosts are in FLEET_KNOWN_HOSTS")
	fs.StringVar(&h.urls, "helm-repo-url-regex", "", "`regex` that a URL must match, from its start to the end of its host at least, for credentials to be sent; without it they are sent nowhere")
	fs.StringVar(&h.byPathFile, "helm-credentials-by-path-file", "", "YAML `file` with credentials by path, instead of the others")
	fs.BoolVar(&h.basicHTTP, "helm-basic-http", false, "talk to OCI registries without TLS")
	fs.BoolVar(&h.insecure, "helm-insecure-skip-tls", false, "accept any certificate where charts are")
}

func (h *helmAccess) complete(env func(string) string) error {
	h.usernameGiven = h.username != ""
	if !h.usernameGiven {
		h.username = env("HELM_USERNAME")
	}
	h.knownHosts = env("FLEET_KNOWN_HOSTS")
	if h.usernameGiven && h.passwordFile == "" && h.byPathFile == "" {
		return errors.New("--username goes with --password-file")
	}
	if _, err := regexp.Compile(h.urls); err != nil {
		return fmt.Errorf("--helm-repo-url-regex: %w", err)
	}
	return nil
}

// access reads the files of credentials.
func (h *helmAccess) access() (chart.Access, error) {
	a := chart.Access{URLs: h.urls}
	if h.byPathFile != "" {
		data, err := os.ReadFile(h.byPathFile)
		if err != nil {
			return a, ofFlag("helm-credentials-by-path-file", err)
		}
		if a.ByPath, err = chart.ParseByPath(data); err != nil {
			return a, fmt.Errorf("%s: %w", h.byPathFile, err)
		}
		return a, nil
	}
	secret := map[string][]byte{}
	for key, file := range map[string]string{"password": h.passwordFile, "cacerts": h.caFile, "ssh-privatekey": h.keyFile} {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return a, ofFlag(key+"-file", err)
		}
		secret[key] = data
	}
	if password, ok := secret["password"]; ok {
		if h.username == "" {
			return a, errors.New("--password-file goes with --username, or HELM_USERNAME")
		}
		secret["username"], secret["password"] = []byte(h.username), []byte(strings.TrimRight(string(password), "\r\n"))
	}
	if h.knownHosts != "" {
		secret["known_hosts"] = []byte(h.knownHosts)
	}
	var err error
	if a.Default, err = chart.CredentialsOf(secret); err != nil {
		return a, fmt.Errorf("credentials for charts: %w", err)
	}
	a.Default.BasicHTTP, a.Default.InsecureSkipVerify = h.basicHTTP, h.insecure
	return a, nil
}

// unsent reports that credentials are given and no URL may have them.
func (h *helmAccess) unsent() bool {
	return h.urls == "" && (h.passwordFile != "" || h.keyFile != "" || h.byPathFile != "")
}

// gather reads what comes from files and from around the command.
func (o *applyOptions) gather(std printer.Stdio) error {
	if o.commit == "" {
		head, err := git.Head(".")
		if err != nil && !errors.Is(err, git.ErrNoCheckout) {
			return err
		}
		o.commit = string(head.Commit)
	}
	if o.commit != "" {
		labels := map[string]string{fleet.LabelCommit: o.commit}
		maps.Copy(labels, o.bundle.Labels)
		o.bundle.Labels = labels
	}
	if o.targetsFile == "" {
		return nil
	}
	data, err := os.ReadFile(o.targetsFile)
	if err != nil {
		return ofFlag("targets-file", err)
	}
	targets, found := fleetyaml.ParseTargets(o.targetsFile, data)
	if n := reportFound(std, found, o.strict); n > 0 {
		return fmt.Errorf("%w: %s in %s", errInput, printer.Plural(n, "error"), o.targetsFile)
	}
	o.bundle.Targets, o.bundle.Restrictions = targets.Targets, targets.TargetRestrictions
	return nil
}

// read makes the bundles of the working directory. A PATH that leads to no directory is an
// error: the bundles of the directory that is meant would be removed.
func (o *applyOptions) read(ctx context.Context, std printer.Stdio) (bundle.Set, error) {
	access, err := o.helm.access()
	if err != nil {
		return bundle.Set{}, err
	}
	if o.helm.unsent() {
		std.Note("note: the credentials for charts are sent nowhere without --helm-repo-url-regex")
	}
	entries, err := o.places()
	if err != nil {
		return bundle.Set{}, err
	}
	in := bundlesource.Input{Paths: o.paths, Entries: entries, Options: o.bundle, Access: access}
	set, err := readTree(ctx, ".", in, bundlesource.Config{Offline: o.offline, Parallel: o.writers})
	return set.RefuseAbsent(), err
}

// readTree makes the bundles of a directory, with all that has to be
// downloaded for them.
func readTree(ctx context.Context, dir string, in bundlesource.Input, cfg bundlesource.Config) (bundle.Set, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return bundle.Set{}, fmt.Errorf("read %s: %w", dir, err)
	}
	defer root.Close()
	in.Tree = root.FS()
	agent := "fleet/" + version.Version
	remotes, err := git.New(git.Config{UserAgent: agent, Proxy: http.ProxyFromEnvironment, Addresses: address.WithLoopback()})
	if err != nil {
		return bundle.Set{}, err
	}
	defer remotes.Close()
	cfg.UserAgent, cfg.Proxy, cfg.Addresses, cfg.Git = agent, http.ProxyFromEnvironment, address.WithLoopback(), remotes
	r, err := bundlesource.New(cfg)
	if err != nil {
		return bundle.Set{}, err
	}
	defer r.Close()
	set, _, err := r.Read(ctx, in)
	advice := adviceOfFlags
	if in.Access.ByPath != nil {
		advice = adviceOfByPath
	}
	for i := range set.Results {
		for j := range set.Results[i].Findings {
			f := &set.Results[i].Findings[j]
			f.Message = advice.Replace(f.Message)
		}
	}
	return set, err
}

// What helps on the command line instead of the keys of a Secret: flags, or the file of
// credentials by path.
var (
	adviceOfFlags = strings.NewReplacer(web.AdviceAuthority, "--cacerts-file can name its authority",
		web.AdviceCredentials, "are there --username and --password-file, and does --helm-repo-url-regex match?")
	adviceOfByPath = strings.NewReplacer(web.AdviceAuthority, "caBundle in the file of --helm-credentials-by-path-file can name its authority",
		web.AdviceCredentials, "has the file of --helm-credentials-by-path-file its path, and does --helm-repo-url-regex match?")
)

// places makes the arguments relative to the working directory. The entries
// are the bundles, where each argument is one.
func (o *applyOptions) places() ([]fleet.BundlePath, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}
	args := o.paths
	if len(args) == 0 {
		args = []string{"."}
	}
	o.paths = nil
	var entries []fleet.BundlePath
	for _, arg := range args {
		options := o.bundleFile
		if o.drivenScan && o.separator != "" {
			if arg, options, _ = strings.Cut(arg, o.separator); strings.Contains(options, o.separator) {
				return nil, fmt.Errorf("%q: want BASE or BASE%sOPTIONSFILE", arg+o.separator+options, o.separator)
			}
		}
		if arg, err = below(here, arg); err != nil {
			return nil, err
		}
		o.paths = append(o.paths, arg)
		entries = append(entries, fleet.BundlePath{Base: arg, Options: options})
	}
	if !o.drivenScan && o.bundleFile == "" {
		return nil, nil
	}
	return entries, nil
}

// below makes an absolute PATH relative to the working directory. For a PATH outside of
// it the leading slash is ignored, as in a GitRepo; if that does not exist but the
// absolute PATH does, the error says from which directory it can be read.
func below(here, arg string) (string, error) {
	if !filepath.IsAbs(arg) {
		return arg, nil
	}
	if rel, err := filepath.Rel(here, arg); err == nil && filepath.IsLocal(rel) {
		return rel, nil
	}
	if matches, err := filepath.Glob(strings.TrimLeft(arg, "/")); err != nil || len(matches) > 0 {
		return arg, nil //nolint:nilerr // the reader says what is wrong with the pattern
	}
	if _, err := os.Stat(arg); err != nil {
		return arg, nil //nolint:nilerr // the reader says that there is no such directory
	}
	dir, name := filepath.Split(filepath.Clean(arg))
	return "", fmt.Errorf("%w: %s is not below the working directory %s, and PATH is relative to it; run the command in %s with PATH %s",
		errInput, arg, here, filepath.Clean(dir), name)
}

// reportFindings says what was found, and fails if any of it is an error, or with
// strict anything at all.
func reportFindings(std printer.Stdio, set bundle.Set, strict, printing bool) error {
	n := reportFound(std, set.All(), strict)
	if n == 0 {
		return nil
	}
	done := "written or removed"
	if printing {
		done = "printed"
	}
	return fmt.Errorf("%w: %s, nothing is %s", errInput, printer.Plural(n, "error"), done)
}

// reportFound says what was found, and returns how much of it is an error: with strict all
// of it.
func reportFound(std printer.Stdio, found []finding.Finding, strict bool) int {
	n := 0
	for _, f := range found {
		if strict {
			f.Severity = finding.Error
		}
		if f.Severity == finding.Error {
			n++
		}
		reportFinding(std, f)
	}
	return n
}

// reportFinding says one thing that is wrong, and what would help.
func reportFinding(std printer.Stdio, f finding.Finding) {
	std.Note("%s", f)
	if f.Hint != "" {
		std.Note("    %s", f.Hint)
	}
}
