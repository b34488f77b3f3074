// Package takeover compares what another manager of the same API has made with what
// this manager would make, and decides which labels pass objects from one to the other.
// Only the command fleet takeover uses it. Package release decides whether an agent
// takes over a release.
//
// Package preview computes what this manager would make of a Bundle.
package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
)

// A Verdict is the result for a Bundle.
type Verdict string

// The verdicts, from good to bad.
const (
	Identical   Verdict = "identical"     // every deployment stays as it is
	Differs     Verdict = "differs"       // something would be deployed or withdrawn
	Unsupported Verdict = "not supported" // it uses what this version does not act on
	Unknown     Verdict = "not known"     // it cannot be worked out with what can be read
)

// Verdicts are all of them, in that order.
var Verdicts = []Verdict{Identical, Differs, Unsupported, Unknown}

// An Input is a Bundle with all that its deployments depend on.
type Input struct {
	preview.Input
	Repo *fleet.GitRepo // that the Bundle is from; nil: none, or it cannot be read
	// Unplaced says of Clusters, by "<workspace>/<name>", why a manager that leaves Clusters
	// to another cannot write deployments for them.
	Unplaced map[string]string
}

// A Finding is what was found about one Bundle.
type Finding struct {
	Verdict Verdict
	// Clusters is how many it is deployed to, or would be.
	Clusters int
	// Reasons say what differs or is not supported, sorted, three at most and how
	// many more there are; none for Identical.
	Reasons []string
	// Differences are the clusters where something differs, by name.
	Differences []Difference
}

// A Difference is what would change on one cluster.
type Difference struct {
	Cluster string   // "<workspace>/<name>"
	What    []string // in words, sorted
}

// Compare compares what is deployed of a Bundle with what this manager would deploy. It
// compares deployments as objects: an identical one keeps its deployment id, so the agent
// does not touch what runs. Compare does not check how files are read from a repository.
func Compare(in Input) Finding {
	if reasons := unsupported(in); len(reasons) > 0 {
		return Finding{Verdict: Unsupported, Clusters: len(in.Deployments), Reasons: reasons}
	}
	result, err := preview.Compute(in.Input)
	if err != nil {
		f := Finding{Verdict: Unknown, Clusters: len(in.Deployments), Reasons: []string{err.Error()}}
		if reconcile.IsTerminal(err) {
			f.Verdict = Unsupported
		}
		return f
	}
	f := Finding{Verdict: Identical}
	reasons := map[string]bool{}
	wanted := map[string]bool{}
	for i := range result.Clusters {
		c := &result.Clusters[i]
		old := deploymentOf(in.Deployments, c.Namespace, c.Name)
		if old == nil && !c.Deploy {
			continue
		}
		f.Clusters++
		if old != nil {
			wanted[old.Namespace] = true
		}
		f.cluster(c, differences(in, c, old), reasons)
	}
	for _, bd := range in.Deployments {
		if !wanted[bd.Namespace] && bd.DeletionTimestamp == nil {
			f.Verdict = Differs
			reasons["deployments are there for clusters that are gone: they are left alone"] = true
		}
	}
	f.Reasons = firstReasons(reasons)
	return f
}

// differences lists the differences on one cluster; old is the present
// deployment there.
func differences(in Input, c *preview.Cluster, old *fleet.BundleDeployment) []string {
	what := compare(c, old)
	if why := in.Unplaced[c.Namespace+"/"+c.Name]; why != "" && c.Deploy {
		what = append(what, "could not be deployed: "+why)
	}
	return what
}

// cluster notes what differs on a cluster.
func (f *Finding) cluster(c *preview.Cluster, what []string, reasons map[string]bool) {
	if len(what) == 0 {
		return
	}
	f.Verdict = Differs
	f.Differences = append(f.Differences, Difference{Cluster: c.Namespace + "/" + c.Name, What: what})
	for _, w := range what {
		reasons[w] = true
	}
	if c.Needs != "" {
		f.Verdict = Unknown
	}
}

