package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// CollectGarbage does what the garbage collector and the namespace controller of a
// cluster do, until nothing is left to do: dependents whose owners are gone are
// deleted, foreground and orphan deletions are finished, namespaces that are being
// deleted are emptied and removed.
func (s *Server) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := collector{s}
	for before := int64(-1); before != s.version; {
		before = s.version
		uids := c.owners()
		for _, res := range s.resources {
			for _, r := range res.sorted(func(*record) bool { return true }) {
				if err := c.collect(res, r, uids); err != nil {
					s.t.Errorf("kubetest: collect garbage: %s %s: %v", res.Kind.Kind, kube.KeyOf(r), err)
					return
				}
			}
		}
	}
}

// A collector does the work of the garbage collector and the namespace controller.
type collector struct{ *Server }

// owners are all objects, by their UIDs.
func (s collector) owners() map[types.UID]*record {
	out := map[types.UID]*record{}
	for _, res := range s.resources {
		for _, r := range res.objects {
			out[r.GetUID()] = r
		}
	}
	return out
}

// collect does what is to be done about one object.
func (s collector) collect(res *resource, r *record, owners map[types.UID]*record) error {
	if res.objects[kube.KeyOf(r)] != r {
		return nil // something else was done about it in this round
	}
	if res.isNamespace() && r.GetDeletionTimestamp() != nil {
		return s.empty(res, r)
	}
	if err := s.finish(res, r); err != nil {
		return err
	}
	if res.objects[kube.KeyOf(r)] != r || len(r.GetOwnerReferences()) == 0 {
		return nil
	}
	var kept []metav1.OwnerReference
	foreground := false
	for _, ref := range r.GetOwnerReferences() {
		owner := owners[ref.UID]
		gone := owner == nil && s.serves(ref)
		waited := owner != nil && owner.GetDeletionTimestamp() != nil && slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents)
		foreground = foreground || waited
		if !gone && !waited {
			kept = append(kept, ref)
		}
	}
	switch {
	case len(kept) == 0 && r.GetDeletionTimestamp() == nil:
		opts := metav1.DeleteOptions{}
		if foreground {
			opts.PropagationPolicy = new(metav1.DeletePropagationForeground)
		}
		_, err := s.remove(res, r, opts)
		return err
	case len(kept) == 0, len(kept) == len(r.GetOwnerReferences()):
		return nil
	}
	obj := r.DeepCopy()
	obj.SetOwnerReferences(kept)
	_, err := s.commit(res, obj, false)
	return err
}

// serves reports whether the kind of an owner is one of the server's: for another kind
// it is unknown whether the owner is gone.
func (s collector) serves(ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	for _, res := range s.resources {
		if res.Group == gv.Group && res.Kind.Kind == ref.Kind {
			return true
		}
	}
	return false
}

// finish ends a deletion that waits for the object's dependents.
func (s collector) finish(res *resource, r *record) error {
	if r.GetDeletionTimestamp() == nil {
		return nil
	}
	finalizer := metav1.FinalizerDeleteDependents
	orphan := slices.Contains(r.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if orphan {
		finalizer = metav1.FinalizerOrphanDependents
	} else if !slices.Contains(r.GetFinalizers(), finalizer) {
		return nil
	}
	for _, other := range s.resources {
		for _, dependent := range other.objects {
			rest := slices.DeleteFunc(slices.Clone(dependent.GetOwnerReferences()), func(ref metav1.OwnerReference) bool { return ref.UID == r.GetUID() })
			if len(rest) == len(dependent.GetOwnerReferences()) {
				continue
			}
			if !orphan {
				return nil // it is deleted first
			}
			obj := dependent.DeepCopy()
			obj.SetOwnerReferences(rest)
			if _, err := s.commit(other, obj, false); err != nil {
				return err
			}
		}
	}
	obj := r.DeepCopy()
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	_, err := s.commit(res, obj, len(obj.GetFinalizers()) == 0)
	return err
}

// empty deletes what is in a namespace, and the namespace once nothing is.
func (s collector) empty(res *resource, ns *record) error {
	left := len(ns.GetFinalizers()) > 0
	for _, other := range s.resources {
		for key, r := range other.objects {
			if key.Namespace != ns.GetName() {
				continue
			}
			kept, err := s.remove(other, r, metav1.DeleteOptions{})
			if err != nil {
				return err
			}
			left = left || kept != nil
		}
	}
	if left {
		return nil
	}
	_, err := s.commit(res, ns.DeepCopy(), true)
	return err
}

// InstallKinds makes the CustomResourceDefinitions of Fleet's kinds, and lets an hour pass:
// objects that are as old as their kind look like those of a kind that was made again. It
// is for tests in a bubble of fake time.
func (s *Server) InstallKinds() {
	store := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](s.Connect("kubetest"))
	for _, k := range fleet.Kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: k.Plural + "." + fleet.Group}}
		if _, err := store.Create(context.Background(), crd); err != nil {
			s.t.Errorf("kubetest: install kinds: %v", err)
		}
	}
	time.Sleep(time.Hour)
}

