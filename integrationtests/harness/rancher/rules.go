package rancher

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// local is the name of the management Cluster that Rancher runs in, and of all
// that is made of it.
const local = "local"

// Features that decide which rules there are.
const (
	featureFleet          = "fleet"
	featureMCM            = "multi-cluster-management"
	featureBackPopulation = "provisioningv2-fleet-workspace-back-population"
	featureScheduling     = "cluster-agent-scheduling-customization"
)

// A rule is one handler of Rancher's.
type rule struct {
	id      string
	follows string                        // the places in the specification; docs/reference-behaviour.md has those in Rancher
	on      schema.GroupVersionResource   // its turn comes when one of these changes
	makes   []schema.GroupVersionResource // what it generates, and prunes when it sees its owner go
	feature string                        // without it there is no such rule

	// turn looks at an object that is not being deleted, and returns it where it has
	// changed it.
	turn func(*session, *object) (*object, error)
	// dying looks at one that is; errSkip: it is not done yet. With it the rule has a
	// finalizer.
	dying func(*session, *object) error
}

// What rules generate.
var (
	madeOfClusters   = []schema.GroupVersionResource{FleetClusters, FleetGroups}
	madeOfWorkspaces = []schema.GroupVersionResource{Namespaces, RoleBindings, ClusterRoles, ClusterRoleBindings}
	madeOfManagement = []schema.GroupVersionResource{ProvClusters}
	madeOfCharts     = []schema.GroupVersionResource{FleetBundles}
	madeOfProvision  = []schema.GroupVersionResource{Clusters, ClusterRoleTemplateBindings, ClusterRoleBindings}
)

// table are the rules, in the order of their turns.
var table = []rule{
	// Clusters of Rancher become Fleet's.
	{
		id: "fleet-cluster", follows: "rancher-integration.md, 1.4.5; rancher-differences.md, A 3, B 7 and B 10",
		on: ProvClusters, makes: madeOfClusters, feature: featureFleet, turn: (*session).fleetCluster,
	},
	{
		id: "fleet-cluster-assign", follows: "rancher-integration.md, 1.4.4",
		on: Clusters, feature: featureFleet, turn: (*session).assign,
	},
	// Workspaces and namespaces.
	{
		id: "default-workspace", follows: "rancher-integration.md, 1.6",
		on: Settings, feature: featureFleet, turn: (*session).defaultWorkspace,
	},
	{
		id: "workspace", follows: "rancher-integration.md, 1.7 and 1.9",
		on: Workspaces, makes: madeOfWorkspaces, feature: featureFleet, turn: (*session).workspace,
	},
	{
		id: "workspace-backport-cluster", follows: "rancher-integration.md, 1.7",
		on: FleetClusters, feature: featureFleet, turn: (*session).backport,
	},
	{
		id: "workspace-backport-bundle", follows: "rancher-integration.md, 1.7",
		on: FleetBundles, feature: featureFleet, turn: (*session).backport,
	},
	{
		id: "namespace-project", follows: "rancher-integration.md, 1.7",
		on: Namespaces, turn: (*session).project,
	},
	// Rights of GlobalRoles in workspaces, which do not belong to the feature fleet.
	{
		id: "mgmt-auth-gr-controller", follows: "rancher-integration.md, 1.9; rancher-differences.md, B 6",
		on: GlobalRoles, feature: featureMCM, turn: (*session).globalRole,
	},
	{
		id: "mgmt-auth-grb-controller", follows: "rancher-integration.md, 1.9; rancher-differences.md, B 6",
		on: GlobalRoleBindings, feature: featureMCM, turn: (*session).globalRoleBinding,
	},
	// Charts of Rancher's catalog, which become Bundles.
	{
		id: "mcc-bundle", follows: "rancher-integration.md, 1.4; rancher-differences.md, D",
		on: ManagedCharts, makes: madeOfCharts, feature: featureFleet, turn: (*session).managedChart,
	},
	{
		id: "mcc-from-bundle-trigger", follows: "rancher-integration.md, 1.4; rancher-differences.md, D",
		on: FleetBundles, feature: featureFleet, turn: (*session).chartStatus,
	},
	// The cluster autoscaler, which Rancher deploys by a HelmOp.
	{
		id: "autoscaler-status-sync", follows: "rancher-integration.md, 1.11; rancher-differences.md, A 2",
		on: FleetHelmOps, turn: (*session).autoscaler,
	},
	// The two cluster kinds of Rancher.
	{
		id: "v1-scheduling-customization-backfill", follows: "rancher-integration.md, 1.5; rancher-differences.md, D",
		on: ProvClusters, feature: featureScheduling, turn: (*session).backfillProvisioning,
	},
	{
		id: "v3-scheduling-customization-backfill", follows: "rancher-integration.md, 1.5; rancher-differences.md, D",
		on: Clusters, feature: featureScheduling, turn: (*session).backfillLegacy,
	},
	{
		id: "cluster-namespace", follows: "rancher-integration.md, 1.6 and 1.7",
		on: Clusters, turn: (*session).backing,
	},
	{
		id: "provisioning-cluster-create", follows: "rancher-integration.md, 1.4.1; rancher-differences.md, C 11",
		on: Clusters, makes: madeOfManagement, turn: (*session).provisioning,
	},
	{
		id: "cluster-create", follows: "rancher-integration.md, 1.4.2 and 1.4.3; rancher-differences.md, C 14",
		on: ProvClusters, makes: madeOfProvision, turn: (*session).cluster,
	},
	{
		id: "provisioning-cluster-update", follows: "rancher-integration.md, 1.4",
		on: ProvClusters, turn: (*session).displayName,
	},
	{
		id: "cluster-watch", follows: "rancher-integration.md, 1.4",
		on: Clusters, turn: (*session).registrationToken,
	},
	{
		id: "mgmt-cluster-remove", follows: "rancher-integration.md, 1.8",
		on: Clusters, dying: (*session).clusterDies,
	},
	{
		id: "provisioning-cluster-remove", follows: "rancher-integration.md, 1.8",
		on: ProvClusters, dying: (*session).provisioningDies,
	},
}

