package deletion

import (
	"fmt"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// OtherKindError is an error that names what deletes an object of a kind that fleet
// delete does not delete. It is nil where the arguments name no such object.
// workspace is the one that the user gave, or empty.
func OtherKindError(args []string, workspace string) error {
	if len(args) == 0 {
		return nil
	}
	word, name, slashed := strings.Cut(args[0], "/")
	if !slashed && len(args) > 1 {
		name = args[1]
	}
	if name == "" || strings.Contains(name, "/") {
		return nil
	}
	given := word + "/" + name
	forget := "fleet cluster forget " + name
	if workspace == "" {
		workspace = "WORKSPACE"
	} else {
		forget += " -n " + workspace
	}
	kubectl := func(kind string) string {
		return fmt.Sprintf("kubectl -n %s delete %s.%s %s", workspace, strings.ToLower(kind), fleet.Group, name)
	}
	if cli.WorkspaceKind.Matches(word) {
		return fmt.Errorf("%q: fleet deletes no workspace; its namespace is deleted with kubectl, and its FleetWorkspace where there is one", given)
	}
	switch k := cli.KindNamed(word); {
	case k == "":
		return nil
	case k == "Cluster":
		return fmt.Errorf("%q: %s lets a cluster go: what runs there stays, and is removed with --uninstall", given, forget)
	case k == "BundleDeployment":
		return fmt.Errorf("%q: a BundleDeployment goes with its bundle (fleet delete bundle/NAME), or when no target of the bundle matches the cluster",
			given)
	case k == "Content":
		return fmt.Errorf("%q: the manager removes contents that no bundle uses any more", given)
	case k != "GitRepo" && k != "HelmOp" && k != "Bundle":
		return fmt.Errorf("%q: this works with %s; to delete it: %s", given, Deletable.Plurals(), kubectl(k))
	}
	return nil
}
