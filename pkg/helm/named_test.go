package helm

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/resource"

	helmkube "helm.sh/helm/v3/pkg/kube"
)

// What an API server refuses is named, with its file, before what it says of it.
func TestRefusedObjectsAreNamed(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	info := func(namespace, name string) *resource.Info {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		o.SetName(name)
		return &resource.Info{
			Namespace: namespace, Name: name, Object: o,
			Mapping: &meta.RESTMapping{GroupVersionKind: gvk, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}},
		}
	}
	list := helmkube.ResourceList{info("shop", "api"), info("own", "web")}
	e := &engine{sources: map[string]string{identityOf(list[1]): "web.yaml"}}
	invalid := apierrors.NewInvalid(gvk.GroupKind(), "web", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template", "metadata", "labels"), "x", "`selector` does not match template `labels`"),
	})
	const what = "Deployment own/web in web.yaml: "
	const wrong = "spec.template.metadata.labels: Invalid value: \"x\": `selector` does not match template `labels`"
	cases := map[string]struct {
		err  error
		want string
	}{
		"Invalid": {invalid, what + wrong},
		"Patch":   {fmt.Errorf("cannot patch %q with kind Deployment: %w", "web", invalid), what + wrong},
		"Joined": {
			fmt.Errorf(`cannot patch "web" with kind Deployment: Deployment.apps "web" is invalid: spec.selector: Invalid value: {}: field is immutable && x`),
			what + "spec.selector: Invalid value: {}: field is immutable && x; delete the object or give it another name",
		},
		"NoNamespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "own"), what + `namespace "own" does not exist; create it, or add it to the bundle`},
		"Another":     {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "other"), `namespace "other" does not exist; create it, or add it to the bundle`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := classify(e.withObjectName(list, c.err)).Error(); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
	if e.withObjectName(list, nil) != nil {
		t.Error("no error is no error")
	}
	inner := e.withObjectName(list, invalid)
	if got := classify(fmt.Errorf("release web failed, and has been uninstalled due to atomic being set: %w", inner)).Error(); got[:len(what)] != what {
		t.Errorf("the object is not first: %q", got)
	}
}
