package helm

import (
	"errors"
	"fmt"

	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
)

// A refusal is an error of the API server with the object that it is about.
// Its text is that of the error alone: Helm adds to it.
type refusal struct {
	what string
	error
}

func (r *refusal) Unwrap() error { return r.error }

// named adds to an error of the API server which object of a list it is about.
// Other errors, and those about none of the objects, stay as they are.
func (e *engine) named(list helmkube.ResourceList, err error) error {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	details := status.Status().Details
	for _, info := range list {
		if !isAbout(details, info) {
			continue
		}
		gvk := info.Mapping.GroupVersionKind
		what := gvk.Kind + " " + info.Name
		if info.Namespace != "" {
			what = gvk.Kind + " " + info.Namespace + "/" + info.Name
		}
		if file := e.sourceOf(info); file != "" {
			what += " in " + file
		}
		return &refusal{what, err}
	}
	return err
}

// isAbout reports whether the details of an error name an object, or the
// namespace that it would be in.
func isAbout(d *metav1.StatusDetails, info *resource.Info) bool {
	if d.Kind == "namespaces" && d.Group == "" && d.Name == info.Namespace && info.Namespace != "" {
		return true
	}
	m := info.Mapping
	return d.Name == info.Name && d.Group == m.GroupVersionKind.Group && (d.Kind == m.GroupVersionKind.Kind || d.Kind == m.Resource.Resource)
}

// objectFirst puts the object that an error is about before the words for it.
func objectFirst(err error, words string) error {
	var r *refusal
	if !errors.As(err, &r) {
		return errors.New(words)
	}
	return fmt.Errorf("%s: %s", r.what, words)
}
