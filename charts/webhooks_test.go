package charts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The pods that the Service for webhooks selects listen at the port that it names; those of
// shards do neither. Without gitjob there is no Service.
func TestWebhooks(t *testing.T) {
	objects := mustRender(t, fleetRelease(obj{"shards": []any{obj{"id": "blue"}}}))
	service := objects["Service/cattle-fleet-system/gitjob"]
	if service == nil {
		t.Fatal("there is no Service gitjob")
	}
	spec := obj{
		"selector": obj{"app": "gitjob"},
		"ports":    []any{obj{"name": "http-80", "port": float64(80), "protocol": "TCP", "targetPort": "webhook"}},
	}
	if diff := cmp.Diff(any(spec), service.Object["spec"]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for name, want := range map[string]bool{"gitjob": true, "gitjob-shard-blue": false, "fleet-controller": false} {
		c := container(t, objects, name)
		text := asYAML(t, map[string]*unstructured.Unstructured{name: {Object: c}})
		for _, part := range []string{"name: webhook", "FLEET_WEBHOOK_BIND_ADDRESS"} {
			if strings.Contains(text, part) != want {
				t.Errorf("%s: %q is there: %v", name, part, !want)
			}
		}
	}
	for name := range mustRender(t, fleetRelease(obj{"gitops": obj{"enabled": false}, "gitjob": obj{"ingress": obj{"host": "hooks.example.com"}}})) {
		if strings.HasSuffix(name, "cattle-fleet-system/gitjob") {
			t.Errorf("there is %s without gitjob", name)
		}
	}
}

// An Ingress leads from its host to the Service, with a certificate where there is one.
func TestIngress(t *testing.T) {
	const name = "Ingress/cattle-fleet-system/gitjob"
	if mustRender(t, fleetRelease(obj{}))[name] != nil {
		t.Error("there is an Ingress without a host")
	}
	values := obj{"host": "hooks.example.com", "className": "nginx", "tlsSecret": "hooks-tls", "annotations": obj{"a": "b"}}
	ingress := mustRender(t, fleetRelease(obj{"gitjob": obj{"ingress": values}}))[name]
	if ingress == nil {
		t.Fatal("there is no Ingress")
	}
	backend := obj{"service": obj{"name": "gitjob", "port": obj{"name": "http-80"}}}
	want := obj{
		"ingressClassName": "nginx", "tls": []any{obj{"hosts": []any{"hooks.example.com"}, "secretName": "hooks-tls"}},
		"rules": []any{obj{"host": "hooks.example.com", "http": obj{"paths": []any{obj{"path": "/", "pathType": "Prefix", "backend": backend}}}}},
	}
	if diff := cmp.Diff(any(want), ingress.Object["spec"]); diff != "" || ingress.GetAnnotations()["a"] != "b" {
		t.Errorf("annotations %v, spec -want +got\n%s", ingress.GetAnnotations(), diff)
	}
}
