// Package preview computes what the controller would make of one Bundle on a number of
// clusters: which clusters get it and which do not, with the reasons, and the
// deployments as the controller would write them.
//
// It decides nothing itself. Targeting, options, rollout and objects are those of
// packages target, deployment and rollout, in the sequence in which the controller asks
// them.
package preview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// An Input is a Bundle and what its targeting depends on. Objects of other namespaces than
// the Bundle's are ignored, except deployments and Secrets, and objects of namespaces to
// which a mapping leads.
type Input struct {
	Bundle   *fleet.Bundle
	Clusters []*fleet.Cluster
	Groups   []*fleet.ClusterGroup
	// Mappings and Namespaces lead the Bundle to the clusters of other namespaces. A
	// namespace that is not among Namespaces has no label but its name.
	Mappings   []*fleet.BundleNamespaceMapping
	Namespaces []*corev1.Namespace
	// Deployments are those that are there already, of whatever Bundle.
	Deployments []*fleet.BundleDeployment
	// Secrets hold the values of the Bundle, if it has a valuesHash, and those of
	// Deployments.
	Secrets []*corev1.Secret
	// Restrictions and Policies are the limits of all namespaces.
	Restrictions []*fleet.GitRepoRestriction
	Policies     []*fleet.Policy
}

// A Result is what the Bundle becomes on all clusters.
type Result struct {
	// Content is the id of the Bundle's resources.
	Content string
	// Clusters are all clusters of the Bundle's workspace, and of the namespaces
	// where mappings lead it, by name.
	Clusters []Cluster
	// Ignored are texts about cluster groups and mappings that cannot be read.
	Ignored []string
}

// A Cluster is what the Bundle becomes on one cluster.
type Cluster struct {
	Namespace, Name string
	// Deploy reports whether the Bundle is meant for the cluster, and Why why.
	Deploy bool
	Why    string
	// Target is the name of the target that decided, or its place ("target 2");
	// Customizations are those that apply.
	Target         string
	Customizations []string
	// Step is what the rollout says of the deployment: whether the new version
	// becomes current, or what it waits for.
	Step rollout.Step
	// Object is the deployment as it would be written and Secret the values that
	// go before it. Both are nil where nothing is written.
	Object *fleet.BundleDeployment
	Secret *corev1.Secret
	// ID is the deployment id that it should have.
	ID string
	// Broken says why the deployment cannot be worked out for this cluster.
	Broken string
	// Needs names the Secret, in the namespace of its deployment, without which
	// it cannot be worked out; empty: none is missing.
	Needs string
}

