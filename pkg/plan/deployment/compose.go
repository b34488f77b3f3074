package deployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// MaxBytes is how large a BundleDeployment may be as JSON: it is stored once
// for each cluster, and kept in memory by the API server.
const MaxBytes = 128 << 10

// ReasonTooLarge is the reason of a deployment above MaxBytes.
const ReasonTooLarge = "TooLarge"

// An Order is a deployment as it should be written.
type Order struct {
	Compiled *Compiled
	Place    *Place
	Inputs   string
	Version  Version
	// Move makes the version current; otherwise it is only staged.
	Move bool
}

// A Payload is what is written for one deployment: the Secret, if there are
// values, and then the object.
type Payload struct {
	Object *fleet.BundleDeployment
	Secret *corev1.Secret // nil if there are no values
}

// A Mark is what the input-hash annotation remembers of the last write.
type Mark struct {
	Inputs  string
	Outcome string
	Moved   bool // the version is current, not only staged
}

const onlyStaged = "staged"

// String returns the annotation's value.
func (m Mark) String() string {
	if m.Moved {
		return m.Inputs + "." + m.Outcome
	}
	return m.Inputs + "." + m.Outcome + "." + onlyStaged
}

// MarkOf reads the annotation of a deployment; the zero Mark is none that fits.
func MarkOf(bd *fleet.BundleDeployment) Mark {
	inputs, rest, ok := strings.Cut(bd.Annotations[fleet.AnnotationInputHash], ".")
	outcome, third, staged := strings.Cut(rest, ".")
	if !ok || staged && third != onlyStaged {
		return Mark{}
	}
	return Mark{Inputs: inputs, Outcome: outcome, Moved: !staged}
}

func (o Order) inputHashMark() string {
	return Mark{Inputs: o.Inputs, Outcome: o.Version.Outcome, Moved: o.Move}.String()
}

// Compose makes the whole object. old is the existing object, nil if there is none. If the
// version is only staged, the current version, options and values of old stay (values are
// those in the existing Secret). Compose keeps annotations of others. It drops a mark of
// withdrawal and rancher/fleet's finalizer.
//
// An object above MaxBytes is a permanent fault.
func Compose(o Order, old *fleet.BundleDeployment, values []byte) (Payload, error) {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Place.Namespace, Name: o.Compiled.bundle.Name,
		Labels: Labels(o.Compiled, o.Place), Annotations: map[string]string{},
	}}
	current := []byte(nil)
	if old != nil {
		bd.UID, bd.ResourceVersion = old.UID, old.ResourceVersion
		bd.Finalizers = Finalizers(old)
		bd.OwnerReferences = old.OwnerReferences
		maps.Copy(bd.Annotations, old.Annotations)
		delete(bd.Annotations, fleet.AnnotationWithdrawn)
		delete(bd.Annotations, fleet.AnnotationAbandon)
		bd.Spec.DeploymentID, bd.Spec.Options, current = old.Spec.DeploymentID, old.Spec.Options, values
		bd.Spec.DependsOn = old.Spec.DependsOn
		bd.Spec.CorrectDrift = old.Spec.CorrectDrift
		bd.Spec.OCIContents = old.Spec.OCIContents
		bd.Spec.HelmChartOptions = old.Spec.HelmChartOptions
		bd.Spec.DownstreamResourcesGeneration = old.Spec.DownstreamResourcesGeneration
	}
	bd.Annotations[fleet.AnnotationInputHash] = o.inputHashMark()
	bd.Spec.Paused = Paused(o.Compiled, o.Place)
	setWindows(bd, o.Place)
	bd.Spec.StagedDeploymentID, bd.Spec.StagedOptions = o.Version.ID, o.Version.Options
	if o.Move {
		bd.Spec.DeploymentID, bd.Spec.Options, current = o.Version.ID, o.Version.Options, o.Version.Values
	}
	if o.Move || old == nil {
		bd.Spec.DependsOn, bd.Spec.CorrectDrift = o.Compiled.spec.DependsOn, o.Version.Options.CorrectDrift
		bd.Spec.OCIContents, bd.Spec.HelmChartOptions = o.Compiled.oci, o.Compiled.chart
	}
	if o.Move {
		annotateCarried(bd, o.Version)
	}
	bd.Spec.ValuesHash = options.DeploymentValuesHash(current, o.Version.Values)
	if err := checkSize(bd); err != nil {
		return Payload{}, err
	}
	return Payload{Object: bd, Secret: valuesSecret(bd, current, o.Version.Values)}, nil
}

