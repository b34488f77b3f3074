package deployment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of Bundles that take something along, or name a chart.
const (
	// ReasonBadSource: downstreamResources names what is not copied.
	ReasonBadSource = "InvalidDownstreamResource"
	// ReasonNoChart: helmOpOptions is set, and no chart is named.
	ReasonNoChart = "InvalidHelmOptions"
)

// Kinds of sources, in lower case.
const (
	KindSecret    = "secret"
	KindConfigMap = "configmap"
)

// A Source is a Secret or ConfigMap beside a Bundle that goes along with its
// deployments.
type Source struct {
	Kind string // KindSecret or KindConfigMap
	Name string
}

// String returns "Secret <name>", quoted.
func (s Source) String() string {
	if s.Kind == KindConfigMap {
		return fmt.Sprintf("ConfigMap %q", s.Name)
	}
	return fmt.Sprintf("Secret %q", s.Name)
}

// Sources returns all that deployments of a Bundle may take along, sorted: what its options
// name, those of its targets, and the credentials for a chart that agents pull. Another
// kind than Secret and ConfigMap is Terminal, InvalidDownstreamResource.
func Sources(spec *fleet.BundleSpec) ([]Source, error) {
	out, err := sourcesOf(&spec.BundleDeploymentOptions)
	for i := range spec.Targets {
		if err != nil {
			return nil, err
		}
		var more []Source
		more, err = sourcesOf(&spec.Targets[i].BundleDeploymentOptions)
		out = append(out, more...)
	}
	return sortedUnique(append(out, access(byAgent(spec))...)), err
}

// CarriedBy returns the sources of a deployment, sorted. It may be one that a cache holds,
// without most of its options.
func CarriedBy(o *fleet.BundleDeploymentOptions, c *fleet.BundleHelmOptions) []Source {
	out, err := sourcesOf(o)
	if err != nil {
		return nil // it is not written
	}
	return sortedUnique(append(out, access(c)...))
}

func sourcesOf(o *fleet.BundleDeploymentOptions) ([]Source, error) {
	var out []Source
	for _, dr := range o.DownstreamResources {
		s := Source{Kind: strings.ToLower(dr.Kind), Name: dr.Name}
		if s.Kind != KindSecret && s.Kind != KindConfigMap || s.Name == "" {
			return nil, reconcile.TerminalError(ReasonBadSource, fmt.Errorf(
				"downstreamResources: %q %q is neither a Secret nor a ConfigMap with a name", dr.Kind, dr.Name))
		}
		out = append(out, s)
	}
	return out, nil
}

func access(c *fleet.BundleHelmOptions) []Source {
	if c == nil || c.SecretName == "" {
		return nil
	}
	return []Source{{KindSecret, c.SecretName}}
}

func sortedUnique(l []Source) []Source {
	slices.SortFunc(l, func(a, b Source) int { return strings.Compare(a.Kind+"/"+a.Name, b.Kind+"/"+b.Name) })
	return slices.Compact(l)
}

// Digest returns a digest of sources and their data; empty if there are no sources.
func Digest(list []Source, data map[Source]string) string {
	if len(list) == 0 {
		return ""
	}
	var text strings.Builder
	for _, s := range list {
		fmt.Fprintf(&text, "%s/%s=%s\n", s.Kind, s.Name, data[s])
	}
	return digest([]byte(text.String()))
}

// WithCarried returns the version with a Digest of what it takes along.
func (v Version) WithCarried(carried string) Version {
	if carried != "" {
		v.Carried, v.Outcome = carried, digest([]byte(v.Outcome+carried))
	}
	return v
}

// WithInputs returns the digest of inputs with that of all sources of the Bundle.
func WithInputs(inputs, sources string) string {
	if sources == "" {
		return inputs
	}
	return digest([]byte(inputs + sources))
}

// annotateCarried notes on a deployment what it takes along. Agents look again, and
// upgrade the release, when the number is another. Where an earlier manager
// has set it, that is taken for granted.
func annotateCarried(bd *fleet.BundleDeployment, v Version) {
	before, known := bd.Annotations[fleet.AnnotationCarried]
	delete(bd.Annotations, fleet.AnnotationCarried)
	if v.Carried != "" {
		bd.Annotations[fleet.AnnotationCarried] = v.Carried
	}
	switch generation := bd.Spec.DownstreamResourcesGeneration; {
	case len(v.Options.DownstreamResources) == 0:
		bd.Spec.DownstreamResourcesGeneration = 0
	case generation == 0, known && before != v.Carried:
		bd.Spec.DownstreamResourcesGeneration = generation + 1
	}
}

// Charts returns the charts of a Bundle of a HelmOp, each once: those of its own options
// and of its targets.
func Charts(spec *fleet.BundleSpec) []chart.Request {
	var out []chart.Request
	add := func(h *fleet.HelmOptions) {
		if r := chart.RequestOf(h); r != (chart.Request{}) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	add(spec.Helm)
	for i := range spec.Targets {
		if t := &spec.Targets[i]; !t.DoNotDeploy {
			add(options.Merge(spec.BundleDeploymentOptions, t.BundleDeploymentOptions).Helm)
		}
	}
	return out
}

// PulledByManager reports whether the manager pulls the charts of a Bundle.
func PulledByManager(spec *fleet.BundleSpec) bool {
	return spec.HelmOpOptions != nil && spec.HelmOpOptions.Pull == fleet.PullManager
}

// PulledByAgents reports whether each agent pulls the charts of a Bundle, which
// then has no content.
func PulledByAgents(spec *fleet.BundleSpec) bool {
	return spec.HelmOpOptions != nil && spec.HelmOpOptions.Pull != fleet.PullManager
}

// byAgent returns the options that agents need to pull a chart; nil if they do
// not pull it.
func byAgent(spec *fleet.BundleSpec) *fleet.BundleHelmOptions {
	if !PulledByAgents(spec) {
		return nil
	}
	o := *spec.HelmOpOptions
	o.Pull = "" // it is for them alone
	return &o
}

// setChart makes the compiled bundle one of a HelmOp, where the Bundle is.
func (cm *Compiled) setChart() error {
	if cm.spec.HelmOpOptions != nil && len(Charts(&cm.spec)) == 0 {
		return reconcile.TerminalError(ReasonNoChart, fmt.Errorf("helmOpOptions is set, and neither helm.repo nor helm.chart says which chart"))
	}
	if cm.chart = byAgent(&cm.spec); cm.chart == nil {
		return nil
	}
	raw, err := json.Marshal(cm.chart)
	if err != nil {
		return reconcile.TerminalError(ReasonOptions, err)
	}
	cm.pulled = digest(raw)
	return nil
}

// Chart says how agents pull the chart; nil where they do not.
func (cm *Compiled) Chart() *fleet.BundleHelmOptions { return cm.chart }
