// Package rancher plays Rancher's part on a test's API server: its kinds, its
// account, its lease, its proxy to other clusters, and those of its controllers
// that Fleet meets. It may be started, stopped and started again at any moment.
//
// What its controllers generate goes through wrangler's Apply, which is Rancher's
// own: objects carry the marks of a set, one that is there already is taken over,
// and what is not wanted any more is pruned by those marks. Nothing that they
// generate has a finalizer, so what happens while Rancher is stopped it never
// learns. The rules are facts of Rancher's sources between 2.11 and 2.15; none of
// its code is here, and none of Fleet's decisions, so that a test compares two
// readings of them. The table of rules is in rules.go.
package rancher

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// User is who Rancher is to the API server and in its audit log.
const User = "system:serviceaccount:cattle-system:rancher"

// Agent is Rancher's User-Agent.
const Agent = "rancher/test"

// Resources of Rancher's kinds.
var (
	Clusters                    = management("clusters")
	Workspaces                  = management("fleetworkspaces")
	Settings                    = management("settings")
	Features                    = management("features")
	GlobalRoles                 = management("globalroles")
	GlobalRoleBindings          = management("globalrolebindings")
	Users                       = management("users")
	Tokens                      = management("tokens")
	RegistrationTokens          = management("clusterregistrationtokens")
	ClusterRoleTemplateBindings = management("clusterroletemplatebindings")
	ManagedCharts               = management("managedcharts")
	ProvClusters                = schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1", Resource: "clusters"}
)

// Resources of Fleet's kinds, and of Kubernetes', that Rancher writes.
var (
	FleetClusters       = fleet("clusters")
	FleetGroups         = fleet("clustergroups")
	FleetBundles        = fleet("bundles")
	FleetHelmOps        = fleet("helmops")
	Namespaces          = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	Secrets             = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	ClusterRoles        = access("clusterroles")
	ClusterRoleBindings = access("clusterrolebindings")
	RoleBindings        = access("rolebindings")
)

func management(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: plural}
}

func fleet(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "fleet.cattle.io", Version: "v1alpha1", Resource: plural}
}

func access(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural}
}

// A kind is what the API server has to know of a resource.
type kind struct {
	name       string
	namespaced bool
	status     bool // it has a status subresource
}

func (k kind) scope() apiextensionsv1.ResourceScope {
	if k.namespaced {
		return apiextensionsv1.NamespaceScoped
	}
	return apiextensionsv1.ClusterScoped
}

// own are Rancher's kinds.
var own = map[schema.GroupVersionResource]kind{
	Clusters:                    {name: "Cluster", status: true}, // rancher-differences.md, C 13
	Workspaces:                  {name: "FleetWorkspace"},
	Settings:                    {name: "Setting"},
	Features:                    {name: "Feature"},
	GlobalRoles:                 {name: "GlobalRole"},
	GlobalRoleBindings:          {name: "GlobalRoleBinding"},
	Users:                       {name: "User"},
	Tokens:                      {name: "Token"},
	RegistrationTokens:          {name: "ClusterRegistrationToken", namespaced: true},
	ClusterRoleTemplateBindings: {name: "ClusterRoleTemplateBinding", namespaced: true},
	ManagedCharts:               {name: "ManagedChart", namespaced: true},
	ProvClusters:                {name: "Cluster", namespaced: true, status: true},
}

// others are the kinds of others that Rancher watches or generates.
var others = map[schema.GroupVersionResource]kind{
	FleetClusters:       {name: "Cluster", namespaced: true, status: true},
	FleetGroups:         {name: "ClusterGroup", namespaced: true, status: true},
	FleetBundles:        {name: "Bundle", namespaced: true, status: true},
	FleetHelmOps:        {name: "HelmOp", namespaced: true, status: true},
	Namespaces:          {name: "Namespace", status: true},
	Secrets:             {name: "Secret", namespaced: true},
	ClusterRoles:        {name: "ClusterRole"},
	ClusterRoleBindings: {name: "ClusterRoleBinding"},
	RoleBindings:        {name: "RoleBinding", namespaced: true},
}

// kindOf is the kind of a resource.
func kindOf(r schema.GroupVersionResource) schema.GroupVersionKind {
	k, ok := own[r]
	if !ok {
		k = others[r]
	}
	return r.GroupVersion().WithKind(k.name)
}