// PatchMetadata returns old with the labels, the pause, the change windows and the finalizers that it should
// have, and nothing else changed. old may lack its options. id is the deployment id that it
// should have: one that does not hold it yet, because something holds it back, keeps the
// commit of what it holds.
func PatchMetadata(k *Compiled, p *Place, old *fleet.BundleDeployment, id string) *fleet.BundleDeployment {
	out := old.DeepCopy()
	out.Labels = Labels(k, p)
	delete(out.Labels, fleet.LabelContentName)
	if content := contentOf(k, old); content != "" {
		out.Labels[fleet.LabelContentName] = content
	}
	if commit, ok := old.Labels[fleet.LabelCommit]; old.Spec.StagedDeploymentID != id {
		delete(out.Labels, fleet.LabelCommit)
		if ok {
			out.Labels[fleet.LabelCommit] = commit
		}
	}
	out.Finalizers = Finalizers(old)
	out.Spec.Paused = Paused(k, p)
	setWindows(out, p)
	return out
}

// setWindows writes the change windows of the cluster to a deployment.
func setWindows(bd *fleet.BundleDeployment, p *Place) {
	bd.Spec.OffSchedule = p.OffSchedule
	if p.Windows == "" {
		delete(bd.Annotations, fleet.AnnotationWindows)
		return
	}
	if bd.Annotations == nil {
		bd.Annotations = map[string]string{}
	}
	bd.Annotations[fleet.AnnotationWindows] = p.Windows
}

// contentOf is the content label of a deployment that is not changed
// otherwise: the content that is staged there; empty for one in a registry.
func contentOf(k *Compiled, bd *fleet.BundleDeployment) string {
	if k.oci {
		return ""
	}
	if id, _, ok := strings.Cut(bd.Spec.StagedDeploymentID, ":"); ok && id != "" {
		return id
	}
	return k.content
}

// IsCurrent reports whether a deployment needs no Retouch.
func IsCurrent(k *Compiled, p *Place, bd *fleet.BundleDeployment, id string) bool {
	switch {
	case bd.Spec.Paused != Paused(k, p) || slices.Contains(bd.Finalizers, fleet.FinalizerBundleDeployment):
		return false
	case bd.Spec.OffSchedule != p.OffSchedule || bd.Annotations[fleet.AnnotationWindows] != p.Windows:
		return false
	}
	return hasLabels(k, p, bd, id)
}

// hasLabels reports whether a deployment has the labels that it should have, and no others.
func hasLabels(k *Compiled, p *Place, bd *fleet.BundleDeployment, id string) bool {
	own := placeLabels(p)
	extra := 0
	if id := contentOf(k, bd); id != "" {
		if bd.Labels[fleet.LabelContentName] != id {
			return false
		}
		extra = 1
	}
	old := bd.Spec.StagedDeploymentID != id // it keeps its commit
	if old {
		if _, ok := bd.Labels[fleet.LabelCommit]; ok {
			extra++
		}
		if _, ok := k.labels[fleet.LabelCommit]; ok {
			extra--
		}
	}
	if len(bd.Labels) != len(k.labels)+len(own)+extra {
		return false
	}
	for key, v := range k.labels {
		if bd.Labels[key] != v && (!old || key != fleet.LabelCommit) {
			return false
		}
	}
	for _, l := range own {
		if bd.Labels[l[0]] != l[1] {
			return false
		}
	}
	return true
}

