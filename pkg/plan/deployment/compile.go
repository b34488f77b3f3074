// Package deployment computes the BundleDeployment of a Bundle on one cluster: the
// options, the deployment id and the values.
//
// The computation costs a tenth of a millisecond or more of CPU, and templates may use
// the clock. So the object has a digest of all inputs, and the manager computes a pair
// of Bundle and cluster again only if the digest differs.
package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// revision is part of every digest of inputs: a change of the rules in this
// package or in those that it calls raises it, and all pairs are worked out
// again.
const revision = "1"

// byAgents distinguishes the digests of deployments whose chart the agents pull.
const byAgents = "chart"

// inRegistry distinguishes deployments whose resources are the same but kept in a registry.
const inRegistry = "oci"

// digestLen is how many hex digits of a digest are kept on objects.
const digestLen = 16

// labelReference begins a value that stands for a label of the cluster.
const labelReference = "global.fleet.clusterLabels."

// ReasonOptions is the reason of options that have no JSON.
const ReasonOptions = "InvalidOptions"

// ReasonWaitForValues is the reason of a Bundle whose values Secret is not
// there, or not of this version.
const ReasonWaitForValues = "WaitForValues"

// A Place is a cluster as deployments see it.
type Place struct {
	target.Cluster
	Annotations    map[string]string // of the Cluster object
	TemplateValues map[string]any
	Namespace      string // of the BundleDeployments
	Paused         bool
	// Windows are the change windows of the cluster: the value of AnnotationWindows. Closed is
	// why they do not let changes through; empty while they do. OffSchedule asks an agent that
	// does not read windows to wait.
	Windows     string
	Closed      string
	OffSchedule bool
	facts       string // digest, see Seal
	labelled    bool
	bucket      string
}

// NewPlace returns a Cluster as deployments see it, sealed: groups are those of its
// namespace, namespace is where its BundleDeployments are, or empty.
func NewPlace(c *fleet.Cluster, groups target.Groups, namespace string) *Place {
	p := &Place{
		Cluster: target.Cluster{Namespace: c.Namespace, Name: c.Name, Labels: c.Labels, Groups: groups.Selecting(c.Labels)},
		Paused:  c.Spec.Paused, Annotations: c.Annotations, Namespace: namespace,
	}
	if c.Spec.TemplateValues != nil {
		p.TemplateValues = c.Spec.TemplateValues.Data
	}
	p.Seal()
	return p
}

// Seal computes what Inputs needs again and again. It is called once, when
// all fields are set.
func (p *Place) Seal() {
	raw, err := json.Marshal([]any{p.Cluster.Namespace, p.Name, p.Labels, naming.UserKeys(p.Annotations), p.TemplateValues})
	if err != nil {
		raw = []byte(err.Error()) // values that have no JSON fail when they are used
	}
	p.facts = digest(raw)
	p.labelled = usable(p.Labels)
	p.bucket = naming.Bucket(p.Namespace)
}

// usable reports whether a cluster has a label that values can ask for. Without
// one its values are left as they are, and so are its ids.
func usable(labels map[string]string) bool {
	for k := range labels {
		if strings.HasPrefix(k, "fleet.cattle.io/") || strings.HasPrefix(k, "management.cattle.io/") {
			return true
		}
	}
	return len(naming.UserKeys(labels)) > 0
}

// A Version is what a Bundle is on one cluster.
type Version struct {
	ID      string                        // deployment id
	Options fleet.BundleDeploymentOptions // without values
	Values  []byte                        // JSON, nil if there are none
	Outcome string                        // digest of all that the object holds of this
	Carried string                        // digest of what goes along, empty if nothing does; see WithCarried
}

// A Compiled is one version of a Bundle, ready to be worked out for clusters. It
// may be used by several goroutines.
type Compiled struct {
	bundle  *fleet.Bundle // without values
	spec    fleet.BundleSpec
	content string
	oci     bool                     // the resources are in a registry
	chart   *fleet.BundleHelmOptions // of a Bundle whose chart agents pull
	pulled  string                   // digest of chart, or empty
	labels  map[string]string        // that all deployments share
	matcher *target.Matcher
	limits  policy.Namespaces
	refused error // by Refusal

	templates values.Budget

	mu     sync.Mutex
	merged map[string]*mergedOptions
	// large are the errors of templates that need more than they may, by inputs:
	// finding out again would take as much.
	large map[string]error
}

// A mix is the Bundle's options with those of one target and some
// customizations.
type mergedOptions struct {
	refused   error // by the limits of a namespace; the other fields are then not set
	options   fleet.BundleDeploymentOptions
	labels    map[string]string // for the namespace
	notes     map[string]string
	digest    string
	templated bool        // the text of the options has something that may be a template
	templates bool        // values have templates
	inputs    [2]string   // of clusters without and with labels; only where not templated
	versions  [2]*Version // the same, as they were worked out
}

