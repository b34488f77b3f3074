package rancher

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// valuesType is the type of the Secret with the values of a Bundle.
const valuesType = "fleet.cattle.io/bundle-values/v1alpha1"

// managedChart makes the Bundle of a ManagedChart: the files of a chart of the catalog,
// with the values in a Secret that is written first and has no owner
// (rancher-differences.md, D; docs/reference-behaviour.md).
func (s *session) managedChart(m *object) (*object, error) {
	found := s.chart(text(m, "spec", "chart"), text(m, "spec", "version"))
	if found == nil {
		return nil, fmt.Errorf("no chart version found for %s-%s", text(m, "spec", "chart"), text(m, "spec", "version"))
	}
	files, err := resources(found)
	if err != nil {
		return nil, err
	}
	b := blank(FleetBundles, m.GetNamespace(), "mcc-"+m.GetName())
	set(b, files, "spec", "resources")
	for _, name := range []string{"defaultNamespace", "targetNamespace", "serviceAccount", "diff", "paused", "rolloutStrategy", "targets"} {
		set(b, field(m, "spec", name), "spec", name)
	}
	for _, name := range []string{"releaseName", "version", "timeoutSeconds", "force", "takeOwnership", "maxHistory"} {
		set(b, field(m, "spec", name), "spec", "helm", name)
	}
	if values, _ := field(m, "spec", "values").(map[string]any); len(values) > 0 {
		hash, err := s.valuesOf(b, values)
		if err != nil {
			return nil, err
		}
		set(b, hash, "spec", "valuesHash")
	}
	of := s.setOf("mcc-bundle", madeOfCharts).WithOwner(m).WithSetOwnerReference(true, true)
	return nil, of.ApplyObjects(b)
}

// chart is one of the catalog; nil where there is none.
func (s *session) chart(name, version string) *chart.Chart {
	i := slices.IndexFunc(s.Catalog, func(c *chart.Chart) bool { return c.Name() == name && c.Metadata.Version == version })
	if i < 0 {
		return nil
	}
	return s.Catalog[i]
}

// resources are the files of a chart as a Bundle has them.
func resources(c *chart.Chart) ([]any, error) {
	files := slices.Clone(c.Raw)
	slices.SortFunc(files, func(a, b *chart.File) int { return strings.Compare(a.Name, b.Name) })
	out := make([]any, 0, len(files))
	for _, f := range files {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		out = append(out, map[string]any{"name": f.Name, "content": base64.StdEncoding.EncodeToString(packed.Bytes()), "encoding": "base64+gz"})
	}
	return out, nil
}

// valuesOf writes the Secret with the values of a Bundle, and returns their hash.
func (s *session) valuesOf(b *object, values map[string]any) (string, error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	data := map[string][]byte{"values.yaml": raw}
	all, err := json.Marshal(data)
	if err != nil {
		return "", err
	}
	secrets := s.client.CoreV1().Secrets(b.GetNamespace())
	found, err := secrets.Get(s.ctx, b.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: b.GetName()}, Type: valuesType, Data: data}
		_, err = secrets.Create(s.ctx, secret, metav1.CreateOptions{})
	case err == nil && found.Type != valuesType:
		err = fmt.Errorf("existing secret %s/%s has wrong type %q (expected %q)", found.Namespace, found.Name, found.Type, valuesType)
	case err == nil:
		found.Data = data
		_, err = secrets.Update(s.ctx, found, metav1.UpdateOptions{})
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:]), err
}

// chartStatus copies the status of a Bundle to the ManagedChart that it was made of.
func (s *session) chartStatus(b *object) (*object, error) {
	owner := metav1.GetControllerOf(b)
	if owner == nil || owner.Kind != kindOf(ManagedCharts).Kind {
		return nil, nil
	}
	m := s.cached(ManagedCharts, b.GetNamespace()+"/"+owner.Name)
	if m == nil || reflect.DeepEqual(field(m, "status"), field(b, "status")) {
		return nil, nil
	}
	set(m, field(b, "status"), "status")
	_, err := s.update(ManagedCharts, m)
	return nil, err
}
