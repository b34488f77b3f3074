package helm

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Labels of a namespace that no bundle may change.
const (
	podSecurity = "pod-security.kubernetes.io/"
	podPrefix   = "pod-security."
)

// markNamespace replaces the labels and annotations of the release namespace by
// those of the options, where they give any, with the rights of the
// deployment's account. The namespace's own name label and all labels of pod
// security stay.
func (c *Client) markNamespace(ctx context.Context, d Deployment) error {
	o := d.Options
	if len(o.NamespaceLabels) == 0 && len(o.NamespaceAnnotations) == 0 {
		return nil
	}
	who, err := c.account(ctx, o.ServiceAccount)
	if err != nil {
		return err
	}
	namespaces := who.client.CoreV1().Namespaces()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ns, err := namespaces.Get(ctx, d.ID.Namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !mark(ns, o.NamespaceLabels, o.NamespaceAnnotations) {
			return nil
		}
		_, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{FieldManager: fleet.FieldManagerRelease})
		return err
	})
	if err != nil {
		return fmt.Errorf("label namespace %q: %w", d.ID.Namespace, err)
	}
	return nil
}

// mark sets what is given, and tells whether anything is different now.
func mark(ns *corev1.Namespace, labels, annotations map[string]string) bool {
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
