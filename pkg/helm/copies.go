package helm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Kinds of copies, in lower case as they are compared.
const (
	CopySecret    = "secret"
	CopyConfigMap = "configmap"
)

// A Copy is a Secret or ConfigMap that the agent copies from the manager into the
// namespace of a release. It is no part of the release.
type Copy struct {
	Kind string            `json:"kind"` // CopySecret or CopyConfigMap
	Name string            `json:"name"`
	Type corev1.SecretType `json:"type,omitempty"` // of a Secret
	// Data are those of a Secret, or the binary data of a ConfigMap.
	Data map[string][]byte `json:"data,omitempty"`
	// Text is the data of a ConfigMap.
	Text map[string]string `json:"text,omitempty"`
}

// A CopyRef names a copy on the cluster.
type CopyRef struct{ Kind, Namespace, Name string }

// String returns "Secret <namespace>/<name>".
func (r CopyRef) String() string { return kindWord(r.Kind) + " " + r.Namespace + "/" + r.Name }

func kindWord(kind string) string {
	if kind == CopyConfigMap {
		return "ConfigMap"
	}
	return "Secret"
}

// PutCopies writes copies into the namespace of a release, with the rights of the
// deployment's account. The namespace is made where it is missing. Copies that are
// there already, also those of another deployment of this agent, are made the same. An
// object that is not a copy is overwritten only with takeOwnership.
//
// Errors: reconcile.RequeueAfter with reason NotOwned, Forbidden, ServiceAccountMissing or
// NamespaceTerminating; others may pass.
func (c *Client) PutCopies(ctx context.Context, d Deployment, list []Copy) error {
	if len(list) == 0 {
		return nil
	}
	who, err := c.accountFor(ctx, d.Options.ServiceAccount)
	if err != nil {
		return err
	}
	for _, one := range list {
		ref := CopyRef{one.Kind, d.ID.Namespace, one.Name}
		err := c.copier(who, ref).applyCopy(ctx, one, c.copyLabels(d), d.helm().TakeOwnership)
		if isGone(err) {
			if err = makeNamespace(ctx, who, d.ID.Namespace); err == nil {
				err = c.copier(who, ref).applyCopy(ctx, one, c.copyLabels(d), d.helm().TakeOwnership)
			}
		}
		if err != nil {
			return classifyCopy(ref, err)
		}
	}
	return nil
}

// copyLabels say whose a copy is.
func (c *Client) copyLabels(d Deployment) map[string]string {
	out := map[string]string{fleet.LabelBundleDeployment: d.Memory.Owner.BundleID, fleet.LabelAgentNamespace: c.cfg.AgentNamespace}
	if id, _, _ := strings.Cut(d.Memory.Manager, "/"); id != "" {
		out[fleet.LabelManagerID] = id
	}
	return out
}

func makeNamespace(ctx context.Context, who account, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := who.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: fleet.FieldManagerRelease})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// classifyCopy sorts what kept a copy from being written. Texts never hold data:
// those of an API server may.
func classifyCopy(ref CopyRef, err error) error {
	what := fmt.Sprintf("copy of %s (downstreamResources)", ref)
	switch {
	case reconcile.IsRequeue(err), reconcile.IsTerminal(err):
		return err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.RequeueError(release.ReasonTerminating, waitForNamespace, fmt.Errorf("%s: namespace %q is being deleted", what, ref.Namespace))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return reconcile.RequeueError(release.ReasonInvalidObject, waitForRights, fmt.Errorf("%s: the API server does not accept it", what))
	}
	if words, ok := deniedText(err); ok {
		return reconcile.RequeueError(release.ReasonForbidden, waitForRights, fmt.Errorf("%s: %s", what, words))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// DropCopies removes the copies of a deployment, in all namespaces, but those
// for which keep says so. One that another deployment names as well is handed to
// it: claimed returns its name, or nothing. Copies of another agent of the
// cluster are not touched. account is that of the deployment's options.
func (c *Client) DropCopies(ctx context.Context, bundleID, account string, keep func(CopyRef) bool, claimed func(CopyRef) string) error {
	list, err := c.copiesOf(ctx, bundleID)
	if err != nil || len(list) == 0 {
		return err
	}
	who, err := c.accountFor(ctx, account)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range list {
		switch heir := claimed(o.CopyRef); {
		case keep(o.CopyRef):
		case heir != "":
			err = c.copier(who, o.CopyRef).handOver(ctx, heir)
		default:
			err = c.copier(who, o.CopyRef).remove(ctx, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.meta.UID}})
		}
		if err != nil && !isGone(err) && !apierrors.IsConflict(err) {
			errs = append(errs, classifyCopy(o.CopyRef, err))
		}
		err = nil
	}
	return errors.Join(errs...)
}

// A found copy is one that is on the cluster.
type foundCopy struct {
	CopyRef
	meta metav1.PartialObjectMetadata
}