// Compile is CompileWithin without limits.
func Compile(b *fleet.Bundle, contentID string, secret map[string][]byte) (*Compiled, error) {
	return CompileWithin(b, contentID, secret, nil)
}

// CompileWithin compiles a Bundle. contentID names its resources, secret is the data
// of its values Secret, which must fit spec.valuesHash. Faults are permanent,
// except for a Secret that does not fit: that one waits.
//
// limits are those of the Bundle's namespace, and of other namespaces with clusters that it
// may be meant for. A deployment has to satisfy those of both namespaces.
func CompileWithin(b *fleet.Bundle, contentID string, secret map[string][]byte, limits policy.Namespaces) (*Compiled, error) {
	if hash := b.Spec.ValuesHash; hash != "" && options.BundleValuesHash(secret) != hash {
		return nil, reconcile.RequeueError(ReasonWaitForValues, 0,
			fmt.Errorf("waits for Secret %q with the values of this version", b.Name))
	}
	k := &Compiled{bundle: b, spec: *b.Spec.DeepCopy(), content: contentID, oci: b.Spec.ContentsID != "", labels: bundleLabels(b), limits: limits, merged: map[string]*mergedOptions{}, large: map[string]error{}}
	if err := k.setChart(); err != nil {
		return nil, err
	}
	if b.Spec.ValuesHash != "" {
		if err := options.ApplyBundleValues(&k.spec, secret); err != nil {
			return nil, reconcile.TerminalError("InvalidValues", err)
		}
	}
	k.refused = Refusal(b, limits)
	var err error
	k.matcher, err = target.Compile(&k.spec)
	return k, err
}

// Bundle returns the Bundle that the compiled bundle was made of.
func (cm *Compiled) Bundle() *fleet.Bundle { return cm.bundle }

// Content returns the id of the Bundle's resources.
func (cm *Compiled) Content() string { return cm.content }

// InRegistry reports whether the resources are in a registry, and not in a
// Content.
func (cm *Compiled) InRegistry() bool { return cm.oci }

// Match decides whether a cluster gets the Bundle.
func (cm *Compiled) Match(c *target.Cluster) target.Verdict { return cm.matcher.Match(c) }

// Pick is Match without the reason where no target matches.
func (cm *Compiled) Pick(c *target.Cluster) target.Verdict { return cm.matcher.Pick(c) }

// Inputs returns the digest of everything that decides what the Bundle becomes on a
// cluster, for a verdict of Match that says to deploy.
func (cm *Compiled) Inputs(v target.Verdict, p *Place) (string, error) {
	m, err := cm.mergeOptions(v, p)
	if err != nil {
		return "", err
	}
	if m.templated {
		return digest([]byte(cm.baseInputs(m) + p.facts)), nil
	}
	return m.inputs[p.kind()], nil
}

// KeepsTemplates reports whether templates of values are not rendered for a cluster that
// gets the Bundle, since it has no label.
func (cm *Compiled) KeepsTemplates(v target.Verdict, p *Place) bool {
	if p.labelled {
		return false
	}
	m, err := cm.mergeOptions(v, p)
	return err == nil && m.templates
}

// baseInputs is the part of the inputs that no cluster has a say in.
func (cm *Compiled) baseInputs(m *mergedOptions) string {
	text := revision + cm.content + m.digest
	if cm.oci {
		text += inRegistry
	}
	return text + cm.pulled
}

// kind is 1 for a cluster with labels that values can ask for, else 0.
func (p *Place) kind() int {
	if p.labelled {
		return 1
	}
	return 0
}

// Render computes what the Bundle becomes on a cluster. The result may be shared: callers
// must not change it. An error, such as one in a template, concerns this cluster alone and
// is permanent.
func (cm *Compiled) Render(v target.Verdict, p *Place) (Version, error) {
	m, err := cm.mergeOptions(v, p)
	if err != nil {
		return Version{}, err
	}
	if m.templated {
		return cm.render(m, p)
	}
	cm.mu.Lock()
	known := m.versions[p.kind()]
	cm.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	out, err := cm.renderMix(m, p)
	if err == nil {
		cm.mu.Lock()
		defer cm.mu.Unlock()
		m.versions[p.kind()] = &out
	}
	return out, err
}

// render is work for a mix with templates.
func (cm *Compiled) render(m *mergedOptions, p *Place) (Version, error) {
	inputs := cm.baseInputs(m) + p.facts
	cm.mu.Lock()
	err := cm.large[inputs]
	cm.mu.Unlock()
	if err != nil {
		return Version{}, err
	}
	out, err := cm.renderMix(m, p)
	if errors.Is(err, values.ErrLimit) && !errors.Is(err, values.ErrTime) {
		cm.mu.Lock()
		defer cm.mu.Unlock()
		cm.large[inputs] = err
	}
	return out, err
}

