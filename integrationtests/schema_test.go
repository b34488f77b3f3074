package integrationtests

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
)

const (
	lintedDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: linted, labels: {app: web}}
spec:
  replicas: 2
  selector:
    matchExpressions: [{key: app, operator: In, values: [web]}]
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx
        imagePullPolicy: Always
        ports: [{containerPort: 80}]
        resources: {limits: {cpu: 100m}}
`
	lintedDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mills.lint.example.com}
spec:
  group: lint.example.com
  scope: Namespaced
  names: {kind: Mill, plural: mills}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [wings]
            properties:
              wings: {type: integer}
              grain: {type: string, enum: [rye, wheat]}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
              notes: {type: object, additionalProperties: {type: string}}
              port: {x-kubernetes-int-or-string: true}
`
	lintedMill = "apiVersion: lint.example.com/v1\nkind: Mill\nmetadata: {name: linted}\nspec: {wings: 4, grain: rye, extra: {any: [1]}, notes: {a: b}, port: http}\n"
)

// What fleet lint says of an object is what the API server says when an agent asks
// it: the same objects are refused, and the others are not.
func lintedObjects(t *testing.T, server *cluster.Cluster) {
	client, err := dynamic.NewForConfig(server.REST())
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := schema.New("")
	if err != nil {
		t.Fatal(err)
	}
	definition := objectOf(t, lintedDefinition)
	kinds.Add(definition.Object)
	if _, err := client.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mills := definitions.GroupResource().WithVersion("v1")
	mills.Group, mills.Resource = "lint.example.com", "mills"
	until(t, "mills are served", func() bool {
		_, err := client.Resource(mills).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	swaps := map[string][][2]string{
		lintedDeployment: {
			{"", ""}, {"replicas: 2", "replica: 2"}, {"replicas: 2", "replicas: two"}, {"replicas: 2", "replicas: 2.5"}, {"replicas: 2", "replicas: 3000000000"},
			{"replicas: 2", "replicas:"}, {"replicas: 2", "replicas: 2.0"}, {"replicas: 2", "Replicas: 2"}, {"containerPort: 80", "containerPort: http"},
			{"imagePullPolicy", "pullPolicy"}, {"image: nginx", "image: 7"}, {"ports: [{containerPort: 80}]", "ports: {containerPort: 80}"},
			{"cpu: 100m", "cpu: 100 m"}, {"cpu: 100m", "cpu: 2"}, {"operator: In", "operator: Is"}, {"operator: In", "operator: Exists"}, {"name: linted, labels: {app: web}", "name: linted, labels: {app: a/b}"},
			{"name: linted, labels: {app: web}", "name: linted, labels: {-a: b}"}, {"name: linted, labels: {app: web}", "name: Linted"},
			{"name: linted, labels: {app: web}", "name: linted, annotations: {'a b': c}"}, {"name: linted, labels: {app: web}", "name: linted, label: {a: b}"},
			{"name: linted, labels: {app: web}", "name: linted, labels: {a: 1}"}, {"name: linted, labels: {app: web}", "name: linted, annotations: {A.b/C: d}"},
		},
		lintedMill: {
			{"", ""}, {"wings: 4", "wings: four"}, {"wings: 4, ", ""}, {"grain: rye", "grain: oats"}, {"grain: rye", "grein: rye"}, {"a: b", "a: 1"}, {"any: [1]", "any: {x: y}"},
			{"port: http", "port: 80"}, {"port: http", "port: [80]"}, {"name: linted", "name: linted, labels: {app: a/b}"}, {"name: linted", "name: linted, colour: red"},
			{"name: linted", "name: Linted"},
		},
	}
	for text, list := range swaps {
		for _, swap := range list {
			o := objectOf(t, strings.Replace(text, swap[0], swap[1], 1))
			var said []string
			for _, f := range kinds.Check(o.Object) {
				if f.Severity == finding.Error {
					said = append(said, f.Message)
				}
			}
			resource, _ := apimeta.UnsafeGuessKindToResource(o.GroupVersionKind())
			_, err := client.Resource(resource).Namespace("default").Create(t.Context(), o,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
				t.Fatalf("%q: %v", swap, err)
			}
			if (err != nil) != (len(said) > 0) {
				t.Errorf("%s, %q for %q: lint says %q, the API server %v", o.GetKind(), swap[1], swap[0], said, err)
			}
		}
	}
}

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}
