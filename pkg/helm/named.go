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
	description string
	error
}

func (r *refusal) Unwrap() error { return r.error }

// withObjectName adds to an error of the API server which object of a list it is about.
// Other errors, and those about none of the objects, stay as they are.
func (e *engine) withObjectName(list helmkube.ResourceList, err error) error {
	var status apierrors.APIStatus
	var details *metav1.StatusDetails
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		details = status.Status().Details
	default: // of several objects Helm joins the errors as text
		details = inText(err)
	}
	if details == nil {
		return err
	}
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

// inText returns the first object that the text of an error calls invalid; nil if there
// is none.
func inText(err error) *metav1.StatusDetails {
	m := invalid.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &metav1.StatusDetails{Kind: m[1], Group: m[2], Name: m[3]}
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
	return fmt.Errorf("%s: %s", r.description, words)
}
