package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds in this package.
const Group = "fleet.cattle.io"

// GroupVersion is the group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// KindInfo says how one kind is addressed.
//
// +kubebuilder:object:generate=false
type KindInfo struct {
	Kind       string // as in an object's kind field
	Plural     string // as in a URL
	Namespaced bool   // false: cluster scoped
	Status     bool   // true: status is a subresource of its own
	object     func() runtime.Object
	list       func() runtime.Object
}

// New returns an empty object of the kind.
func (k KindInfo) New() runtime.Object { return k.object() }

// NewList returns an empty list of the kind.
func (k KindInfo) NewList() runtime.Object { return k.list() }

// Name returns the name of the kind's CustomResourceDefinition.
func (k KindInfo) Name() string { return k.Plural + "." + Group }

var kinds = []KindInfo{
	{"Bundle", "bundles", true, true, make0[Bundle], make0[BundleList]},
	{"BundleDeployment", "bundledeployments", true, true, make0[BundleDeployment], make0[BundleDeploymentList]},
	{"BundleNamespaceMapping", "bundlenamespacemappings", true, true,
		make0[BundleNamespaceMapping], make0[BundleNamespaceMappingList]},
	{"Cluster", "clusters", true, true, make0[Cluster], make0[ClusterList]},
	{"ClusterGroup", "clustergroups", true, true, make0[ClusterGroup], make0[ClusterGroupList]},
	{"ClusterRegistration", "clusterregistrations", true, true,
		make0[ClusterRegistration], make0[ClusterRegistrationList]},
	{"ClusterRegistrationToken", "clusterregistrationtokens", true, true,
		make0[ClusterRegistrationToken], make0[ClusterRegistrationTokenList]},
	{"Content", "contents", false, true, make0[Content], make0[ContentList]},
	{"GitRepo", "gitrepos", true, true, make0[GitRepo], make0[GitRepoList]},
	{"GitRepoRestriction", "gitreporestrictions", true, true,
		make0[GitRepoRestriction], make0[GitRepoRestrictionList]},
	{"HelmOp", "helmops", true, true, make0[HelmOp], make0[HelmOpList]},
	{"ImageScan", "imagescans", true, true, make0[ImageScan], make0[ImageScanList]},
	{"Policy", "policies", true, false, make0[Policy], make0[PolicyList]},
	{"Schedule", "schedules", true, true, make0[Schedule], make0[ScheduleList]},
}

// object is what a pointer to any type of this package's kinds offers.
//
// +kubebuilder:object:generate=false
type object[T any] interface {
	*T
	runtime.Object
}

func make0[T any, P object[T]]() runtime.Object { return P(new(T)) }

// Kinds returns all kinds of the group, sorted by name.
func Kinds() []KindInfo { return slices.Clone(kinds) }

// Resource returns how objects of kind are addressed; ok is false for a kind
// that is not of this group.
func Resource(kind string) (plural string, namespaced bool, ok bool) {
	for _, k := range kinds {
		if k.Kind == kind {
			return k.Plural, k.Namespaced, true
		}
	}
	return "", false, false
}

// AddToScheme registers all kinds and their lists.
func AddToScheme(s *runtime.Scheme) error {
	for _, k := range kinds {
		s.AddKnownTypeWithName(GroupVersion.WithKind(k.Kind), k.New())
		s.AddKnownTypeWithName(GroupVersion.WithKind(k.Kind+"List"), k.NewList())
	}
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
