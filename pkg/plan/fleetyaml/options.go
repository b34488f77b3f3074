package fleetyaml

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// releaseName matches the names that both Helm and the API accept.
var releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// NameForm describes valid names of objects, and of releases.
const NameForm = "lower case letters, digits, - and ., a letter or digit first and last and beside each ."

// options checks the options of the bundle or of one target, which stands at
// place.
func (v *validator) options(o *fleet.BundleDeploymentOptions, place []any) {
	v.namespaces(o, place)
	v.comparePatches(o.Diff, place)
	for i, r := range o.DownstreamResources {
		at := childPlace(place, "downstreamResources", i)
		switch strings.ToLower(r.Kind) {
		case "secret", "configmap":
		default:
			v.addError(fmt.Sprintf("downstreamResources[%d]: kind %q cannot be copied; want Secret or ConfigMap", i, shortenText(r.Kind)), childPlace(at, "kind")...)
		}
		if r.Name == "" {
			v.addError(fmt.Sprintf("downstreamResources[%d] has no name", i), at...)
		}
	}
	h := o.Helm
	if h == nil {
		return
	}
	if h.ReleaseName != "" && (len(h.ReleaseName) > fleet.ReleaseNameLimit || !releaseName.MatchString(h.ReleaseName)) {
		v.addError(fmt.Sprintf("helm.releaseName %q is not possible: want at most %d %s",
			shortenText(h.ReleaseName), fleet.ReleaseNameLimit, NameForm), childPlace(place, "helm", "releaseName")...)
	}
	for i, from := range h.ValuesFrom {
		at := childPlace(place, "helm", "valuesFrom", i)
		if ref := from.ConfigMapKeyRef; ref != nil && ref.Name == "" {
			v.addError(fmt.Sprintf("helm.valuesFrom[%d].configMapKeyRef has no name", i), childPlace(at, "configMapKeyRef")...)
		}
		if ref := from.SecretKeyRef; ref != nil && ref.Name == "" {
			v.addError(fmt.Sprintf("helm.valuesFrom[%d].secretKeyRef has no name", i), childPlace(at, "secretKeyRef")...)
		}
		if from.ConfigMapKeyRef == nil && from.SecretKeyRef == nil {
			v.addWarning(fmt.Sprintf("helm.valuesFrom[%d] names neither a ConfigMap nor a Secret and does nothing", i), "", at...)
		}
	}
}

// versions checks helm.version where it is used: with a Helm repository or
// registry it chooses the chart, which fails if it is neither a version nor a
// range; elsewhere nothing reads it. A customization takes what it does not
// name from the bundle itself.
func (v *validator) versions() {
	root := fleet.HelmOptions{}
	if h := v.f.Spec.Helm; h != nil {
		root = *h
		v.version(root, root, []any{"helm", "version"})
	}
	rootUsed := false
	for i := range v.f.Spec.Targets {
		h := v.f.Spec.Targets[i].Helm
		if h == nil {
			continue
		}
		used := *h
		if v.f.Spec.Helm != nil {
			used.Repo, used.Chart = firstNonEmpty(h.Repo, root.Repo), firstNonEmpty(h.Chart, root.Chart)
			used.Version = firstNonEmpty(h.Version, root.Version)
		}
		switch {
		case h.Version != "":
			v.version(used, root, childPlace(v.f.customized[i], "helm", "version"))
		case !chooses(root) && chooses(used) && !rootUsed:
			rootUsed = true
			v.version(used, root, []any{"helm", "version"})
		}
	}
}

func (v *validator) version(h, root fleet.HelmOptions, place []any) {
	if h.Version == "" {
		return
	}
	if _, err := semver.NewConstraint(h.Version); err == nil {
		return
	}
	message := fmt.Sprintf("helm.version %q is not a version or range", shortenText(h.Version))
	if chooses(h) {
		v.addFinding(finding.Error, finding.RuleVersion, message, "", place...)
		return
	}
	if h.Chart != "" || root.Chart != "" {
		message += "; nothing reads it, since the chart comes from no repository"
		v.addFinding(finding.Warning, finding.RuleVersion, message, "", place...)
	}
}

// helmNumbers warns of numbers that count as another one. In a customization a negative
// timeout is that of 0, and maxHistory does not count.
func (v *validator) helmNumbers() {
	h := v.f.Spec.Helm
	if h == nil {
		return
	}
	if h.TimeoutSeconds < 0 {
		v.addWarning(fmt.Sprintf("helm.timeoutSeconds %d counts as 0: Helm does not wait", h.TimeoutSeconds), "", "helm", "timeoutSeconds")
	}
	if h.MaxHistory < 0 {
		v.addWarning(fmt.Sprintf("helm.maxHistory %d counts as 2", h.MaxHistory), "", "helm", "maxHistory")
	}
}

// jobs warns of waitForJobs where Helm waits for nothing: neither the bundle nor the
// customization has a timeout or is atomic. That of the bundle is of use where one
// customization waits.
func (v *validator) jobs() {
	const message, hint = "helm.waitForJobs has no effect: Helm waits for nothing", "set helm.timeoutSeconds"
	root := v.f.Spec.Helm
	some := waits(root)
	for i := range v.f.Spec.Targets {
		h := v.f.Spec.Targets[i].Helm
		if h != nil && h.WaitForJobs && !waits(root) && !waits(h) {
			v.addWarning(message, hint, childPlace(v.f.customized[i], "helm", "waitForJobs")...)
		}
		some = some || waits(h)
	}
	if root != nil && root.WaitForJobs && !some {
		v.addWarning(message, hint, "helm", "waitForJobs")
	}
}

// waits reports whether Helm waits for objects with these options.
func waits(h *fleet.HelmOptions) bool { return h != nil && (h.TimeoutSeconds > 0 || h.Atomic) }

// chooses reports whether the version chooses the chart.
func chooses(h fleet.HelmOptions) bool {
	return h.Repo != "" || strings.HasPrefix(h.Chart, "oci://")
}

func firstNonEmpty(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
