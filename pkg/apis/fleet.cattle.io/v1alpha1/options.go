package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BundleDeploymentOptions says how the resources of a bundle are deployed.
//
// The order of the fields is part of the contract: deployment ids are digests
// of this struct's JSON.
type BundleDeploymentOptions struct {
	// YAML holds the options of bundles of plain manifests.
	// +optional
	YAML *YAMLOptions `json:"yaml,omitempty"`

	// Kustomize holds the options of kustomize bundles.
	// +optional
	Kustomize *KustomizeOptions `json:"kustomize,omitempty"`

	// DefaultNamespace is the namespace of the release and of every object that
	// does not name one. Default: "default", unless namespace is set.
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// TargetNamespace is forced on every object; a cluster-scoped object then
	// fails the deployment. Default: none.
	// +optional
	TargetNamespace string `json:"namespace,omitempty"`

	// Helm holds the options of the Helm release. Some of them, such as the
	// release name, also apply to bundles that bring no chart.
	// +optional
	Helm *HelmOptions `json:"helm,omitempty"`

	// ServiceAccount is the account in the agent's namespace that the agent
	// impersonates. Default: fleet-default if that exists, else the agent's own.
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// CreateNamespace says whether Helm creates the release namespace on
	// install. Default: true.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// ForceSyncGeneration is raised to deploy the same content again.
	// +optional
	ForceSyncGeneration int64 `json:"forceSyncGeneration,omitempty"`

	// Diff says which differences from the manifests are not drift. It is not
	// part of the deployment id.
	// +optional
	Diff *DiffOptions `json:"diff,omitempty"`

	// KeepResources leaves the objects in the cluster when the deployment is
	// removed; only the release is forgotten. Default: false.
	// +optional
	KeepResources bool `json:"keepResources,omitempty"`

	// AllowEmpty says that it is no mistake if nothing is left of a bundle that
	// had objects: they are removed. Default: false, and then they stay unless
	// the bundle is a chart whose options have changed.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`

	// DeleteNamespace deletes the target namespace on a cluster when the
	// deployment is removed from it, unless another release or an object of
	// another bundle is in it. Default: false.
	// +optional
	DeleteNamespace bool `json:"deleteNamespace,omitempty"`

	// IgnoreOptions says what does not count when readiness is judged.
	// +optional
	IgnoreOptions `json:"ignore,omitzero"`

	// CorrectDrift says whether changes made by others are undone. It is not
	// part of the deployment id.
	// +optional
	CorrectDrift *CorrectDrift `json:"correctDrift,omitempty"`

	// NamespaceLabels replace the labels of the release namespace after
	// install. Default: labels are left alone.
	// +optional
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`

	// NamespaceAnnotations replace the annotations of the release namespace
	// after install. Default: annotations are left alone.
	// +optional
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations,omitempty"`

	// DeleteCRDResources deletes CustomResourceDefinitions, and thereby all
	// their objects, with the release. Default: false, they are kept.
	// +optional
	DeleteCRDResources bool `json:"deleteCRDResources,omitempty"`

	// DownstreamResources are Secrets and ConfigMaps that are copied from the
	// bundle's namespace to the release namespace downstream.
	// +optional
	DownstreamResources []DownstreamResource `json:"downstreamResources,omitempty"`

	// Overwrites lists objects that another bundle of the same repository
	// deployed before. Written by Fleet while it reads the repository.
	// +optional
	Overwrites []OverwrittenResource `json:"overwrites,omitempty"`

	// AllowedTargetNamespaceSelector must match the labels of the downstream
	// namespace. Written by Fleet from GitRepoRestrictions.
	// +optional
	AllowedTargetNamespaceSelector *metav1.LabelSelector `json:"allowedTargetNamespaceSelector,omitempty"`
}

// KustomizeOptions are the options of bundles with a kustomization.
type KustomizeOptions struct {
	// Dir is the directory of kustomization.yaml, relative to the bundle.
	// Default: the bundle's own directory.
	// +optional
	Dir string `json:"dir,omitempty"`
}

// YAMLOptions are the options of bundles of plain manifests.
type YAMLOptions struct {
	// Overlays names directories below overlays/ whose files replace, add to or
	// patch those of the bundle, in this order.
	// +optional
	Overlays []string `json:"overlays,omitempty"`
}

