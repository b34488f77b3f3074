package dryrun

import (
	"strings"

	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// matched names the target and the customizations that apply.
func (r Rendering) matched() string {
	return strings.Join(append([]string{r.Target}, r.Customizations...), ", ")
}

func groupOf(name string, labels map[string]string) plantarget.Group {
	return plantarget.Group{Name: name, Labels: labels}
}
