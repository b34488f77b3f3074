// Package options decides how a bundle is deployed to one cluster: it merges
// the bundle's options with those for the cluster, names the result by its
// digest, and keeps Helm values apart from all else, since they may only be
// stored in Secrets.
package options

import (
	"maps"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Merge returns base with what custom says on top. Neither is changed, and the
// result shares nothing with them.
//
// Texts replace if they are not empty; flags are on if either is; maps are
// merged, with custom's keys winning; lists of things with an identity are
// joined, the same thing being replaced where it stands. Not taken from custom:
// what is not about one cluster (maxHistory, valuesFiles,
// skipSchemaValidation, disableDependencyUpdate, deleteNamespace, ignore,
// namespace labels and annotations, deleteCRDResources, createNamespace,
// overwrites, allowedTargetNamespaceSelector).
func Merge(base, custom fleet.BundleDeploymentOptions) fleet.BundleDeploymentOptions {
	out, c := *base.DeepCopy(), *custom.DeepCopy()
	override(&out.DefaultNamespace, c.DefaultNamespace)
	override(&out.TargetNamespace, c.TargetNamespace)
	override(&out.ServiceAccount, c.ServiceAccount)
	if c.Helm != nil {
		mergeHelm(ensure(&out.Helm), c.Helm)
	}
	if c.Kustomize != nil {
		override(&ensure(&out.Kustomize).Dir, c.Kustomize.Dir)
	}
	if c.YAML != nil {
		yaml := ensure(&out.YAML)
		yaml.Overlays = append(yaml.Overlays, c.YAML.Overlays...)
	}
	if c.Diff != nil {
		diff := ensure(&out.Diff)
		diff.ComparePatches = mergeLists(diff.ComparePatches, c.Diff.ComparePatches, patchKey)
	}
	if c.ForceSyncGeneration > 0 {
		out.ForceSyncGeneration = c.ForceSyncGeneration
	}
	out.KeepResources = out.KeepResources || c.KeepResources
	out.AllowEmpty = out.AllowEmpty || c.AllowEmpty
	if c.CorrectDrift != nil {
		out.CorrectDrift = c.CorrectDrift
	}
	out.DownstreamResources = mergeLists(out.DownstreamResources, c.DownstreamResources, downstreamKey)
	return out
}

func mergeHelm(out, c *fleet.HelmOptions) {
	switch {
	case c.TimeoutSeconds > 0:
		out.TimeoutSeconds = c.TimeoutSeconds
	case c.TimeoutSeconds < 0:
		out.TimeoutSeconds = 0
	}
	switch {
	case out.Values == nil:
		out.Values = c.Values
	case c.Values != nil:
		out.Values.Data = mergeTrees(out.Values.Data, c.Values.Data)
	}
	if out.TemplateValues == nil {
		out.TemplateValues = c.TemplateValues
	} else {
		maps.Copy(out.TemplateValues, c.TemplateValues)
	}
	out.ValuesFrom = mergeLists(out.ValuesFrom, c.ValuesFrom, valuesFromKey)
	override(&out.Repo, c.Repo)
	override(&out.Chart, c.Chart)
	override(&out.Version, c.Version)
	override(&out.ReleaseName, c.ReleaseName)
	out.Force = out.Force || c.Force
	out.Atomic = out.Atomic || c.Atomic
	out.TakeOwnership = out.TakeOwnership || c.TakeOwnership
	out.DisablePreProcess = out.DisablePreProcess || c.DisablePreProcess
	out.WaitForJobs = out.WaitForJobs || c.WaitForJobs
	out.DisableDNS = out.DisableDNS || c.DisableDNS
}

// ensure returns what p points at, made first if need be.
func ensure[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func override(field *string, custom string) {
	if custom != "" {
		*field = custom
	}
}

// mergeTrees merges maps at every level; what is no map in both is replaced.
func mergeTrees(base, custom map[string]any) map[string]any {
	if base == nil {
		base = map[string]any{}
	}
	for k, v := range custom {
		below, isMap := base[k].(map[string]any)
		above, customIsMap := v.(map[string]any)
		if isMap && customIsMap {
			v = mergeTrees(below, above)
		}
		base[k] = v
	}
	return base
}

// mergeLists replaces the items of base that have the key of an item of custom, and appends the
// other items of custom. Of several items of custom with one key it uses the first.
func mergeLists[T any, K comparable](base, custom []T, key func(T) K) []T {
	places := map[K][]int{}
	for i, item := range base {
		places[key(item)] = append(places[key(item)], i)
	}
	seen := map[K]bool{}
	for _, item := range custom {
		k := key(item)
		if seen[k] {
			continue
		}
		seen[k] = true
		for _, i := range places[k] {
			base[i] = item
		}
		if len(places[k]) == 0 {
			base = append(base, item)
		}
	}
	return base
}

// objectKey identifies an object by whatever the options say of it.
type objectKey struct{ version, kind, namespace, name, key string }

func patchKey(p fleet.ComparePatch) objectKey {
	return objectKey{version: p.APIVersion, kind: p.Kind, namespace: p.Namespace, name: p.Name}
}

func downstreamKey(r fleet.DownstreamResource) objectKey {
	return objectKey{kind: strings.ToLower(r.Kind), name: r.Name}
}

func valuesFromKey(v fleet.ValuesFrom) [2]objectKey {
	var keys [2]objectKey
	if r := v.ConfigMapKeyRef; r != nil {
		keys[0] = objectKey{kind: "ConfigMap", namespace: r.Namespace, name: r.Name, key: r.Key}
	}
	if r := v.SecretKeyRef; r != nil {
		keys[1] = objectKey{kind: "Secret", namespace: r.Namespace, name: r.Name, key: r.Key}
	}
	return keys
}
