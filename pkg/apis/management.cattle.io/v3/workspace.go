package v3

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FleetWorkspace stands for the namespace of the same name, in which a group of
// people has its clusters and repositories.
//
// +kubebuilder:object:root=true
type FleetWorkspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// FleetWorkspaceList is a list of FleetWorkspaces.
//
// +kubebuilder:object:root=true
type FleetWorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetWorkspace `json:"items"`
}

// Setting is one of Rancher's settings.
//
// +kubebuilder:object:root=true
type Setting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Value   string `json:"value"`
	Default string `json:"default,omitempty"`
}

// SettingList is a list of Settings.
//
// +kubebuilder:object:root=true
type SettingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Setting `json:"items"`
}

// Effective is the value that counts: Value if a user has set it, else Default.
func (s *Setting) Effective() string {
	if s.Value != "" {
		return s.Value
	}
	return s.Default
}

// Feature is one of Rancher's switches.
//
// +kubebuilder:object:root=true
type Feature struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FeatureSpec   `json:"spec,omitempty"`
	Status FeatureStatus `json:"status,omitempty"`
}

// FeatureList is a list of Features.
//
// +kubebuilder:object:root=true
type FeatureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Feature `json:"items"`
}

// FeatureSpec is what a user has set.
type FeatureSpec struct {
	Value *bool `json:"value,omitempty"`
}

// FeatureStatus is what Rancher says of a Feature.
type FeatureStatus struct {
	Default     bool  `json:"default,omitempty"`
	LockedValue *bool `json:"lockedValue,omitempty"`
}

// On reports whether the feature is on: LockedValue counts if set, then Value,
// then the default.
func (f *Feature) On() bool {
	for _, v := range []*bool{f.Status.LockedValue, f.Spec.Value} {
		if v != nil {
			return *v
		}
	}
	return f.Status.Default
}

// GlobalRole is a role of people in the whole of Rancher.
//
// +kubebuilder:object:root=true
type GlobalRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// InheritedFleetWorkspacePermissions are rights in every workspace but
	// fleet-local.
	InheritedFleetWorkspacePermissions *FleetWorkspacePermission `json:"inheritedFleetWorkspacePermissions,omitempty"`
}

// GlobalRoleList is a list of GlobalRoles.
//
// +kubebuilder:object:root=true
type GlobalRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GlobalRole `json:"items"`
}

// FleetWorkspacePermission are rights in workspaces, and on them.
type FleetWorkspacePermission struct {
	ResourceRules  []rbacv1.PolicyRule `json:"resourceRules,omitempty"`
	WorkspaceVerbs []string            `json:"workspaceVerbs,omitempty"`
}

// GlobalRoleBinding gives a GlobalRole to a user or a group.
//
// +kubebuilder:object:root=true
type GlobalRoleBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	UserName           string `json:"userName,omitempty"`
	UserPrincipalName  string `json:"userPrincipalName,omitempty"`
	GroupPrincipalName string `json:"groupPrincipalName,omitempty"`
	GlobalRoleName     string `json:"globalRoleName,omitempty"`
}

// GlobalRoleBindingList is a list of GlobalRoleBindings.
//
// +kubebuilder:object:root=true
type GlobalRoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GlobalRoleBinding `json:"items"`
}
