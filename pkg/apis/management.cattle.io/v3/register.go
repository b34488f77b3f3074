package v3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds in this package.
const Group = "management.cattle.io"

// GroupVersion is the group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v3"}

// AddToScheme registers all kinds and their lists. All of them are cluster scoped.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Cluster{}, &ClusterList{},
		&FleetWorkspace{}, &FleetWorkspaceList{},
		&Setting{}, &SettingList{},
		&Feature{}, &FeatureList{},
		&GlobalRole{}, &GlobalRoleList{},
		&GlobalRoleBinding{}, &GlobalRoleBindingList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