// Compute computes the Result. It lifts the limit on deployments that are created at once
// (rolloutStrategy.maxNew). Other limits hold, as far as the existing deployments show
// them. The same input gives the same result.
//
// Errors are about the Bundle as a whole: selectors that cannot be read, limits of its
// namespace that refuse it (policy.Violation), and values that are missing
// (reconcile.RequeueAfter).
func Compute(in Input) (Result, error) {
	b := in.Bundle
	if text := support.BlockReason(&b.Spec); text != "" {
		return Result{}, reconcile.TerminalError(fleet.ReasonNotImplemented, errors.New(text))
	}
	id := ContentID(b)
	limits := policy.Of(in.Restrictions, in.Policies)
	if err := deployment.Refusal(b, limits); err != nil {
		return Result{}, err
	}
	compiled, err := deployment.CompileWithin(b, id, valuesOf(in), limits)
	if err != nil {
		return Result{}, err
	}
	out := Result{Content: id}
	reach := ReachOf(in)
	if err := reach.Fault(); err != nil {
		out.Ignored = append(out.Ignored, err.Error())
	}
	groups := map[string]target.Groups{}
	for _, namespace := range append([]string{b.Namespace}, reach.Namespaces()...) {
		var errs []error
		groups[namespace], errs = target.CompileGroups(inNamespace(in.Groups, namespace))
		for _, err := range errs {
			out.Ignored = append(out.Ignored, err.Error())
		}
	}
	clusters := slices.DeleteFunc(slices.Clone(in.Clusters), func(c *fleet.Cluster) bool {
		_, reached := groups[c.Namespace]
		return !reached
	})
	slices.SortStableFunc(clusters, func(a, b *fleet.Cluster) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	w := previewRun{in: in, compiled: compiled}
	for _, c := range clusters {
		w.addCluster(c, groups[c.Namespace])
	}
	if err := w.planRollout(); err != nil {
		return Result{}, err
	}
	for i := range w.clusters {
		out.Clusters = append(out.Clusters, w.clusters[i].Cluster)
	}
	return out, nil
}

// Targets reports whether the Bundle is meant for any cluster of its workspace. It returns
// true for targets that cannot be read: another finding reports those.
func Targets(in Input) bool {
	m, err := target.Compile(&in.Bundle.Spec)
	if err != nil {
		return true
	}
	groups, _ := target.CompileGroups(inNamespace(in.Groups, in.Bundle.Namespace))
	return slices.ContainsFunc(inNamespace(in.Clusters, in.Bundle.Namespace), func(c *fleet.Cluster) bool {
		return c.DeletionTimestamp == nil && m.Match(&deployment.NewPlace(c, groups, "").Cluster).Deploy
	})
}

// ReachOf returns how far mappings let the Bundle go.
func ReachOf(in Input) target.MappedNamespaces {
	namespaces := map[string]map[string]string{}
	for _, c := range in.Clusters {
		namespaces[c.Namespace] = map[string]string{corev1.LabelMetadataName: c.Namespace}
	}
	for _, ns := range in.Namespaces {
		namespaces[ns.Name] = ns.Labels
	}
	mappings := target.CompileMappings(inNamespace(in.Mappings, in.Bundle.Namespace))
	return mappings.ReachOf(in.Bundle.Namespace, in.Bundle.Labels, namespaces)
}

// ContentID names what a Bundle deploys, wherever that is kept. It is empty where agents
// pull the chart.
func ContentID(b *fleet.Bundle) string {
	switch {
	case b.Spec.ContentsID != "":
		return b.Spec.ContentsID
	case deployment.PulledByAgents(&b.Spec):
		return ""
	case len(b.Spec.Resources) == 0 && b.Annotations[fleet.AnnotationContent] != "":
		return b.Annotations[fleet.AnnotationContent]
	case b.Spec.HelmOpOptions != nil:
		return ""
	}
	return content.ID(content.Manifest{Resources: b.Spec.Resources})
}

// previewRun is one preview under way.
type previewRun struct {
	in       Input
	compiled *deployment.Compiled
	clusters []*candidate
}

// A candidate is a cluster that is worked on.
type candidate struct {
	Cluster
	at      placement.Candidate
	inputs  string
	version deployment.Version
}

// addCluster matches one cluster.
func (pr *previewRun) addCluster(c *fleet.Cluster, groups target.Groups) {
	if c.DeletionTimestamp != nil {
		return
	}
	p := deployment.NewPlace(c, groups, namespaceOf(c))
	v := pr.compiled.Match(&p.Cluster)
	x := &candidate{
		Cluster: Cluster{Namespace: c.Namespace, Name: c.Name, Deploy: v.Deploy, Why: v.Reason},
		at: placement.Candidate{
			Name: c.Namespace + "/" + c.Name, Place: p, Verdict: v, Deployment: pr.deploymentIn(p.Namespace),
			Offline: c.Status.Display.State == fleet.Offline,
		},
	}
	pr.clusters = append(pr.clusters, x)
	if v.Target >= 0 {
		x.Target = TargetName(pr.in.Bundle, v.Target)
	}
	for _, i := range v.Customizations {
		x.Customizations = append(x.Customizations, TargetName(pr.in.Bundle, i))
	}
	if !v.Deploy {
		return
	}
	whole := x.at
	whole.Deployment = nil // the ids alone compose no object
	n, err := placement.Version(pr.compiled, whole, placement.Rules{})
	if err != nil {
		x.Broken = err.Error()
		return
	}
	x.inputs, x.version, x.ID = n.Inputs, *n.Version, n.ID
}

// planRollout asks the rollout, and composes what it lets through.
func (pr *previewRun) planRollout() error {
	var list []placement.Candidate
	var wanted []*candidate
	for _, x := range pr.clusters {
		if x.Deploy {
			list, wanted = append(list, x.at), append(wanted, x)
		}
	}
	_, result, err := placement.Evaluate(pr.compiled, pr.in.Bundle.Spec.RolloutStrategy, len(list), list, func(i int, t *rollout.Target) {
		t.Desired = wanted[i].version.ID
	})
	if err != nil {
		return err
	}
	for i, step := range result.Steps {
		wanted[i].Step = step
		if err := pr.compose(wanted[i]); err != nil {
			wanted[i].Broken = err.Error()
		}
	}
	return nil
}

// compose makes the objects of one cluster.
func (pr *previewRun) compose(x *candidate) error {
	if x.Broken != "" || !x.Step.Create && !x.Step.Stage && !x.Step.Move {
		return nil
	}
	var values []byte
	if x.at.Deployment != nil && x.at.Deployment.Spec.ValuesHash != "" && !x.Step.Move {
		s := pr.secret(x.at.Deployment.Namespace, x.at.Deployment.Name, fleet.SecretTypeBundleDeployment)
		if s == nil {
			x.Needs = x.at.Deployment.Namespace + "/" + x.at.Deployment.Name
			return fmt.Errorf("the values of what runs there are not known: Secret %s/%s is missing", x.at.Deployment.Namespace, x.at.Deployment.Name)
		}
		values = s.Data[fleet.KeyValues]
	}
	payload, err := deployment.Compose(deployment.Order{
		Compiled: pr.compiled, Place: x.at.Place, Inputs: x.inputs, Version: x.version, Move: x.Step.Move,
	}, x.at.Deployment, values)
	if err != nil {
		return err
	}
	x.Object, x.Secret = payload.Object, payload.Secret
	x.Object.APIVersion, x.Object.Kind = fleet.GroupVersion.String(), "BundleDeployment"
	x.Object.UID, x.Object.ResourceVersion = "", "" // of one server; a file goes to another
	if x.Secret != nil {
		x.Secret.APIVersion, x.Secret.Kind = "v1", "Secret"
	}
	return nil
}

// deploymentIn is the Bundle's deployment in the namespace of a cluster.
func (pr *previewRun) deploymentIn(namespace string) *fleet.BundleDeployment {
	for _, bd := range pr.in.Deployments {
		if bd.Namespace == namespace && bd.Name == pr.in.Bundle.Name {
			return bd
		}
	}
	return nil
}

func (pr *previewRun) secret(namespace, name, kind string) *corev1.Secret {
	return secretOf(pr.in.Secrets, namespace, name, kind)
}

func secretOf(list []*corev1.Secret, namespace, name, kind string) *corev1.Secret {
	for _, s := range list {
		if s.Namespace == namespace && s.Name == name && string(s.Type) == kind {
			return s
		}
	}
	return nil
}

// valuesOf are the data of the Secret with the Bundle's values.
func valuesOf(in Input) map[string][]byte {
	if in.Bundle.Spec.ValuesHash == "" {
		return nil
	}
	if s := secretOf(in.Secrets, in.Bundle.Namespace, in.Bundle.Name, fleet.SecretTypeBundleValues); s != nil {
		return s.Data
	}
	return nil
}

// namespaceOf is where the deployments of a cluster are, or would be.
func namespaceOf(c *fleet.Cluster) string {
	if c.Status.Namespace != "" {
		return c.Status.Namespace
	}
	return naming.ClusterNamespace(c.Namespace, c.Name)
}

// inNamespace returns the objects of one namespace. It includes objects of a file that name
// no namespace.
func inNamespace[T interface{ GetNamespace() string }](list []T, namespace string) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return o.GetNamespace() != namespace })
}

// TargetName returns the name of an entry of spec.targets for users: its own name, or its
// place.
func TargetName(b *fleet.Bundle, i int) string {
	switch {
	case len(b.Spec.Targets) == 0:
		return "default"
	case b.Spec.Targets[i].Name != "":
		return b.Spec.Targets[i].Name
	}
	return fmt.Sprintf("target %d", i+1)
}
