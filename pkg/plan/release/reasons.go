package release

// Reasons why a deployment cannot be brought about. They become the reason of
// its conditions.
const (
	// ReasonTimeout: the objects were not ready within helm.timeoutSeconds.
	ReasonTimeout = "TimedOut"
	// ReasonInvalidObject: the API server does not accept an object.
	ReasonInvalidObject = "InvalidObject"
	// ReasonImmutable: an object would have to be deleted and created again.
	ReasonImmutable = "ImmutableField"
	// ReasonNotOwned: an object exists and belongs to another owner.
	ReasonNotOwned = "NotOwned"
	// ReasonSharedObject: a wanted bundle of the same repository has the object.
	ReasonSharedObject = "SharedObject"
	// ReasonIncompatible: the chart asks for another version of Kubernetes.
	ReasonIncompatible = "IncompatibleKubernetes"
	// ReasonRolledBack: helm.atomic undid a change that failed.
	ReasonRolledBack = "RolledBack"
	// ReasonDuplicateObject: the bundle holds an object twice.
	ReasonDuplicateObject = "DuplicateObject"
	// ReasonBadYAML: a manifest cannot be read.
	ReasonBadYAML = "InvalidYAML"

	// ReasonBadContent: the files of the bundle cannot be unpacked.
	ReasonBadContent = "InvalidContent"
	// ReasonBadChart: the chart cannot be loaded.
	ReasonBadChart = "InvalidChart"
	// ReasonBadTemplate: a template of the chart failed.
	ReasonBadTemplate = "TemplateFailed"
	// ReasonBadValues: the values do not fit the chart's schema.
	ReasonBadValues = "InvalidValues"
	// ReasonBadKustomization: the kustomization cannot be built.
	ReasonBadKustomization = "KustomizeFailed"
	// ReasonClusterScoped: an object is outside of the namespace that the
	// bundle is limited to.
	ReasonClusterScoped = "OutsideOfNamespace"
	// ReasonBadName: Helm takes no release of this name.
	ReasonBadName = "InvalidReleaseName"
	// ReasonEmptyResult: nothing is left of a bundle that had objects.
	ReasonEmptyResult = "EmptyResult"
	// ReasonNotImplemented: an option is accepted but not acted on yet.
	ReasonNotImplemented = "NotImplemented"

	// ReasonUnknownKind: no CRD on the cluster serves an object's kind.
	ReasonUnknownKind = "UnknownKind"
	// ReasonNoAccount: the service account does not exist.
	ReasonNoAccount = "ServiceAccountMissing"
	// ReasonReservedAccount: the service account is the agent's own, or another
	// one that Fleet made.
	ReasonReservedAccount = "ServiceAccountReserved"
	// ReasonNoValues: a ConfigMap or Secret with values does not exist.
	ReasonNoValues = "ValuesMissing"
	// ReasonNoNamespace: the namespace does not exist and must not be created.
	ReasonNoNamespace = "NamespaceMissing"
	// ReasonNotAllowed: allowedTargetNamespaceSelector does not allow the
	// namespace.
	ReasonNotAllowed = "NamespaceNotAllowed"
	// ReasonTerminating: the namespace is being deleted.
	ReasonTerminating = "NamespaceTerminating"
	// ReasonForbidden: the API server refuses the rights, or a webhook or a
	// quota refuses the object.
	ReasonForbidden = "Forbidden"
)

// Recorded reports whether a failure is recorded as applied: the status names the
// deployment id as applied, without a release, and the agent does not try again until the
// id changes, unless MayPass reports true. Other permanent failures leave the applied id as
// it was.
func Recorded(reason string) bool {
	switch reason {
	case ReasonTimeout, ReasonInvalidObject, ReasonImmutable, ReasonNotOwned,
		ReasonIncompatible, ReasonRolledBack, ReasonBadYAML:
		return true
	}
	return false
}

// MayPass reports whether a failure that is recorded as applied may pass without a new
// deployment id: a user may remove the object that is in the way. No event reports that to
// the agent, so it tries again.
func MayPass(reason string) bool { return reason == ReasonNotOwned }