// HelmOptions are the options of a Helm release.
type HelmOptions struct {
	// ValuesFiles are files of the repository, relative to the bundle, that are
	// merged over values when the repository is read, in this order.
	// +optional
	ValuesFiles []string `json:"valuesFiles,omitempty"`

	// Chart is a directory in the bundle, the URL of an archive, a git source,
	// or the name of a chart in repo.
	// +optional
	Chart string `json:"chart,omitempty"`

	// Repo is the URL of a Helm repository (https), or of a chart in a registry
	// (oci://host/path/chart).
	// +optional
	Repo string `json:"repo,omitempty"`

	// ReleaseName is the name of the Helm release. Default: made from the names
	// of the repository and the path.
	// +kubebuilder:validation:MaxLength=53
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	ReleaseName string `json:"releaseName,omitempty"`

	// Version is the version of the chart, exact or a semver constraint.
	// Default: the latest.
	// +optional
	Version string `json:"version,omitempty"`

	// TimeoutSeconds is how long Helm waits for the objects to become ready, in
	// seconds. Default: 0, it does not wait. In a customization a negative
	// number sets it back to 0.
	// +optional
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`

	// Values are passed to Helm. Keys and values may hold templates between
	// ${ and } that are rendered for each cluster.
	// +optional
	Values *GenericMap `json:"values,omitempty"`

	// TemplateValues are templates, each of which renders to YAML and then
	// replaces the key of the same name in values.
	// +optional
	TemplateValues map[string]string `json:"templateValues,omitempty"`

	// ValuesFrom are ConfigMaps and Secrets on the downstream cluster whose
	// values are merged over values, in this order.
	// +optional
	ValuesFrom []ValuesFrom `json:"valuesFrom,omitempty"`

	// Force replaces objects instead of patching them. Default: false.
	// +optional
	Force bool `json:"force,omitempty"`

	// TakeOwnership installs over objects that belong to another release or to
	// none. Default: false.
	// +optional
	TakeOwnership bool `json:"takeOwnership,omitempty"`

	// MaxHistory is how many revisions of the release are kept. Default: 2.
	// +optional
	MaxHistory int `json:"maxHistory,omitempty"`

	// WaitForJobs also waits for Jobs. Needs timeoutSeconds. Default: false.
	// +optional
	WaitForJobs bool `json:"waitForJobs,omitempty"`

	// Atomic rolls back an install or upgrade that failed. Default: false.
	// +optional
	Atomic bool `json:"atomic,omitempty"`

	// DisablePreProcess switches off the templates in values. Default: false.
	// +optional
	DisablePreProcess bool `json:"disablePreProcess,omitempty"`

	// DisableDNS switches off DNS lookups in chart templates. Default: false.
	// +optional
	DisableDNS bool `json:"disableDNS,omitempty"`

	// SkipSchemaValidation ignores the chart's values.schema.json. Default:
	// false.
	// +optional
	SkipSchemaValidation bool `json:"skipSchemaValidation,omitempty"`

	// DisableDependencyUpdate does not download the chart's dependencies when
	// the repository is read. Default: false.
	// +optional
	DisableDependencyUpdate bool `json:"disableDependencyUpdate,omitempty"`
}

// ValuesFrom names one ConfigMap, one Secret, or both, on the downstream
// cluster. Of both, the Secret is merged last.
type ValuesFrom struct {
	// ConfigMapKeyRef is a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *ConfigMapKeySelector `json:"configMapKeyRef,omitempty"`

	// SecretKeyRef is a key of a Secret.
	// +optional
	SecretKeyRef *SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// ConfigMapKeySelector is a key of a ConfigMap.
type ConfigMapKeySelector struct {
	LocalObjectReference `json:",inline"`

	// Namespace of the ConfigMap. Default: the release namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Key in the ConfigMap, holding YAML. Default: values.yaml.
	// +optional
	Key string `json:"key,omitempty"`
}

// SecretKeySelector is a key of a Secret.
type SecretKeySelector struct {
	LocalObjectReference `json:",inline"`

	// Namespace of the Secret. Default: the release namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Key in the Secret, holding YAML. Default: values.yaml.
	// +optional
	Key string `json:"key,omitempty"`
}

// DiffOptions says which differences from the manifests are not drift.
type DiffOptions struct {
	// ComparePatches each name objects and what is ignored on them.
	// +optional
	ComparePatches []ComparePatch `json:"comparePatches,omitempty"`
}

// ComparePatch names objects and what is ignored when they are compared.
type ComparePatch struct {
	// APIVersion of the objects.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the objects.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the object; for an ignore operation also a regular expression,
	// or empty for all.
	// +optional
	Name string `json:"name,omitempty"`

	// Namespace of the objects.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// JsonPointers name the fields that are not compared.
	// +optional
	JsonPointers []string `json:"jsonPointers,omitempty"` //nolint:revive // the name is part of the Go API

	// Operations are JSON patch operations applied to both sides before they
	// are compared, or {"op": "ignore"}.
	// +optional
	Operations []Operation `json:"operations,omitempty"`
}

// Operation is one JSON patch operation of a ComparePatch.
type Operation struct {
	// Op is a JSON patch operation, usually remove; or ignore, which leaves
	// missing objects out of the report.
	// +optional
	Op string `json:"op,omitempty"`

	// Path is the JSON pointer that op works on.
	// +optional
	Path string `json:"path,omitempty"`

	// Value is what add and replace set.
	// +optional
	Value string `json:"value,omitempty"`
}

// IgnoreOptions says what does not count when readiness is judged.
type IgnoreOptions struct {
	// Conditions each hold keys and values; a condition of a live object that
	// has them all is ignored.
	// +optional
	Conditions []map[string]string `json:"conditions,omitempty"`
}

// DownstreamResource names a Secret or ConfigMap in the bundle's namespace.
type DownstreamResource struct {
	// Kind is Secret or ConfigMap, in any case.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`
}

// OverwrittenResource names an object that another bundle deployed before.
type OverwrittenResource struct {
	// Kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// Namespace of the object; empty for cluster-scoped ones.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}