func (cm *Compiled) renderMix(m *mergedOptions, p *Place) (Version, error) {
	full, err := values.Render(m.options, values.ClusterFacts{
		Name: p.Name, Namespace: p.Cluster.Namespace, Labels: p.Labels,
		Annotations: p.Annotations, TemplateValues: p.TemplateValues,
	}, &cm.templates)
	if err != nil {
		return Version{}, err
	}
	out := Version{}
	if out.ID, err = options.DeploymentID(cm.content, full); err != nil {
		return Version{}, reconcile.TerminalError(ReasonOptions, err)
	}
	if out.Options, out.Values, err = options.SplitValues(full); err != nil {
		return Version{}, reconcile.TerminalError(ReasonOptions, err)
	}
	out.Options.NamespaceLabels = mergeMaps(out.Options.NamespaceLabels, m.labels)
	out.Options.NamespaceAnnotations = mergeMaps(out.Options.NamespaceAnnotations, m.notes)
	whole := []any{out.ID, out.Options, cm.spec.DependsOn}
	if cm.oci {
		whole = append(whole, inRegistry)
	}
	if cm.chart != nil {
		whole = append(whole, byAgents, cm.pulled)
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		return Version{}, reconcile.TerminalError(ReasonOptions, err)
	}
	out.Outcome = digest(raw)
	return out, nil
}

// mergeOptions merges options for a verdict, once for each set of targets and each namespace
// with limits.
func (cm *Compiled) mergeOptions(v target.Verdict, p *Place) (*mergedOptions, error) {
	if cm.refused != nil {
		return nil, cm.refused
	}
	var room [32]byte
	key := strconv.AppendInt(room[:0], int64(v.Target), 10)
	for _, c := range v.Customizations {
		key = strconv.AppendInt(append(key, ' '), int64(c), 10)
	}
	limits := cm.limitsOn(p)
	if len(limits) > 0 {
		key = append(append(key, '/'), p.Cluster.Namespace...)
	}
	cm.mu.Lock()
	defer cm.mu.Unlock()
	if m := cm.merged[string(key)]; m != nil {
		return m, m.refused
	}
	m := &mergedOptions{}
	custom := fleet.BundleDeploymentOptions{}
	for i, t := range cm.entries(v) {
		m.labels, m.notes = mergeMaps(m.labels, t.NamespaceLabels), mergeMaps(m.notes, t.NamespaceAnnotations)
		if i == 0 {
			custom = t.BundleDeploymentOptions
			continue
		}
		custom = options.Merge(custom, t.BundleDeploymentOptions)
	}
	m.options = options.Merge(cm.spec.BundleDeploymentOptions, custom)
	for _, l := range limits {
		if m.options, m.refused = l.Constrain(m.options, cm.chart); m.refused != nil {
			cm.merged[string(key)] = m
			return m, m.refused
		}
	}
	raw, err := json.Marshal([]any{m.options, m.labels, m.notes, cm.spec.DependsOn})
	if err != nil {
		return nil, reconcile.TerminalError(ReasonOptions, err)
	}
	text := string(raw)
	m.digest = digest(raw)
	m.templated = strings.Contains(text, "${") || strings.Contains(text, labelReference) ||
		strings.Contains(text, `"templateValues"`)
	m.templates = m.templated && values.Templated(m.options.Helm)
	m.inputs = [2]string{digest([]byte(cm.baseInputs(m))), digest([]byte(cm.baseInputs(m) + "labelled"))}
	cm.merged[string(key)] = m
	return m, nil
}

// entries returns the entries of spec.targets whose options apply, in order. Where only one
// applies, the first customization replaces the target.
func (cm *Compiled) entries(v target.Verdict) []*fleet.BundleTarget {
	var out []*fleet.BundleTarget
	all := cm.spec.TargetCustomizationMode == fleet.TargetCustomizationAllMatches
	if v.Target < len(cm.spec.Targets) && (all || len(v.Customizations) == 0) {
		out = append(out, &cm.spec.Targets[v.Target])
	}
	for _, i := range v.Customizations {
		out = append(out, &cm.spec.Targets[i])
	}
	return out
}

func mergeMaps(a, b map[string]string) map[string]string {
	if len(b) == 0 {
		return a
	}
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:digestLen]
}

// Same reports whether two places give the same deployment. Both are sealed.
func (p *Place) Same(q *Place) bool {
	return p.facts == q.facts && p.Namespace == q.Namespace && p.Paused == q.Paused &&
		p.Windows == q.Windows && p.Closed == q.Closed && p.OffSchedule == q.OffSchedule &&
		slices.EqualFunc(p.Groups, q.Groups, func(a, b target.Group) bool {
			return a.Name == b.Name && maps.Equal(a.Labels, b.Labels)
		})
}
