package kubetest

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Kind is how objects of one kind are served.
type Kind struct {
	schema.GroupVersionKind
	Plural     string // guessed where empty
	Namespaced bool
	Status     bool // status is a subresource
	Generation bool // changes outside of metadata and status are counted
	Custom     bool // a CustomResourceDefinition brings it

	schema *shape // of a kind whose definition was created; nil: every field is kept
}

// resource returns the resource of the kind.
func (k Kind) resource() schema.GroupVersionResource {
	if k.Plural == "" {
		gvr, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
		return gvr
	}
	return k.GroupVersion().WithResource(k.Plural)
}

// builtIn returns the built-in kinds that Fleet uses. Flags: c cluster scoped, s
// status, g generation.
func builtIn() []Kind {
	var out []Kind
	for gv, kinds := range map[schema.GroupVersion]string{
		corev1.SchemeGroupVersion: "ConfigMap Secret ServiceAccount Namespace/cs Node/cs PersistentVolume/cs " +
			"PersistentVolumeClaim/s Service/s Pod/sg",
		appsv1.SchemeGroupVersion:          "Deployment/sg DaemonSet/sg StatefulSet/sg ReplicaSet/sg",
		batchv1.SchemeGroupVersion:         "Job/sg CronJob/sg",
		rbacv1.SchemeGroupVersion:          "Role RoleBinding ClusterRole/c ClusterRoleBinding/c",
		coordinationv1.SchemeGroupVersion:  "Lease",
		eventsv1.SchemeGroupVersion:        "Event",
		networkingv1.SchemeGroupVersion:    "NetworkPolicy/g Ingress/sg",
		policyv1.SchemeGroupVersion:        "PodDisruptionBudget/sg",
		schedulingv1.SchemeGroupVersion:    "PriorityClass/cg",
		apiextensionsv1.SchemeGroupVersion: "CustomResourceDefinition/csg",

		admissionregistrationv1.SchemeGroupVersion: "ValidatingWebhookConfiguration/cg " +
			"ValidatingAdmissionPolicy/csg ValidatingAdmissionPolicyBinding/cg", // these are kept, not enforced
	} {
		for kind := range strings.FieldsSeq(kinds) {
			name, flags, _ := strings.Cut(kind, "/")
			out = append(out, Kind{
				GroupVersionKind: gv.WithKind(name), Namespaced: !strings.Contains(flags, "c"),
				Status: strings.Contains(flags, "s"), Generation: strings.Contains(flags, "g"),
			})
		}
	}
	return out
}

// custom returns the kinds of Fleet and of Rancher for which this project has types.
func custom() []Kind {
	var out []Kind
	for _, k := range fleet.Kinds() {
		out = append(out, Kind{
			GroupVersionKind: fleet.GroupVersion.WithKind(k.Kind), Plural: k.Plural,
			Namespaced: k.Namespaced, Status: k.Status, Generation: true, Custom: true,
		})
	}
	for gv, kinds := range map[schema.GroupVersion]string{
		management.GroupVersion:   "Cluster FleetWorkspace Setting Feature GlobalRole GlobalRoleBinding",
		provisioning.GroupVersion: "Cluster",
	} {
		for kind := range strings.FieldsSeq(kinds) {
			namespaced := gv == provisioning.GroupVersion
			out = append(out, Kind{GroupVersionKind: gv.WithKind(kind), Namespaced: namespaced, Status: namespaced, Generation: true, Custom: true})
		}
	}
	return out
}

// A resource is the objects of one kind, and what has become of them.
type resource struct {
	Kind
	objects map[kube.Key]*record
	log     []change
	lost    int64 // changes up to this version cannot be watched any more
	held    int   // watches get no event while it is above 0
	cuts    int   // how often all watches were ended
	// definition is the name of the CustomResourceDefinition by which the kind is served;
	// empty: it is always served. terminating means that the definition is being deleted.
	definition  string
	terminating bool

	changes chan struct{} // closed with the next change of any of this

	managers map[string]*managedfields.FieldManager // of subresources
}

func newResource(k Kind) *resource {
	return &resource{Kind: k, objects: map[kube.Key]*record{}, changes: make(chan struct{}), managers: map[string]*managedfields.FieldManager{}}
}

// report wakes the watches of the resource.
func (r *resource) report() {
	close(r.changes)
	r.changes = make(chan struct{})
}

// known returns the Go type of a built-in kind; nil if there is none.
func (k Kind) known() runtime.Object {
	if k.Custom {
		return nil
	}
	obj, err := scheme.New(k.GroupVersionKind)
	if err != nil {
		return nil
	}
	return obj
}
