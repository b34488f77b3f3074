package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// values returns the Helm values of a deployment: its own, and over them those of
// ConfigMaps and Secrets on the cluster, in their order. The cluster is read
// with the rights of the deployment's account: a bundle must not reach Secrets
// that its account cannot, and without an account none outside of its limit.
func (c *Client) values(ctx context.Context, who account, d Deployment) (map[string]any, error) {
	o := d.helm()
	out := map[string]any{}
	if o.Values != nil && o.Values.Data != nil {
		out = runtime.DeepCopyJSON(o.Values.Data)
	}
	limit := d.namespaceLimit()
	limit.closed = limit.closed && !who.impersonated()
	for _, from := range o.ValuesFrom {
		if err := limit.checkValues(from, d.ID.Namespace); err != nil {
			return nil, err
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			over, err := configMapValues(ctx, who, *ref, d.ID.Namespace)
			if err != nil {
				return nil, err
			}
			out = chartutil.MergeTables(over, out)
		}
		if ref := from.SecretKeyRef; ref != nil {
			over, err := secretValues(ctx, who, *ref, d.ID.Namespace)
			if err != nil {
				return nil, err
			}
			out = chartutil.MergeTables(over, out)
		}
	}
	return out, nil
}

// checkValues is checkRead for values.
func (l namespaceLimit) checkValues(from fleet.ValuesFrom, namespace string) error {
	if ref := from.ConfigMapKeyRef; ref != nil {
		at := valuesSource{kind: "ConfigMap", name: ref.Name}
		if err := l.checkRead("helm.valuesFrom: "+at.description(), firstNonEmpty(ref.Namespace, namespace)); err != nil {
			return err
		}
	}
	if ref := from.SecretKeyRef; ref != nil {
		at := valuesSource{kind: "Secret", name: ref.Name}
		return l.checkRead("helm.valuesFrom: "+at.description(), firstNonEmpty(ref.Namespace, namespace))
	}
	return nil
}

func configMapValues(ctx context.Context, who account, ref fleet.ConfigMapKeySelector, namespace string) (map[string]any, error) {
	at := valuesSource{kind: "ConfigMap", namespace: firstNonEmpty(ref.Namespace, namespace), name: ref.Name, key: firstNonEmpty(ref.Key, defaultValuesKey)}
	cm, err := who.client.CoreV1().ConfigMaps(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return nil, at.readError(err)
	}
	text, ok := cm.Data[at.key]
	if !ok {
		return nil, at.missingWait("has no key %q", at.key)
	}
	return at.parseValues([]byte(text))
}

func secretValues(ctx context.Context, who account, ref fleet.SecretKeySelector, namespace string) (map[string]any, error) {
	at := valuesSource{kind: "Secret", namespace: firstNonEmpty(ref.Namespace, namespace), name: ref.Name, key: firstNonEmpty(ref.Key, defaultValuesKey)}
	s, err := who.client.CoreV1().Secrets(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return nil, at.readError(err)
	}
	data, ok := s.Data[at.key]
	if !ok {
		return nil, at.missingWait("has no key %q", at.key)
	}
	return at.parseValues(data)
}

// defaultValuesKey is where values are in a ConfigMap or Secret.
const defaultValuesKey = "values.yaml"

// valuesSource is where values come from.
type valuesSource struct{ kind, namespace, name, key string }

func (v valuesSource) String() string { return fmt.Sprintf("%s %s/%s", v.kind, v.namespace, v.name) }

// missingWait returns a wait: the object may be created later.
func (v valuesSource) missingWait(format string, args ...any) error {
	return reconcile.RequeueError(release.ReasonNoValues, waitForOthers,
		errors.New(release.MissingValues(v.kind, v.namespace, v.name, fmt.Sprintf(format, args...))))
}

func (v valuesSource) description() string { return fmt.Sprintf("%s %q", v.kind, v.name) }

// readError says why an object with values cannot be read. An account that may not
// read it waits for the right, like one that may not write.
func (v valuesSource) readError(err error) error {
	if isGone(err) {
		return v.missingWait("does not exist; its key %q is wanted", v.key)
	}
	if words, ok := deniedText(err); ok {
		return forbidden("helm.valuesFrom: "+v.description(), words)
	}
	return fmt.Errorf("helm.valuesFrom: read %s: %w", v, err)
}

// parseValues parses values. Its errors do not show them. One is a wait: no new deployment
// shows to the agent that the object was repaired.
func (v valuesSource) parseValues(data []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, reconcile.RequeueError(release.ReasonBadValues, waitForOthers, fmt.Errorf("helm.valuesFrom: %s, key %q: not a YAML map", v, v.key))
	}
	return out, nil
}

func firstNonEmpty(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