// copiesOf finds the copies of a deployment by their metadata, which the agent
// reads itself.
func (c *Client) copiesOf(ctx context.Context, bundleID string) ([]foundCopy, error) {
	client, err := metadata.NewForConfig(c.cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("find copies: %w", err)
	}
	var out []foundCopy
	for kind, resource := range map[string]string{CopySecret: "secrets", CopyConfigMap: "configmaps"} {
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).List(ctx, metav1.ListOptions{
			LabelSelector: fleet.LabelBundleDeployment + "=" + bundleID,
		})
		if err != nil {
			return nil, fmt.Errorf("find copies: list %s: %w", resource, err)
		}
		for _, m := range list.Items {
			if agent := m.Labels[fleet.LabelAgentNamespace]; agent == "" || agent == c.cfg.AgentNamespace {
				out = append(out, foundCopy{CopyRef{kind, m.Namespace, m.Name}, m})
			}
		}
	}
	slices.SortFunc(out, func(a, b foundCopy) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// A copier reads and writes one copy.
type copier struct {
	ref     CopyRef
	account account
	agent   string // namespace of the agent
}

func (c *Client) copier(who account, ref CopyRef) copier {
	return copier{ref: ref, account: who, agent: c.cfg.AgentNamespace}
}

// applyCopy makes the object what it should be. It is gone if the namespace is not
// there.
func (c copier) applyCopy(ctx context.Context, want Copy, labels map[string]string, take bool) error {
	there, meta, err := c.get(ctx)
	if isGone(err) {
		return c.writeCopy(ctx, want, metav1.ObjectMeta{Namespace: c.ref.Namespace, Name: c.ref.Name, Labels: labels}, true)
	}
	if err != nil {
		return err
	}
	owner, agent := meta.Labels[fleet.LabelBundleDeployment], meta.Labels[fleet.LabelAgentNamespace]
	switch {
	case (owner == "" || agent != "" && agent != c.agent) && !take:
		return reconcile.RequeueError(release.ReasonNotOwned, waitForOthers, fmt.Errorf(
			"%s exists and is no copy that this agent made; remove or rename it, or set helm.takeOwnership", c.ref))
	case owner != "" && owner != labels[fleet.LabelBundleDeployment]:
		labels = meta.Labels // of another deployment that names it too
	}
	if there.Type != want.Type && want.Kind == CopySecret {
		if err := c.remove(ctx, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &meta.UID}}); err != nil {
			return err
		}
		return c.writeCopy(ctx, want, metav1.ObjectMeta{Namespace: c.ref.Namespace, Name: c.ref.Name, Labels: labels}, true)
	}
	before := maps.Clone(meta.Labels)
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	maps.Copy(meta.Labels, labels)
	if maps.Equal(before, meta.Labels) && there.equal(want) {
		return nil
	}
	return c.writeCopy(ctx, want, meta, false)
}

// equal reports whether two copies hold the same.
func (c Copy) equal(other Copy) bool {
	return (len(c.Data) == 0 && len(other.Data) == 0 || reflect.DeepEqual(c.Data, other.Data)) && maps.Equal(c.Text, other.Text)
}

func (c copier) get(ctx context.Context) (Copy, metav1.ObjectMeta, error) {
	if c.ref.Kind == CopyConfigMap {
		m, err := c.account.client.CoreV1().ConfigMaps(c.ref.Namespace).Get(ctx, c.ref.Name, metav1.GetOptions{})
		if err != nil {
			return Copy{}, metav1.ObjectMeta{}, err
		}
		return Copy{Kind: CopyConfigMap, Name: m.Name, Data: m.BinaryData, Text: m.Data}, m.ObjectMeta, nil
	}
	s, err := c.account.client.CoreV1().Secrets(c.ref.Namespace).Get(ctx, c.ref.Name, metav1.GetOptions{})
	if err != nil {
		return Copy{}, metav1.ObjectMeta{}, err
	}
	return Copy{Kind: CopySecret, Name: s.Name, Type: s.Type, Data: s.Data}, s.ObjectMeta, nil
}

func (c copier) writeCopy(ctx context.Context, want Copy, meta metav1.ObjectMeta, fresh bool) error {
	create, update := metav1.CreateOptions{FieldManager: fleet.FieldManagerRelease}, metav1.UpdateOptions{FieldManager: fleet.FieldManagerRelease}
	var err error
	if c.ref.Kind == CopyConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: meta, Data: want.Text, BinaryData: want.Data}
		if fresh {
			_, err = c.account.client.CoreV1().ConfigMaps(c.ref.Namespace).Create(ctx, m, create)
		} else {
			_, err = c.account.client.CoreV1().ConfigMaps(c.ref.Namespace).Update(ctx, m, update)
		}
		return err
	}
	s := &corev1.Secret{ObjectMeta: meta, Type: want.Type, Data: want.Data}
	if fresh {
		_, err = c.account.client.CoreV1().Secrets(c.ref.Namespace).Create(ctx, s, create)
	} else {
		_, err = c.account.client.CoreV1().Secrets(c.ref.Namespace).Update(ctx, s, update)
	}
	return err
}

// handOver makes the copy that of another deployment.
func (c copier) handOver(ctx context.Context, heir string) error {
	there, meta, err := c.get(ctx)
	if err != nil {
		return err
	}
	meta.Labels[fleet.LabelBundleDeployment] = heir
	return c.writeCopy(ctx, there, meta, false)
}

func (c copier) remove(ctx context.Context, o metav1.DeleteOptions) error {
	if c.ref.Kind == CopyConfigMap {
		return c.account.client.CoreV1().ConfigMaps(c.ref.Namespace).Delete(ctx, c.ref.Name, o)
	}
	return c.account.client.CoreV1().Secrets(c.ref.Namespace).Delete(ctx, c.ref.Name, o)
}
