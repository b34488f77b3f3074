package schema

import (
	"strings"

	"github.com/robfig/cron/v3"
	kube "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// The range from which Kubernetes takes ports of nodes, unless the API server is configured
// otherwise.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// checkRefusedValues checks values of well-known kinds that API servers refuse.
func (o *objectCheck) checkRefusedValues(object map[string]any, gvk kube.GroupVersionKind) {
	spec, _ := object["spec"].(map[string]any)
	switch gvk.GroupKind() {
	case kube.GroupKind{Kind: "Service"}:
		o.servicePorts(spec)
	case kube.GroupKind{Kind: "Secret"}:
		o.secretKeys(object)
	case kube.GroupKind{Group: "batch", Kind: "CronJob"}:
		o.schedule(spec)
	case kube.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		least, okLeast := toFloat(spec["minReplicas"])
		most, okMost := toFloat(spec["maxReplicas"])
		if okLeast && okMost && least > most {
			o.addFault(finding.RuleValue, false, []any{"spec", "minReplicas"}, "spec.minReplicas must not be above spec.maxReplicas", "")
		}
	case kube.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:
		o.subjects(object)
	case kube.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}, kube.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:
		o.checkRoleRules(object)
	}
}

// servicePorts checks the ports of a Service.
func (o *objectCheck) servicePorts(spec map[string]any) {
	ports, _ := spec["ports"].([]any)
	for i, p := range ports {
		port, _ := p.(map[string]any)
		path := []any{"spec", "ports", i}
		o.port(port["port"], appendKeys(path, "port"))
		o.port(port["targetPort"], appendKeys(path, "targetPort"))
		n, ok := toFloat(port["nodePort"])
		if at := appendKeys(path, "nodePort"); ok && n != 0 && (n < firstNodePort || n > lastNodePort) {
			o.addWarning(at, position.Path(at)+" is not from 30000 to 32767, which is where Kubernetes takes ports of nodes from",
				"API servers refuse it unless their --service-node-port-range holds it")
		}
	}
}

// schedule checks when a CronJob runs, with the parser of Kubernetes.
func (o *objectCheck) schedule(spec map[string]any) {
	text, ok := spec["schedule"].(string)
	if !ok || text == "" {
		return
	}
	at := []any{"spec", "schedule"}
	if strings.Contains(text, "TZ=") {
		o.addFault(finding.RuleValue, false, at, "spec.schedule takes no time zone", "spec.timeZone is for that")
	} else if _, err := cron.ParseStandard(text); err != nil {
		o.addFault(finding.RuleValue, false, at, "spec.schedule is no cron expression: "+position.ShortName(err.Error()),
			"it has 5 fields, such as \"0 3 * * *\", or is one such as @daily")
	}
}

// secretKeys are the keys that a Secret of a type must have.
var secretKeys = map[string][]string{
	"kubernetes.io/tls":              {"tls.crt", "tls.key"},
	"kubernetes.io/dockerconfigjson": {".dockerconfigjson"},
	"kubernetes.io/dockercfg":        {".dockercfg"},
	"kubernetes.io/ssh-auth":         {"ssh-privatekey"},
}

// secretKeys checks that a Secret has the keys that its type asks for.
func (o *objectCheck) secretKeys(object map[string]any) {
	kind, _ := object["type"].(string)
	data, _ := object["data"].(map[string]any)
	texts, _ := object["stringData"].(map[string]any)
	missing := func(key string) bool {
		_, encoded := data[key]
		_, plain := texts[key]
		return !encoded && !plain
	}
	at, must := []any{"type"}, "a Secret of type "+kind+" must have the key "
	for _, key := range secretKeys[kind] {
		if missing(key) {
			o.addFault(finding.RuleValue, false, at, must+key, "add it to data or stringData")
		}
	}
	if kind == "kubernetes.io/basic-auth" && missing("username") && missing("password") {
		o.addFault(finding.RuleValue, false, at, must+"username or password", "add one of them to data or stringData")
	}
}

// subjects checks that a ClusterRoleBinding says where its service accounts are.
func (o *objectCheck) subjects(object map[string]any) {
	list, _ := object["subjects"].([]any)
	for i, s := range list {
		subject, _ := s.(map[string]any)
		if namespace, _ := subject["namespace"].(string); subject["kind"] == "ServiceAccount" && namespace == "" {
			at := []any{"subjects", i}
			o.addFault(finding.RuleValue, false, at, position.Path(appendKeys(at, "namespace"))+" is missing", "a ServiceAccount in a ClusterRoleBinding needs its namespace")
		}
	}
}
