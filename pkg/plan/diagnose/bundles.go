package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// Names of the checks of Bundles. They are made only where there is something
// to say.
const (
	Resources = "resources" // that bundles take along
	Templates = "templates" // in values
	Kustomize = "kustomize" // kustomizations, and schemas of charts
	Reads     = "reads"     // of bundles that are limited to a namespace
)

// BundlesSeen are the Bundles, and what decides whether a manager of this
// version deploys them as they are.
type BundlesSeen struct {
	Bundles []BundleSeen
	Repos   []*fleet.GitRepo
	// RequireLabel: only what bears a label is taken along.
	RequireLabel bool
}

// A BundleSeen is a Bundle with its values, as far as they can be read.
type BundleSeen struct {
	Bundle *fleet.Bundle
	// Origins are the Secrets and ConfigMaps that it names, as far as they can be
	// read.
	Origins map[deployment.Source]deployment.Origin
	// Loads is why agents refuse a kustomization or a schema of it, or empty.
	Loads string
}

// resources finds Bundles that name Secrets which stay on the management
// cluster.
func resources(s Observed) []Finding {
	var clusters []*fleet.Cluster
	for _, a := range s.Agents {
		clusters = append(clusters, a.Cluster)
	}
	var bundles []*fleet.Bundle
	for _, b := range s.Bundles.Bundles {
		bundles = append(bundles, b.Bundle)
	}
	var refused []string
	first := ""
	for _, b := range s.Bundles.Bundles {
		sources, err := deployment.Sources(&b.Bundle.Spec)
		if err != nil {
			continue // its status says so
		}
		uses := deployment.SecretUses(b.Bundle.Namespace, clusters, s.Bundles.Repos, bundles)
		for _, one := range sources {
			origin, known := b.Origins[one]
			why := deployment.WithholdReason(one, origin, uses, known && s.Bundles.RequireLabel, !deployment.NamesSource(&b.Bundle.Spec, one))
			if why == "" {
				continue
			}
			if first == "" {
				first = why
			}
			refused = append(refused, fmt.Sprintf("%s/%s (%s)", b.Bundle.Namespace, b.Bundle.Name, one))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return []Finding{{
		Check: Resources, Verdict: Warn, Hint: first,
		Message: fmt.Sprintf("%d times a bundle names in downstreamResources what is refused: %s", len(refused), firstNames(refused, 3)),
	}}
}

// templates finds Bundles whose templates call functions that are refused.
func templates(s Observed) []Finding {
	var calling []string
	for _, b := range s.Bundles.Bundles {
		var names []string
		names = append(names, values.RefusedIn(b.Bundle.Spec.Helm)...)
		for _, t := range b.Bundle.Spec.Targets {
			names = append(names, values.RefusedIn(t.Helm)...)
		}
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 0 {
			calling = append(calling, fmt.Sprintf("%s/%s (%s)", b.Bundle.Namespace, b.Bundle.Name, strings.Join(names, ", ")))
		}
	}
	if len(calling) == 0 {
		return nil
	}
	return []Finding{{
		Check: Templates, Verdict: Warn, Message: fmt.Sprintf("%d bundles call refused functions in values: %s", len(calling), firstNames(calling, 3)),
		Hint: "call them in a template of the chart, or take the result from a Secret: docs/options.md#templates-in-values",
	}}
}

// kustomizations finds Bundles of which agents refuse a kustomization, or the
// schema of a chart.
func kustomizations(s Observed) []Finding {
	var refused []string
	for _, b := range s.Bundles.Bundles {
		if b.Loads != "" {
			refused = append(refused, fmt.Sprintf("%s/%s (%s)", b.Bundle.Namespace, b.Bundle.Name, b.Loads))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return []Finding{{
		Check: Kustomize, Verdict: Warn,
		Message: fmt.Sprintf("agents refuse the kustomization, or the schema of the chart, of %d bundles: %s", len(refused), firstNames(refused, 3)),
		Hint:    "before an upgrade, put what they load into the repository: fleet lint names file and line",
	}}
}

// reads finds Bundles that an administrator has limited to a namespace and that
// take values from another one without an account. What templates look up is not
// known here.
func reads(s Observed) []Finding {
	forced := map[string]string{}
	for _, r := range s.Bundles.Repos {
		forced[r.Namespace+"/"+r.Name] = r.Spec.TargetNamespace
	}
	var refused []string
	for _, b := range s.Bundles.Bundles {
		spec := &b.Bundle.Spec
		all := []fleet.BundleDeploymentOptions{spec.BundleDeploymentOptions}
		for _, t := range spec.Targets {
			all = append(all, options.Merge(spec.BundleDeploymentOptions, t.BundleDeploymentOptions))
		}
		limit := forced[b.Bundle.Namespace+"/"+b.Bundle.Labels[fleet.LabelRepoName]]
		if slices.ContainsFunc(all, func(o fleet.BundleDeploymentOptions) bool { return readsElsewhere(o, limit) }) {
			refused = append(refused, b.Bundle.Namespace+"/"+b.Bundle.Name)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return []Finding{{
		Check: Reads, Verdict: Warn,
		Message: fmt.Sprintf("%d bundles that are limited to a namespace take values (helm.valuesFrom) from another one: %s", len(refused), firstNames(refused, 3)),
		Hint:    "agents refuse that for want of an account: set serviceAccount of the GitRepo to one that may read there, or make fleet-default on the clusters",
	}}
}

// readsElsewhere reports whether options without an account take values from
// outside of the namespace to which an administrator has limited them: limit, or
// that of allowedTargetNamespaceSelector.
func readsElsewhere(o fleet.BundleDeploymentOptions, limit string) bool {
	if limit == "" && o.AllowedTargetNamespaceSelector != nil {
		limit = cmp.Or(o.TargetNamespace, o.DefaultNamespace, "default")
	}
	if limit == "" || o.ServiceAccount != "" || o.Helm == nil {
		return false
	}
	elsewhere := func(kind, name, namespace string) bool {
		copied := slices.ContainsFunc(o.DownstreamResources, func(r fleet.DownstreamResource) bool {
			return strings.EqualFold(r.Kind, kind) && r.Name == name // the agent takes the copy beside the release
		})
		return !copied && cmp.Or(namespace, limit) != limit
	}
	return slices.ContainsFunc(o.Helm.ValuesFrom, func(v fleet.ValuesFrom) bool {
		s, m := v.SecretKeyRef, v.ConfigMapKeyRef
		return s != nil && elsewhere("Secret", s.Name, s.Namespace) || m != nil && elsewhere("ConfigMap", m.Name, m.Namespace)
	})
}
