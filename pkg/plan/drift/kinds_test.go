package drift

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What manifests say in a way of their own is no drift; what means something else
// is. Each pair differs in one thing.
func TestMeaning(t *testing.T) {
	cases := map[string]struct {
		why          string
		wanted, live string
		want         string
	}{
		"EmptyClusterIP": {
			why:    "an empty address asks for any",
			wanted: `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: "", type: "", ports: [{port: 80, nodePort: 0}]}}`,
			live: `{apiVersion: v1, kind: Service, metadata: {name: a},
			  spec: {clusterIP: 10.0.0.1, type: ClusterIP, ports: [{port: 80, targetPort: 80, nodePort: 30001, protocol: TCP}]}}`,
		},
		"EmptySelectorValue": {
			why:    "an empty text that the user gave a name counts, whatever the name",
			wanted: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {type: ""}}`,
			live:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {type: x}}`,
			want:   `{"data":{"type":"x"}}`,
		},
		"EmptyAPIGroup": {
			why: "the API server fills it in",
			wanted: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
			  roleRef: {apiGroup: "", kind: Role, name: r}, subjects: [{kind: User, name: x, apiGroup: ""}]}`,
			live: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a},
			  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: User, name: x, apiGroup: rbac.authorization.k8s.io}]}`,
		},
		"EmptyPolicyTypes": {
			why:    "the API server fills them in",
			wanted: `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, policyTypes: [], ingress: []}}`,
			live:   `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, policyTypes: [Ingress]}}`,
		},
		"ExportedAnnotations": {
			why: "what tools and controllers keep in annotations is theirs",
			wanted: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations:
			  {kubectl.kubernetes.io/last-applied-configuration: "{}", deployment.kubernetes.io/revision: "1", mine: x}}}`,
			live: `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {deployment.kubernetes.io/revision: "7", mine: x}}}`,
		},
		"QuantityInCustomResource": {
			why:    "a controller rewrote it in its own spelling",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: 1}}}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: "1"}}}}`,
		},
		"QuantityInCustomResourceDiffers": {
			why:    "another amount is drift",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {resources: {limits: {cpu: 1000m}}}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {resources: {limits: {cpu: 1001m}}}}`,
			want:   `{"spec":{"resources":{"limits":{"cpu":"1001m"}}}}`,
		},
		"VersionIsNoQuantity": {
			why:    "1.10 and 1.1 are different versions",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {version: "1.10"}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {version: "1.1"}}`,
			want:   `{"spec":{"version":"1.1"}}`,
		},
		"Duration": {
			why:    "a controller rewrote it in its own spelling",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {every: 90m}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {every: 1h30m0s}}`,
		},
		"OnlyNulls": {
			why:    "a map of nulls asks for nothing",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {size: 1, x: {y: null, z: {}}}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {size: 1}}`,
		},
		"NestedListOfNumbers": {
			why:    "1 and 1.0 are the same number, also in a list",
			wanted: `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [1, 2.0]}}`,
			live:   `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [1.0, 2]}}`,
		},
		"EmptyEnv": {
			why: "an empty variable that another client filled is drift",
			wanted: `{apiVersion: v1, kind: Pod, metadata: {name: a},
			  spec: {containers: [{name: m, image: i, env: [{name: PROXY, value: ""}]}]}}`,
			live: `{apiVersion: v1, kind: Pod, metadata: {name: a},
			  spec: {containers: [{name: m, image: i, env: [{name: PROXY, value: "http://x"}]}]}}`,
			want: `{"spec":{"containers":[{"env":[{"name":"PROXY","value":"http://x"}],"name":"m"}]}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, c.why, Difference(object(t, c.wanted), object(t, c.live), nil), c.want)
		})
	}
}

// A Job that removes itself is not missing; others are.
func TestMayBeMissing(t *testing.T) {
	for text, want := range map[string]bool{
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}`:       true,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: null}}`:    false,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {}}`:                                 false,
		`{apiVersion: example.com/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 1}}`: false,
	} {
		if _, missing := (Expected{}).Compare(object(t, text), nil); missing == want {
			t.Errorf("%s: may be missing: want %v", text, want)
		}
	}
}

// What a CRD's schema does not know is dropped by the API server, and is missing
// for ever without anybody's doing.
func TestPruned(t *testing.T) {
	crd := object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.example.com}
spec:
  versions:
  - name: v0
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              size: {type: integer}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              byName: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
              any: {type: object, additionalProperties: true}
              list: {type: array, items: {type: object, properties: {a: {type: string}}}}
              whole: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
`)
	schema := SchemaOf(crd.Object, "v1")
	if SchemaOf(crd.Object, "v0") != nil {
		t.Error("a version without a schema has none")
	}
	for text, want := range map[string]bool{
		`{size: 1}`:                      true,
		`{unknown: 1}`:                   false,
		`{free: {x: {y: 1}}}`:            true,
		`{byName: {n: {a: x}}}`:          true,
		`{any: {n: {a: x}}}`:             true,
		`{list: [{a: x}]}`:               true,
		`{whole: {metadata: {name: x}}}`: true,
		`{whole: {other: 1}}`:            true, // the map itself is known, and it is what is missing
	} {
		wanted := object(t, `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: `+text+`}`)
		live := object(t, `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {}}`)
		_, modified := Expected{Schema: func() map[string]any { return schema }}.Compare(wanted, live)
		if modified != want {
			t.Errorf("%s: missing counts: want %v, got %v", text, want, modified)
		}
	}
	// An entry of a list that exists lacks a field that the API server drops.
	wanted := object(t, `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{a: x, lost: y}]}}`)
	live := object(t, `{apiVersion: example.com/v1, kind: App, metadata: {name: a}, spec: {list: [{a: x}]}}`)
	e := Expected{Schema: func() map[string]any { return schema }}
	if _, modified := e.Compare(wanted, live); modified {
		t.Error("a field that is dropped within a list is no drift")
	}
	if err := unstructured.SetNestedField(live.Object, []any{map[string]any{"a": "z"}}, "spec", "list"); err != nil {
		t.Fatal(err)
	}
	if _, modified := e.Compare(wanted, live); !modified {
		t.Error("another field of the same entry still counts")
	}
}
