// Package helmop decides what is done about a HelmOp: whether its spec can work, when the
// manager asks which version of the chart a constraint stands for, which Bundle it writes,
// and what the status says.
package helmop

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	// MinInterval is the shortest pollingInterval; shorter ones count as this.
	MinInterval = time.Second
	// ReasonInvalidSpec says that the spec of a HelmOp names no chart that can be found.
	ReasonInvalidSpec = "InvalidHelmOptions"
	// ReasonNameTaken says that a Bundle of the name exists that is not of a HelmOp.
	ReasonNameTaken = "BundleExists"
)

// SpecError returns what in the spec of a HelmOp cannot work: Terminal, ReasonInvalidSpec;
// nil for nothing. The texts are those of Rancher Fleet v0.16.
func SpecError(spec *fleet.HelmOpSpec) error {
	if spec.Helm == nil {
		return reconcile.TerminalError(ReasonInvalidSpec, errors.New("helm options are empty in the HelmOp's spec"))
	}
	o := *spec.Helm
	why := ""
	switch {
	case isArchive(o.Chart) && o.Repo != "":
		why = "tarball chart with a non-empty repo field"
	case isArchive(o.Chart) && o.Version != "":
		why = "tarball chart with a non-empty version field"
	case isArchive(o.Chart):
	case isRegistry(o.Repo) && o.Chart != "":
		why = "OCI repository with a non-empty chart field"
	case isRegistry(o.Repo):
	case o.Repo != "" && o.Chart == "":
		why = "non-OCI repository with an empty chart field"
	case o.Repo == "":
		why = "non-tarball chart with an empty repo field"
	}
	if why == "" {
		return nil
	}
	return reconcile.TerminalError(ReasonInvalidSpec, fmt.Errorf("helm options invalid: %s", why))
}

// isArchive reports whether a chart is the address of a packaged chart.
func isArchive(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".tgz") }

// isRegistry reports whether a repository is an OCI registry.
func isRegistry(repo string) bool { return strings.HasPrefix(strings.ToLower(repo), "oci://") }

// IsConstraint reports whether the version that a HelmOp asks for stands for different
// versions over time: a range, or none for the newest. One leading "v" belongs to a
// version.
func IsConstraint(o *fleet.HelmOptions) bool {
	if o == nil || isArchive(o.Chart) {
		return false
	}
	_, err := semver.StrictNewVersion(strings.TrimPrefix(o.Version, "v"))
	return err != nil
}

// Interval returns how often the repository of a HelmOp is asked for a new version; 0 if it
// is not. The manager does not poll for an exact version or a packaged chart: they do not
// change.
func Interval(spec *fleet.HelmOpSpec) time.Duration {
	if spec.PollingInterval == nil || spec.PollingInterval.Duration <= 0 || !IsConstraint(spec.Helm) {
		return 0
	}
	return max(spec.PollingInterval.Duration, MinInterval)
}

// Request returns what is asked for at the chart's source.
func Request(spec *fleet.HelmOpSpec) chart.Request { return chart.RequestOf(spec.Helm) }

// BundleOf returns the Bundle of a HelmOp, with the version of the chart that its agents
// get. It has the name of the HelmOp, all of its options, and no resources. Targets without
// a name are named by their place. A HelmOp without targets is for the clusters of the
// ClusterGroup "default". Only the labels in the spec are passed on, and the shard. The
// authorities, as PEM, are those that agents trust besides those of the Secret.
func BundleOf(op *fleet.HelmOp, version string, authorities []byte) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace, Name: op.Name, Labels: maps.Clone(op.Spec.Labels)}}
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[fleet.LabelHelmOpName] = op.Name
	if shard, ok := op.Labels[fleet.LabelShardRef]; ok {
		b.Labels[fleet.LabelShardRef] = shard
	}
	op.Spec.BundleSpec.DeepCopyInto(&b.Spec)
	b.Spec.Resources = nil
	pull := fleet.PullMode("")
	if o := b.Spec.HelmOpOptions; o != nil {
		pull = o.Pull
	}
	b.Spec.HelmOpOptions = &fleet.BundleHelmOptions{
		SecretName: op.Spec.HelmSecretName, InsecureSkipTLSverify: op.Spec.InsecureSkipTLSverify, CABundle: authorities, Pull: pull,
	}
	if b.Spec.Helm != nil {
		b.Spec.Helm.Version = version
	}
	for i := range b.Spec.Targets {
		t := &b.Spec.Targets[i]
		if t.Name == "" {
			t.Name = fmt.Sprintf("target%03d", i)
		}
		inherit(t.Helm, b.Spec.Helm)
	}
	if len(b.Spec.Targets) == 0 {
		b.Spec.Targets = []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}
	}
	return b
}

// inherit fills the chart of a target's own Helm options from those of the Bundle.
func inherit(own, root *fleet.HelmOptions) {
	if own == nil || root == nil {
		return
	}
	for _, f := range []struct {
		own  *string
		root string
	}{{&own.Repo, root.Repo}, {&own.Chart, root.Chart}, {&own.Version, root.Version}} {
		if *f.own == "" {
			*f.own = f.root
		}
	}
}

// IsOf reports whether a Bundle with the name of a HelmOp is of that HelmOp: it says so
// itself, or it has the options that only HelmOps have.
func IsOf(b *fleet.Bundle) bool {
	return b.Spec.HelmOpOptions != nil || b.Labels[fleet.LabelHelmOpName] == b.Name
}

// TakenError says that a Bundle with the name of a HelmOp exists that is none of a HelmOp:
// Terminal, ReasonNameTaken.
func TakenError(name string) error {
	return reconcile.TerminalError(ReasonNameTaken, fmt.Errorf("a non-helmops bundle already exists with name %s; aborting", name))
}