// FillAccountTokens does what the token controller of a cluster does: each Secret for a
// token of a service account that is there gets one.
func (s *Server) FillAccountTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	secrets := s.resources[corev1.SchemeGroupVersion.WithResource("secrets")]
	for _, r := range secrets.sorted(func(*record) bool { return true }) {
		kind, _, _ := unstructured.NestedString(r.Object, "type")
		_, filled, _ := unstructured.NestedString(r.Object, "data", corev1.ServiceAccountTokenKey)
		account := s.account(kube.Key{Namespace: r.GetNamespace(), Name: r.GetAnnotations()[corev1.ServiceAccountNameKey]})
		if kind != string(corev1.SecretTypeServiceAccountToken) || filled || account == nil {
			continue
		}
		obj := r.DeepCopy()
		annotations := obj.GetAnnotations()
		annotations[corev1.ServiceAccountUIDKey] = string(account.GetUID())
		obj.SetAnnotations(annotations)
		data := map[string]any{}
		for name, value := range map[string]string{
			corev1.ServiceAccountTokenKey: s.newToken(), corev1.ServiceAccountNamespaceKey: r.GetNamespace(), corev1.ServiceAccountRootCAKey: "kubetest",
		} {
			data[name] = base64.StdEncoding.EncodeToString([]byte(value))
		}
		obj.Object["data"] = data
		if _, err := s.commit(secrets, obj, false); err != nil {
			s.t.Errorf("kubetest: fill token: %v", err)
		}
	}
}

func (s *Server) account(key kube.Key) *record {
	return s.resources[corev1.SchemeGroupVersion.WithResource("serviceaccounts")].objects[key]
}

func (s *Server) newToken() string {
	s.tokens++
	return fmt.Sprintf("token-%d", s.tokens)
}

// makeToken answers a TokenRequest. The token says whose it is and when it ends, without a
// signature; it opens nothing.
func (s handler) makeToken(c *call) (answer, error) {
	if c.Verb != "create" || c.Resource != "serviceaccounts" {
		return answer{}, s.refuse("does not serve %s", c.Request)
	}
	if _, err := c.live(); err != nil {
		return answer{}, err
	}
	var r authenticationv1.TokenRequest
	if err := json.Unmarshal(c.body, &r); err != nil {
		return answer{}, apierrors.NewBadRequest(err.Error())
	}
	ttl := time.Hour
	if r.Spec.ExpirationSeconds != nil {
		ttl = time.Duration(*r.Spec.ExpirationSeconds) * time.Second
	}
	from := now()
	claims := fmt.Appendf(nil, `{"iat":%d,"exp":%d,"sub":"system:serviceaccount:%s:%s"}`, from.Unix(), from.Add(ttl).Unix(), c.Namespace, c.Name)
	r.Status = authenticationv1.TokenRequestStatus{
		Token:               "kubetest." + base64.RawURLEncoding.EncodeToString(claims) + "." + s.newToken(),
		ExpirationTimestamp: metav1.NewTime(from.Add(ttl)),
	}
	body, err := json.Marshal(r)
	return text(http.StatusCreated, body), err
}
