package sources

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// ReadTree makes the bundles of a directory, with all that has to be
// downloaded for them.
func ReadTree(ctx context.Context, dir string, in bundlesource.Input, cfg bundlesource.Config) (bundle.Set, error) {
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

// CheckAccount refuses what no bundle can act as.
func CheckAccount(name string) error {
	switch {
	case name == "":
		return nil
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return fmt.Errorf("--service-account %q is not possible: want lower case letters, digits, . and -", name)
	case naming.FleetAccount(name):
		return fmt.Errorf("--service-account %q is Fleet's own; no bundle may act as it", name)
	}
	return nil
}
