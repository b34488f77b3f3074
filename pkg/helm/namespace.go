package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/retry"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Labels of a namespace that no bundle may change.
const (
	podSecurity = "pod-security.kubernetes.io/"
	podPrefix   = "pod-security."
)

// mustCreateNamespace reports whether the release's namespace has to be created. If
// that is impossible, it is an error here, before anything is rendered.
func mustCreateNamespace(ctx context.Context, who account, d Deployment) (bool, error) {
	namespaces := who.client.CoreV1().Namespaces()
	_, err := namespaces.Get(ctx, d.ID.Namespace, metav1.GetOptions{})
	unknown := apierrors.IsForbidden(err) // an account may be let into a namespace that it cannot see
	switch {
	case err == nil:
		return false, nil
	case !unknown && !isGone(err):
		return false, fmt.Errorf("get namespace %q: %w", d.ID.Namespace, err)
	case d.Options.CreateNamespace == nil || *d.Options.CreateNamespace:
		return mayCreateNamespace(ctx, who, d.ID.Namespace, unknown)
	case unknown:
		return false, nil
	}
	return false, reconcile.RequeueError(release.ReasonNoNamespace, waitForOthers, errors.New(release.MissingNamespace(d.ID.Namespace)))
}

// mayCreateNamespace reports whether an account can create a namespace. If it is
// unknown whether the namespace exists, and the account cannot create it, writing the
// objects in it will show that.
func mayCreateNamespace(ctx context.Context, who account, name string, unknown bool) (bool, error) {
	if !who.impersonated() {
		return true, nil
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := who.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if words, ok := deniedText(err); ok {
		if unknown {
			return false, nil
		}
		return false, forbidden(fmt.Sprintf("namespace %q does not exist", name), words)
	}
	if err != nil {
		return false, fmt.Errorf("create namespace %q: %w", name, err)
	}
	return true, nil
}

// createNamespace makes a namespace as Helm would.
func createNamespace(ctx context.Context, who account, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	_, err := who.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: fleet.FieldManagerRelease})
	if words, ok := deniedText(err); ok {
		return forbidden(fmt.Sprintf("namespace %q does not exist", name), words)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %q: %w", name, err)
	}
	return nil
}

// MarkNamespace replaces the labels and annotations of a namespace by those of
// the options, where they give any, with the rights of the options' account.
// The namespace's own name label and all labels of pod security stay, and no
// option changes those. Nothing is written where all is as it should be.
//
// Errors: reconcile.RequeueAfter if the account is missing or lacks the right.
func (c *Client) MarkNamespace(ctx context.Context, name string, o fleet.BundleDeploymentOptions) error {
	if len(o.NamespaceLabels) == 0 && len(o.NamespaceAnnotations) == 0 {
		return nil
	}
	who, err := c.accountFor(ctx, o.ServiceAccount)
	if err != nil {
		return err
	}
	return classify(markNamespace(ctx, who, name, o))
}

func markNamespace(ctx context.Context, who account, name string, o fleet.BundleDeploymentOptions) error {
	if len(o.NamespaceLabels) == 0 && len(o.NamespaceAnnotations) == 0 {
		return nil
	}
	namespaces := who.client.CoreV1().Namespaces()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ns, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !setMetadata(ns, o.NamespaceLabels, o.NamespaceAnnotations) {
			return nil
		}
		_, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{FieldManager: fleet.FieldManagerRelease})
		return err
	})
	if words, ok := deniedText(err); ok {
		return forbidden(fmt.Sprintf("namespaceLabels and namespaceAnnotations of namespace %q", name), words)
	}
	if err != nil {
		return fmt.Errorf("label namespace %q: %w", name, err)
	}
	return nil
}

// DropNamespace deletes a namespace with the rights of a service account (see
// User), unless a Helm release or an object of another release of this agent is
// in it: kept says which. A namespace that does not exist is no error.
func (c *Client) DropNamespace(ctx context.Context, name, serviceAccount string) (kept string, err error) {
	records := metav1.ListOptions{LabelSelector: labels.Set{labelOwner: ownerHelm}.String(), Limit: 1}
	list, err := c.admin.CoreV1().Secrets(name).List(ctx, records)
	if err != nil {
		return "", fmt.Errorf("look for releases in namespace %q: %w", name, err)
	}
	for i := range list.Items {
		return "release " + list.Items[i].Labels[labelName], nil
	}
	claimed, err := c.claims(ctx, release.ID{})
	if err != nil {
		return "", err
	}
	for _, object := range slices.Sorted(maps.Keys(claimed)) {
		if strings.Contains(object, " "+name+"/") || object == "Namespace /"+name {
			return object + " of another bundle", nil
		}
	}
	who, err := c.accountFor(ctx, serviceAccount)
	if err != nil {
		return "", err
	}
	err = who.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if words, ok := deniedText(err); ok {
		return "", forbidden("deleteNamespace", words)
	}
	if err != nil && !isGone(err) {
		return "", fmt.Errorf("delete namespace %q: %w", name, err)
	}
	return "", nil
}

// setMetadata sets what is given, and reports whether anything is different now.
func setMetadata(ns *corev1.Namespace, labels, annotations map[string]string) bool {
	before := ns.DeepCopy()
	if len(labels) > 0 {
		ns.Labels = map[string]string{}
		for k, v := range labels {
			if !strings.HasPrefix(k, podPrefix) {
				ns.Labels[k] = v
			}
		}
		for k, v := range before.Labels {
			if k == corev1.LabelMetadataName || strings.HasPrefix(k, podSecurity) {
				ns.Labels[k] = v
			}
		}
	}
	if len(annotations) > 0 {
		ns.Annotations = maps.Clone(annotations)
	}
	return !maps.Equal(before.Labels, ns.Labels) || !maps.Equal(before.Annotations, ns.Annotations)
}
