// Package workspace has the decisions by which Rancher's clusters and workspaces become
// Fleet's; pkg/workspace applies them. It decides whether Rancher or this manager maps
// them, which workspace a cluster belongs to, the fields of its Cluster, and which
// namespaces a workspace may have. It reads and writes nothing. The rules are those of
// Rancher's own controllers, so that both produce the same objects.
package workspace

// Names in Rancher's objects.
const (
	// AnnotationExternallyManaged on a management Cluster says that another program makes
	// its Fleet Cluster. Empty and "false" say nothing.
	AnnotationExternallyManaged = "provisioning.cattle.io/externally-managed"
	// AnnotationDisplayName on a provisioning Cluster is the display name of its
	// management Cluster.
	AnnotationDisplayName = "provisioning.cattle.io/management-cluster-display-name"
	// AnnotationManaged on a FleetWorkspace: with "false" the manager leaves its namespace
	// alone.
	AnnotationManaged = "provisioning.cattle.io/managed"
	// AnnotationAllowExisting on a Namespace lets a FleetWorkspace have it though it was
	// there before. On a FleetWorkspace it says nothing: a user who may make one need not
	// have any right in the namespace.
	AnnotationAllowExisting = "field.cattle.io/allow-fleetworkspace-creation-for-existing-namespace"
	// AnnotationCreator on a FleetWorkspace is who has made it.
	AnnotationCreator = "field.cattle.io/creatorId"
	// AnnotationNoCreatorRBAC on a FleetWorkspace gives that person no rights.
	AnnotationNoCreatorRBAC = "field.cattle.io/no-creator-rbac"
	// AnnotationDeleteClusters on a FleetWorkspace lets it be deleted with the clusters
	// that are in it. It is Fleet's own.
	AnnotationDeleteClusters = "fleet.cattle.io/delete-workspace-with-clusters"
	// AnnotationOrigin on a Namespace says whether the manager made it for its workspace,
	// or found it: OriginCreated or OriginAdopted. It is Fleet's own.
	AnnotationOrigin = "fleet.cattle.io/workspace-origin"

	// LabelName is "local" on the Cluster of the manager's own cluster.
	LabelName = "name"

	labelSystemNamespace = "management.cattle.io/system-namespace"
	labelManagedBy       = "app.kubernetes.io/managed-by"
	rancher              = "rancher"
	yes                  = "true"
)

// Settings of Rancher that count here.
const (
	SettingDefaultWorkspace = "fleet-default-workspace-name"
	SettingRegistry         = "system-default-registry"
	SettingPullSecrets      = "system-default-registry-pull-secrets"
	SettingAffinity         = "fleet-agent-default-affinity"
)

// Values of AnnotationOrigin.
const (
	OriginCreated = "created"
	OriginAdopted = "adopted"
)

// Local is the name of the management Cluster that Rancher runs in.
const Local = "local"
