package drift

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRestore(t *testing.T) {
	const service = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: NodePort, ports: [{name: http, port: 80, targetPort: 9376}]}}`
	const moved = `{apiVersion: v1, kind: Service, metadata: {name: a, resourceVersion: "7", labels: {theirs: x}},
	  spec: {type: NodePort, clusterIP: 10.0.0.1, ports: [{name: http, port: 4242, targetPort: 4242, nodePort: 30001, protocol: TCP}]}}`
	scaled := strings.Replace(liveDeployment, "image: web:1", "image: web:2", 1)
	scaled = strings.Replace(scaled, "replicas: 3\n  progress", "replicas: 9\n  progress", 1)
	cases := map[string]struct {
		why          string
		wanted, live string
		patches      []fleet.ComparePatch
		whole        bool
		want         string // empty: nothing
	}{
		"Nothing": {why: "it is as it was deployed", wanted: deployment, live: liveDeployment},
		"Field": {
			why:    "a patch holds the field that differs, and what names it",
			wanted: deployment, live: strings.Replace(liveDeployment, "image: web:1", "image: web:2", 1),
			want: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: prod},
			  spec: {template: {spec: {containers: [{name: main, image: "web:1"}]}}}}`,
		},
		"Ignored": {
			why:    "what a comparePatch names stays, although another field is put back",
			wanted: deployment, live: scaled,
			patches: []fleet.ComparePatch{{Kind: "Deployment", JsonPointers: []string{"/spec/replicas"}}},
			want: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: prod},
			  spec: {template: {spec: {containers: [{name: main, image: "web:1"}]}}}}`,
		},
		"MissingEntry": {
			why: "a patch adds it and leaves the others", wanted: service, live: moved,
			want: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{name: http, port: 80, targetPort: 9376}]}}`,
		},
		"MissingEntryReplaced": {
			why: "a replacement has no other entries, and keeps what the cluster gave", wanted: service, live: moved, whole: true,
			want: `{apiVersion: v1, kind: Service, metadata: {name: a, resourceVersion: "7", labels: {theirs: x}},
			  spec: {type: NodePort, clusterIP: 10.0.0.1, ports: [{name: http, port: 80, targetPort: 9376}]}}`,
		},
		"SecretText": {
			why:    "texts are put back as data",
			wanted: `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: v, l: w}}`,
			live:   `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {k: eA==, l: dw==}}`,
			want:   `{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {k: dg==}}`,
		},
		"CustomResourceList": {
			why:    "a list of an unknown kind is one value",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{name: a}], zero: 0}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{name: b}], zero: 1, more: x}}`,
			want:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{name: a}], zero: 0}}`,
		},
		"CABundle": {
			why: "an injected authority stays, although the address is put back",
			wanted: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
			  webhooks: [{name: w.x.y, clientConfig: {caBundle: QQ==, url: "https://a"}}]}`,
			live: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
			  webhooks: [{name: w.x.y, clientConfig: {caBundle: Qg==, url: "https://b"}}]}`,
			want: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a},
			  webhooks: [{name: w.x.y, clientConfig: {url: "https://a"}}]}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			live := object(t, c.live)
			before := live.DeepCopy()
			got := Restore(object(t, c.wanted), live, c.patches, c.whole)
			if diff := cmp.Diff(before, live); diff != "" {
				t.Errorf("the live object was changed:\n%s", diff)
			}
			if c.want == "" {
				if got != nil {
					t.Errorf("%s: got %v", c.why, got)
				}
				return
			}
			if diff := cmp.Diff(object(t, c.want), got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// What an autoscaler owns stays, although another field is put back.
func TestRestoreLeavesTheScale(t *testing.T) {
	text := strings.Replace(liveDeployment, "image: web:1", "image: web:2", 1)
	live := object(t, strings.Replace(text, "replicas: 3\n  progress", "replicas: 9\n  progress", 1))
	managed(t, live, "autoscaler", "01", `{"f:spec":{"f:replicas":{}}}`)
	fields := live.Object["metadata"].(map[string]any)["managedFields"].([]any)
	fields[0].(map[string]any)["subresource"] = "scale"
	got := Restore(object(t, deployment), live, nil, true)
	spec := got.Object["spec"].(map[string]any)
	if spec["replicas"] != int64(9) || Difference(object(t, deployment), got, nil) != nil {
		t.Errorf("got %v", spec)
	}
}
