package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// choices are the texts that the types of well-known fields take. The linked types list
// them in comments only.
var choices = map[reflect.Type][]string{
	reflect.TypeFor[corev1.PullPolicy]():                 {"Always", "IfNotPresent", "Never"},
	reflect.TypeFor[corev1.RestartPolicy]():              {"Always", "OnFailure", "Never"},
	reflect.TypeFor[corev1.ServiceType]():                {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
	reflect.TypeFor[corev1.ServiceAffinity]():            {"ClientIP", "None"},
	reflect.TypeFor[corev1.Protocol]():                   {"TCP", "UDP", "SCTP"},
	reflect.TypeFor[corev1.URIScheme]():                  {"HTTP", "HTTPS"},
	reflect.TypeFor[corev1.PersistentVolumeAccessMode](): {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
	reflect.TypeFor[corev1.PersistentVolumeMode]():       {"Filesystem", "Block"},
	reflect.TypeFor[corev1.DNSPolicy]():                  {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
	reflect.TypeFor[corev1.TaintEffect]():                {"NoSchedule", "PreferNoSchedule", "NoExecute"},
	reflect.TypeFor[appsv1.DeploymentStrategyType]():     {"RollingUpdate", "Recreate"},
	reflect.TypeFor[appsv1.StatefulSetUpdateStrategyType](): {
		"RollingUpdate", "OnDelete",
	},
	reflect.TypeFor[appsv1.DaemonSetUpdateStrategyType](): {"RollingUpdate", "OnDelete"},
	reflect.TypeFor[appsv1.PodManagementPolicyType]():     {"OrderedReady", "Parallel"},
	reflect.TypeFor[batchv1.ConcurrencyPolicy]():          {"Allow", "Forbid", "Replace"},
	reflect.TypeFor[networkingv1.PathType]():              {"Exact", "Prefix", "ImplementationSpecific"},
	reflect.TypeFor[networkingv1.PolicyType]():            {"Ingress", "Egress"},
}

// oneOf checks a text of a type that takes some texts only. Where the cluster's
// Kubernetes may know more than the linked types it is a warning.
func (o *objectCheck) oneOf(text string, t reflect.Type, path []any) {
	list := choices[t]
	if len(list) == 0 || text == "" || slices.Contains(list, text) {
		return
	}
	last := len(list) - 1
	hint := ""
	near := spelling.Nearest(position.ShortName(text), list)
	for _, known := range list {
		if strings.EqualFold(known, text) {
			near = known
		}
	}
	if near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	message := fmt.Sprintf("%s must be %s or %s", position.Path(path), strings.Join(list[:last], ", "), list[last])
	if o.newer {
		o.addWarning(path, message, "this fleet knows Kubernetes up to "+Linked)
		return
	}
	o.addFault(finding.RuleValue, false, path, message, hint)
}