// firstReasons are reasons in order, and how many more there are.
func firstReasons(reasons map[string]bool) []string {
	out := slices.Sorted(maps.Keys(reasons))
	if more := len(out) - mostReasons; more > 0 {
		out = append(out[:mostReasons], fmt.Sprintf("and %d more", more))
	}
	return out
}

// mostReasons is how many reasons of one Bundle are named: many clusters may each
// have their own.
const mostReasons = 3

// unsupported lists the requests of a Bundle that no controller acts on.
func unsupported(in Input) []string {
	var out []string
	for _, text := range []string{
		support.Message(support.UnsupportedFields(in.Bundle)), support.BlockReason(&in.Bundle.Spec),
	} {
		if text != "" {
			out = append(out, text)
		}
	}
	if in.Repo != nil {
		if text := support.NeedsImageScans(&in.Repo.Spec); text != "" {
			out = append(out, fmt.Sprintf("GitRepo %s: %s", in.Repo.Name, text))
		}
	}
	slices.Sort(out)
	return out
}

// deploymentOf is the deployment for a cluster.
func deploymentOf(list []*fleet.BundleDeployment, namespace, name string) *fleet.BundleDeployment {
	for _, bd := range list {
		if bd.Labels[fleet.LabelClusterNamespace] == namespace && bd.Labels[fleet.LabelCluster] == name {
			return bd
		}
	}
	return nil
}

// compare says what would become another on one cluster.
func compare(c *preview.Cluster, old *fleet.BundleDeployment) []string {
	switch {
	case c.Broken != "":
		return []string{c.Broken}
	case !c.Deploy:
		return []string{"would be withdrawn: " + c.Why}
	case old == nil:
		return []string{"would be deployed anew: " + c.Why}
	}
	var out []string
	note := func(differs bool, format string, args ...any) {
		if differs {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	staged := old.Spec.StagedDeploymentID
	if staged != c.ID {
		wasContent, wasOptions, _ := strings.Cut(staged, ":")
		content, options, _ := strings.Cut(c.ID, ":")
		note(content != wasContent, "other content: %s instead of %s", shortID(content), shortID(wasContent))
		if options != wasOptions {
			fields := "options"
			if c.Object != nil {
				fields = strings.Join(changedFields(old.Spec.StagedOptions, c.Object.Spec.StagedOptions), ", ")
			}
			out = append(out, "other options: "+orElse(fields, "helm values"))
		}
	}
	note(c.Step.Move && old.Spec.DeploymentID != staged && staged == c.ID, "a version that is held back would be released: %s", c.Step.Reason)
	note(!c.Step.Move && old.Spec.DeploymentID == staged && staged == c.ID, "would be held back: %s", c.Step.Reason)
	if o := c.Object; o != nil {
		note(o.Spec.Paused != old.Spec.Paused, "paused %v instead of %v", o.Spec.Paused, old.Spec.Paused)
		note(o.Spec.ValuesHash != old.Spec.ValuesHash && staged == c.ID, "other hash of helm values")
		note(c.Step.Move && o.Spec.OCIContents != old.Spec.OCIContents, "content in a registry %v instead of %v", o.Spec.OCIContents, old.Spec.OCIContents)
		note(c.Step.Move && !equalJSON(o.Spec.DependsOn, old.Spec.DependsOn), "other dependsOn")
		note(c.Step.Move && !equalJSON(o.Spec.CorrectDrift, old.Spec.CorrectDrift), "other correctDrift")
		note(c.Step.Move && !equalJSON(o.Spec.HelmChartOptions, old.Spec.HelmChartOptions), "another source of the chart")
	}
	slices.Sort(out)
	return out
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// shortID is an id for people.
func shortID(id string) string {
	if id == "" {
		return "none"
	}
	return id[:min(len(id), 10)]
}
