package diagnose

import (
	"fmt"
	"slices"
	"strings"

	dial "github.com/fleetworkspace/fleet/pkg/plan/address"
)

// A SourceSeen is the host of a repository that a GitRepo names.
type SourceSeen struct {
	GitRepo string // "<namespace>/<name>"
	Host    string // without its port
}

// sources warns of repositories at addresses that a manager of this program's
// version does not dial by default. A manager that is of this version already
// reports that on the GitRepo, and knows what it was allowed.
func sources(s Observed) []Finding {
	if s.Manager == nil || s.Manager.Version == s.Program {
		return nil
	}
	var names []string
	for _, source := range s.Sources {
		host := strings.ToLower(strings.TrimSuffix(source.Host, "."))
		if (dial.Policy{}).CheckHost(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
			names = append(names, fmt.Sprintf("%s (%s)", source.GitRepo, source.Host))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []Finding{{
		Check: Sources, Verdict: Warn,
		Message: fmt.Sprintf("a manager of version %s does not dial the addresses of %d GitRepos: %s", s.Program, len(names), firstNames(names, 3)),
		Hint:    "before the upgrade: chart value " + dial.ChartValue + " allows loopback and link-local addresses, also those of charts, registries and imported clusters",
	}}
}
