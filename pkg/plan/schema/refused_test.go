package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What API servers refuse, or what does nothing, is found without one.
func TestRefused(t *testing.T) {
	swap := strings.Replace
	container := func(old, text string) string { return swap(deployment, old, text, 1) }
	service := func(port string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports:\n  - " + port + "\n"
	}
	basic := func(keys string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/basic-auth\nstringData: {" + keys + "}\n"
	}
	cronJob := func(schedule string) string {
		return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  schedule: \"" + schedule + "\"\n"
	}
	job := func(policy string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      restartPolicy: " + policy + "\n      containers: [{name: a, image: b}]\n"
	}
	cronJobOf := func(policy string) string {
		return cronJob("@daily") + "  jobTemplate: {spec: {template: {spec: {restartPolicy: " + policy + ", containers: [{name: a, image: b}]}}}}\n"
	}
	role := func(rule string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules:\n- " + rule + "\n"
	}
	const at = "spec.template.spec.containers[0]"
	cases := map[string]struct {
		text string
		want []string
	}{
		"ContainerPort": {container("80", "80800"), []string{
			"app/a.yaml:18:26: error: Deployment web: " + at + ".ports[0].containerPort must be a number from 1 to 65535 [value]"}},
		"NoImage": {container("        image: nginx\n", ""), []string{"app/a.yaml:15:9: error: Deployment web: " + at + ".image is missing [value]"}},
		"ContainerName": {container("- name: web", "- name: web_1"), []string{"app/a.yaml:15:15: error: Deployment web: " + at + ".name is not possible: " +
			"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character [value]"}},
		"RestartPolicy": {container("      containers:", "      restartPolicy: Never\n      containers:"), []string{
			"app/a.yaml:14:22: error: Deployment web: spec.template.spec.restartPolicy must be Always for pods of a Deployment [value] (pods that end are those of a Job)"}},
		"RestartPolicyOfAJob": {job("Always"), []string{
			"app/a.yaml:7:22: error: Job a: spec.template.spec.restartPolicy must be OnFailure or Never for pods of a Job [value] (pods that run for ever are those of a Deployment)"}},
		"RestartPolicyOfACronJob": {cronJobOf("Always"), []string{
			"app/a.yaml:6:57: error: CronJob a: spec.jobTemplate.spec.template.spec.restartPolicy must be OnFailure or Never for pods of a Job [value] " +
				"(pods that run for ever are those of a Deployment)"}},
		"RestartPolicyRight": {job("Never") + "---\n" + cronJobOf("OnFailure"), nil},
		"Request": {container("limits:", "requests: {cpu: 1, memory: 1024Mi}\n          limits:"), []string{
			"app/a.yaml:20:27: error: Deployment web: " + at + ".resources.requests.cpu must not be above the limit of the container [value] (the limit is 100m)"}},
		"Probe": {container("- containerPort: 80", "- {name: http, containerPort: 80}\n        livenessProbe: {httpGet: {port: htpt}}\n        readinessProbe: {tcpSocket: {port: http}}"), []string{
			"app/a.yaml:19:41: warning: Deployment web: " + at + ".livenessProbe.httpGet.port: the container has no port \"htpt\" [value] (did you mean \"http\"?)"}},
		"ServicePort": {service("{port: 70000, targetPort: 0}"), []string{
			"app/a.yaml:6:12: error: Service a: spec.ports[0].port must be a number from 1 to 65535 [value]",
			"app/a.yaml:6:31: error: Service a: spec.ports[0].targetPort must be a number from 1 to 65535 [value]"}},
		"NodePort": {service("{port: 80, nodePort: 8080}"), []string{
			"app/a.yaml:6:26: warning: Service a: spec.ports[0].nodePort is not from 30000 to 32767, which is where Kubernetes takes ports of nodes from [value] " +
				"(API servers refuse it unless their --service-node-port-range holds it)"}},
		"ServiceRight": {service("{port: 80, targetPort: http, nodePort: 30080}"), nil},
		"Schedule": {cronJob("0 3 * *"), []string{"app/a.yaml:5:13: error: CronJob a: spec.schedule is no cron expression: expected exactly 5 fields, found 4: [0 3 * *] [value] " +
			"(it has 5 fields, such as \"0 3 * * *\", or is one such as @daily)"}},
		"ScheduleZone":  {cronJob("TZ=UTC 0 3 * * *"), []string{"app/a.yaml:5:13: error: CronJob a: spec.schedule takes no time zone [value] (spec.timeZone is for that)"}},
		"ScheduleRight": {cronJob("*/5 0-6,12 1 jan MON-FRI") + "---\n" + cronJob("@daily"), nil},
		"TLS": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/tls\ndata: {tls.crt: YQ==}\n", []string{
			"app/a.yaml:4:7: error: Secret a: a Secret of type kubernetes.io/tls must have the key tls.key [value] (add it to data or stringData)"}},
		"TLSRight": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/tls\ndata: {tls.crt: YQ==}\nstringData: {tls.key: a}\n", nil},
		"BasicAuth": {basic("user: a, pass: b"), []string{
			"app/a.yaml:4:7: error: Secret a: a Secret of type kubernetes.io/basic-auth must have the key username or password [value] (add one of them to data or stringData)"}},
		"BasicAuthRight": {basic("username: a") + "---\n" + basic("password: a"), nil},
		"HPA": {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {minReplicas: 3, maxReplicas: 2}\n", []string{
			"app/a.yaml:4:21: error: HorizontalPodAutoscaler a: spec.minReplicas must not be above spec.maxReplicas [value]"}},
		"Subject": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: a}\nsubjects:\n- {kind: ServiceAccount, name: a}\n- {kind: User, name: a}\n", []string{
			"app/a.yaml:5:3: error: ClusterRoleBinding a: subjects[0].namespace is missing [value] (a ServiceAccount in a ClusterRoleBinding needs its namespace)"}},
		"Singular": {role("{apiGroups: ['', apps], resources: [pod, pods/log, endpoints, Deployments], verbs: [get]}"), []string{
			"app/a.yaml:5:39: warning: Role a: rules[0].resources[0]: there is no resource \"pod\", so that the rule does not allow it [value] (did you mean \"pods\"?)",
			"app/a.yaml:5:65: warning: Role a: rules[0].resources[3]: there is no resource \"Deployments\", so that the rule does not allow it [value] (did you mean \"deployments\"?)"}},
		"Verb": {role("{apiGroups: [''], resources: [pods], verbs: [read, Lists, watch]}"), []string{
			"app/a.yaml:5:48: warning: Role a: rules[0].verbs[0]: there is no verb \"read\", so that it allows nothing [value] (did you mean get, list, watch?)",
			"app/a.yaml:5:54: warning: Role a: rules[0].verbs[1]: there is no verb \"Lists\", so that it allows nothing [value] (did you mean \"list\"?)"}},
		"RightsOfOthers": {role("{apiGroups: [example.com, ''], resources: [pod], verbs: [read]}") + "- {apiGroups: ['*'], resources: [pod], verbs: [own]}\n", nil},
		"Exported": {"apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  annotations:\n    meta.helm.sh/release-name: a\n    meta.helm.sh/release-namespace: b\n" +
			"  labels: {app.kubernetes.io/managed-by: Helm}\n  creationTimestamp: \"2026-01-02T03:04:05Z\"\n  uid: abc\nstatus: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}\n", []string{
			"app/a.yaml:6:32: warning: Service a: metadata.annotations[meta.helm.sh/release-name], metadata.annotations[meta.helm.sh/release-namespace] are not for a manifest [value] " +
				"(Helm sets them itself; take them out)",
			"app/a.yaml:10:8: warning: Service a: metadata.uid, metadata.creationTimestamp, status are not for a manifest [value] (the cluster sets them itself; take them out)"}},
		"Generated": {"apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  creationTimestamp: null\n  labels: {app.kubernetes.io/managed-by: Helm}\nstatus: {loadBalancer: {}}\n", nil},
		"GenerateName": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", []string{
			"app/a.yaml:3:12: error: ConfigMap: metadata.generateName without metadata.name, which Helm cannot install [manifest] (write metadata.name)"}},
		"SameBundle": {crd + "---\n" + mill + "---\n" + swap(mill, "name: old", "name: new", 1), []string{
			"app/a.yaml:31:7: warning: Mill old: the CRD of the kind is in the same bundle (a.yaml), and Helm installs nothing of a bundle before the cluster knows all its kinds [unknown-kind] " +
				"(put the CRD into a bundle of its own, which dependsOn names, or into crds/ of a chart)"}},
		"HookOfSameBundle": {crd + "---\n" + swap(mill, "{name: old}", "{name: old, annotations: {helm.sh/hook: post-install}}", 1), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, found(t, "", c.text)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