// placeLabels returns the labels that name the cluster of a deployment.
func placeLabels(p *Place) [4][2]string {
	return [4][2]string{
		{fleet.LabelCluster, p.Name}, {fleet.LabelClusterNamespace, p.Cluster.Namespace},
		{fleet.LabelManaged, "true"}, {fleet.LabelBucket, p.bucket},
	}
}

// Paused reports whether a pause holds back the Bundle on a cluster.
func Paused(k *Compiled, p *Place) bool { return k.spec.Paused || p.Paused }

// Finalizers returns the finalizers of a deployment without rancher/fleet's: a removal is
// ordered by a mark, and the deletion of the object alone orders nothing.
func Finalizers(bd *fleet.BundleDeployment) []string {
	return slices.DeleteFunc(slices.Clone(bd.Finalizers), func(f string) bool {
		return f == fleet.FinalizerBundleDeployment
	})
}

// Labels returns the labels of a deployment: the user's and Fleet's own labels of the
// Bundle, and those by which it is found.
func Labels(k *Compiled, p *Place) map[string]string {
	out := maps.Clone(k.labels)
	for _, l := range placeLabels(p) {
		out[l[0]] = l[1]
	}
	if k.content != "" && !k.oci {
		out[fleet.LabelContentName] = k.content
	}
	return out
}

// bundleLabels are the labels that all deployments of a Bundle share.
func bundleLabels(b *fleet.Bundle) map[string]string {
	out := naming.UserKeys(b.Labels)
	for key, v := range b.Labels {
		if strings.HasPrefix(key, "fleet.cattle.io/") && key != fleet.LabelCreatedByDisplayName {
			out[key] = v
		}
	}
	for _, l := range placeLabels(&Place{}) {
		delete(out, l[0])
	}
	delete(out, fleet.LabelContentName)
	out[fleet.LabelBundleName], out[fleet.LabelBundleNamespace] = b.Name, b.Namespace
	out[fleet.LabelOwnerBucket] = naming.OwnerBucket(b.Namespace, Owner(b))
	return out
}

// Owner returns the name of what made a Bundle: its GitRepo, else its HelmOp, else itself.
func Owner(b *fleet.Bundle) string {
	for _, l := range []string{fleet.LabelRepoName, fleet.LabelHelmOpName} {
		if name := b.Labels[l]; name != "" {
			return name
		}
	}
	return b.Name
}

func valuesSecret(bd *fleet.BundleDeployment, current, staged []byte) *corev1.Secret {
	if len(current) == 0 && len(staged) == 0 {
		return nil
	}
	data := map[string][]byte{}
	if len(current) > 0 {
		data[fleet.KeyValues] = current
	}
	if len(staged) > 0 {
		data[fleet.KeyStagedValues] = staged
	}
	labels := map[string]string{
		fleet.LabelManaged:         "true",
		fleet.LabelBundleName:      bd.Labels[fleet.LabelBundleName],
		fleet.LabelBundleNamespace: bd.Labels[fleet.LabelBundleNamespace],
	}
	if shard, ok := bd.Labels[fleet.LabelShardRef]; ok {
		labels[fleet.LabelShardRef] = shard
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: bd.Namespace, Name: bd.Name, Labels: labels},
		Type:       fleet.SecretTypeBundleDeployment,
		Data:       data,
	}
}

func checkSize(bd *fleet.BundleDeployment) error {
	raw, err := json.Marshal(bd)
	if err != nil {
		return reconcile.TerminalError(ReasonOptions, err)
	}
	if len(raw) > MaxBytes {
		return reconcile.TerminalError(ReasonTooLarge, fmt.Errorf(
			"its options take %d KiB for each cluster, at most %d are allowed: move data from comparePatches or other options into the repository",
			len(raw)>>10, MaxBytes>>10))
	}
	return nil
}