// run gives a rule its turn. It returns the object where that has changed.
func (r rule) run(s *session, obj *object) (*object, error) {
	gone := obj.GetDeletionTimestamp() != nil
	if r.dying == nil {
		if gone {
			return nil, nil
		}
		return r.turn(s, obj)
	}
	finalizer := "wrangler.cattle.io/" + r.id
	list := obj.GetFinalizers()
	switch has := slices.Contains(list, finalizer); {
	case has == !gone:
		return nil, nil
	case !gone:
		obj.SetFinalizers(append(list, finalizer))
		return s.update(r.on, obj)
	}
	if err := r.dying(s, obj); err != nil {
		return nil, err
	}
	obj.SetFinalizers(slices.DeleteFunc(slices.Clone(list), func(f string) bool { return f == finalizer }))
	changed, err := s.update(r.on, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return changed, err
}

// clusterDies deletes the provisioning Cluster, and waits for its end where that
// came first.
func (s *session) clusterDies(m *object) error {
	list, err := s.caches[ProvClusters].GetIndexer().ByIndex(byCluster, m.GetName())
	if err != nil {
		return err
	}
	waits := false
	for _, found := range list {
		p := found.(*object)
		waits = waits || !legacy(p.GetName())
		if err := s.delete(ProvClusters, p.GetNamespace(), p.GetName()); err != nil {
			return err
		}
	}
	if waits {
		return errors.New("its provisioning Cluster is still there") // it looks again
	}
	return nil
}

// provisioningDies deletes the management Cluster, if this is not the old half of
// one that has moved, and its technical user.
func (s *session) provisioningDies(p *object) error {
	name := text(p, "status", "clusterName")
	m, err := s.objects.Resource(Clusters).Get(s.ctx, name, metav1.GetOptions{})
	if name != "" && err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if name != "" && err == nil && text(m, "spec", "fleetWorkspaceName") == p.GetNamespace() {
		if err := s.delete(Clusters, "", name); err != nil {
			return err
		}
		if legacy(name) && s.cached(Clusters, name) != nil {
			return errors.New("its management Cluster is still there") // it looks again
		}
	}
	return s.delete(Users, "", technicalUser(p.GetNamespace(), p.GetName()))
}

// delete removes an object; that it is gone is no error.
func (s *session) delete(r schema.GroupVersionResource, namespace, name string) error {
	err := s.objects.Resource(r).Namespace(namespace).Delete(s.ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// make makes an object that is not there.
func (s *session) make(r schema.GroupVersionResource, obj *object) error {
	_, err := s.objects.Resource(r).Namespace(obj.GetNamespace()).Create(s.ctx, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
