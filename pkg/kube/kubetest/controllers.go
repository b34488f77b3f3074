package kubetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// CollectGarbage does what the garbage collector and the namespace controller of a
// cluster do, until nothing is left to do: it deletes dependents whose owners do not
// exist, completes foreground and orphan deletions, and empties and deletes namespaces and
// CustomResourceDefinitions that are being deleted.
func (s *Server) CollectGarbage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := collector{s}
	for s.collected != s.version {
		s.collected = s.version
		uids := c.owners()
		for _, res := range s.resources {
			for _, r := range res.sorted((*record).collectable) {
				if err := c.collect(res, r, uids); err != nil {
					s.t.Errorf("kubetest: collect garbage: %s %s: %v", res.Kind.Kind, kube.KeyOf(r), err)
					return
				}
			}
		}
	}
}

// collectable reports whether the garbage collector or the namespace controller may have
// something to do with the object: it is being deleted or has owners.
func (r *record) collectable() bool {
	md, _ := r.Object["metadata"].(map[string]any)
	return md["deletionTimestamp"] != nil || md["ownerReferences"] != nil
}

// A collector does the work of the garbage collector and the namespace controller.
type collector struct{ *Server }

// owners returns all objects by their UIDs.
func (c collector) owners() map[types.UID]*record {
	out := map[types.UID]*record{}
	for _, res := range c.resources {
		for _, r := range res.objects {
			out[r.GetUID()] = r
		}
	}
	return out
}

// collect handles one object.
func (c collector) collect(res *resource, r *record, owners map[types.UID]*record) error {
	if res.objects[kube.KeyOf(r)] != r {
		return nil // something else was done about it in this round
	}
	if res.isNamespace() && r.GetDeletionTimestamp() != nil {
		return c.empty(res, r)
	}
	if res.isDefinition() {
		if err := definitions(c).undefine(res, r); err != nil || res.objects[kube.KeyOf(r)] != r {
			return err
		}
	}
	if err := c.finish(res, r); err != nil {
		return err
	}
	if res.objects[kube.KeyOf(r)] != r || len(r.GetOwnerReferences()) == 0 {
		return nil
	}
	return c.follow(res, r, owners)
}

// follow removes an object whose owners are gone, and the references to those of them that
// are gone while others remain.
func (c collector) follow(res *resource, r *record, owners map[types.UID]*record) error {
	var kept []metav1.OwnerReference
	foreground := false
	for _, ref := range r.GetOwnerReferences() {
		owner := owners[ref.UID]
		gone := owner == nil && c.serves(ref)
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
		_, err := c.remove(res, r, opts)
		return err
	case len(kept) == 0, len(kept) == len(r.GetOwnerReferences()):
		return nil
	}
	obj := r.DeepCopy()
	obj.SetOwnerReferences(kept)
	_, err := c.commit(res, obj, false)
	return err
}

// serves reports whether the server has the kind of an owner. For other kinds it is
// unknown whether the owner exists.
func (c collector) serves(ref metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return false
	}
	for _, res := range c.resources {
		if res.Group == gv.Group && res.Kind.Kind == ref.Kind {
			return true
		}
	}
	return false
}

// finish completes a deletion that waits for the object's dependents.
func (c collector) finish(res *resource, r *record) error {
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
	for _, other := range c.resources {
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
			if _, err := c.commit(other, obj, false); err != nil {
				return err
			}
		}
	}
	obj := r.DeepCopy()
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
	_, err := c.commit(res, obj, len(obj.GetFinalizers()) == 0)
	return err
}

// empty deletes the objects in a namespace, and an empty namespace.
func (c collector) empty(res *resource, ns *record) error {
	left := len(ns.GetFinalizers()) > 0
	for _, other := range c.resources {
		more, err := c.deleteAll(other, func(key kube.Key) bool { return key.Namespace == ns.GetName() })
		if err != nil {
			return err
		}
		left = left || more
	}
	if left {
		return nil
	}
	_, err := c.commit(res, ns.DeepCopy(), true)
	return err
}

// deleteAll deletes the objects of some keys, and reports whether one of them waits for
// its finalizers.
func (c collector) deleteAll(res *resource, of func(kube.Key) bool) (left bool, err error) {
	for key, r := range res.objects {
		if !of(key) {
			continue
		}
		kept, err := c.remove(res, r, metav1.DeleteOptions{})
		if err != nil {
			return true, err
		}
		left = left || kept != nil
	}
	return left, nil
}

// InstallKinds creates the CRDs of Fleet's kinds, and lets an hour pass: objects as old
// as their kind look like those of a kind that was deleted and created again. It is for
// tests in a synctest bubble.
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

// FillAccountTokens does what the token controller of a cluster does: it fills each
// Secret for the token of an existing service account, and deletes each whose account is
// gone.
func (s *Server) FillAccountTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	secrets := s.resources[corev1.SchemeGroupVersion.WithResource("secrets")]
	for _, r := range secrets.sorted(func(*record) bool { return true }) {
		kind, _, _ := unstructured.NestedString(r.Object, "type")
		_, filled, _ := unstructured.NestedString(r.Object, "data", corev1.ServiceAccountTokenKey)
		if kind != string(corev1.SecretTypeServiceAccountToken) || r.GetDeletionTimestamp() != nil {
			continue
		}
		account := s.account(kube.Key{Namespace: r.GetNamespace(), Name: r.GetAnnotations()[corev1.ServiceAccountNameKey]})
		if uid := r.GetAnnotations()[corev1.ServiceAccountUIDKey]; account == nil || uid != "" && uid != string(account.GetUID()) {
			if _, err := s.remove(secrets, r, metav1.DeleteOptions{}); err != nil {
				s.t.Errorf("kubetest: delete token: %v", err)
			}
			continue
		}
		if filled {
			continue
		}
		obj := r.DeepCopy()
		annotations := obj.GetAnnotations()
		annotations[corev1.ServiceAccountUIDKey] = string(account.GetUID())
		obj.SetAnnotations(annotations)
		data := map[string]any{}
		token, err := s.newToken(map[string]any{
			"sub":                                    accountUser(r.GetNamespace(), account.GetName()).name,
			"kubernetes.io/serviceaccount/namespace": r.GetNamespace(),
			"kubernetes.io/serviceaccount/service-account.name": account.GetName(),
			"kubernetes.io/serviceaccount/service-account.uid":  account.GetUID(),
		})
		if err != nil {
			s.t.Errorf("kubetest: fill token: %v", err)
			return
		}
		s.guard.owners[token] = tokenOwner{account: account, secret: r}
		for name, value := range map[string]string{
			corev1.ServiceAccountTokenKey: token, corev1.ServiceAccountNamespaceKey: r.GetNamespace(), corev1.ServiceAccountRootCAKey: "kubetest",
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

// newToken makes a token with the claims of a real one, and without a signature.
func (s *Server) newToken(claims map[string]any) (string, error) {
	text, err := json.Marshal(claims)
	s.made.tokens++
	return fmt.Sprintf("kubetest.%s.token-%s-%d", base64.RawURLEncoding.EncodeToString(text), s.made.mark, s.made.tokens), err
}

// makeToken answers a TokenRequest.
func (h handler) makeToken(c *call) (answer, error) {
	if c.Verb != "create" || c.Resource != "serviceaccounts" {
		return answer{}, h.refuse("does not serve %s", c.Request)
	}
	account, err := c.live()
	if err != nil {
		return answer{}, err
	}
	var r authenticationv1.TokenRequest
	if err := h.typed(c, &r); err != nil {
		return answer{}, err
	}
	ttl := time.Hour
	if r.Spec.ExpirationSeconds != nil {
		ttl = time.Duration(*r.Spec.ExpirationSeconds) * time.Second
	}
	from := now()
	token, err := h.newToken(map[string]any{
		"iat": from.Unix(), "exp": from.Add(ttl).Unix(), "sub": accountUser(c.Namespace, c.Name).name,
		"kubernetes.io": map[string]any{"namespace": c.Namespace, "serviceaccount": map[string]any{"name": c.Name, "uid": account.GetUID()}},
	})
	if err != nil {
		return answer{}, err
	}
	r.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(from.Add(ttl))}
	h.guard.owners[r.Status.Token] = tokenOwner{account: account, expires: r.Status.ExpirationTimestamp}
	body, err := json.Marshal(r)
	return jsonAnswer(http.StatusCreated, body), err
}

// RunWorkloads does what the controllers of workloads and kubelets do, without pods: each
// Deployment, DaemonSet and StatefulSet runs as its newest version says, each Job is
// complete, and each Node is ready. A workload that selects nodes waits until one has the
// labels. A Deployment shows how often its template has changed: its revision.
func (s *Server) RunWorkloads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := s.resources[corev1.SchemeGroupVersion.WithResource("nodes")]
	for kind, status := range map[schema.GroupVersionResource]func(*unstructured.Unstructured) map[string]any{
		appsv1.SchemeGroupVersion.WithResource("deployments"):  runningReplicas,
		appsv1.SchemeGroupVersion.WithResource("statefulsets"): runningReplicas,
		appsv1.SchemeGroupVersion.WithResource("daemonsets"):   runningDaemons,
		batchv1.SchemeGroupVersion.WithResource("jobs"):        completeJob,
		corev1.SchemeGroupVersion.WithResource("nodes"):        readyNode,
	} {
		res := s.resources[kind]
		for _, r := range res.sorted(func(*record) bool { return true }) {
			if !findsNode(nodes, r.Unstructured) {
				continue
			}
			if err := (handler{s}).run(res, r, status(r.Unstructured)); err != nil {
				s.t.Errorf("kubetest: run %s: %v", kube.KeyOf(r), err)
			}
		}
	}
}

// run stores the status of a workload, and the revision of a Deployment, if they have
// changed.
func (h handler) run(res *resource, r *record, status map[string]any) error {
	revision := ""
	if res.Kind.Kind == "Deployment" {
		revision = h.made.revision(r.Unstructured)
	}
	if equality.Semantic.DeepEqual(status, r.Object["status"]) && r.GetAnnotations()[revisionMark] == revision {
		return nil
	}
	obj := r.DeepCopy()
	obj.Object["status"] = status
	if revision != "" {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[revisionMark] = revision
		obj.SetAnnotations(annotations)
	}
	_, err := h.commit(res, obj, false)
	return err
}

// findsNode reports whether the pods of a workload find one of the nodes. A node runs Linux
// unless its labels say otherwise. A server without Nodes has one that only says so.
func findsNode(nodes *resource, obj *unstructured.Unstructured) bool {
	required, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "template", "spec", "nodeSelector")
	selector, linux := labels.SelectorFromSet(required), labels.Set{corev1.LabelOSStable: "linux"}
	if len(nodes.objects) == 0 {
		return selector.Matches(linux)
	}
	for _, node := range nodes.objects {
		if selector.Matches(labels.Merge(linux, node.GetLabels())) {
			return true
		}
	}
	return false
}

// revisionMark is where the Deployment controller notes the revision of a Deployment.
const revisionMark = "deployment.kubernetes.io/revision"

// A rollout is the newest template of a Deployment, and its number.
type rollout struct {
	template any
	revision int
}

// revision returns the number of the newest template of a Deployment.
func (m *counts) revision(d *unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedFieldNoCopy(d.Object, "spec", "template")
	last := m.rollouts[d.GetUID()]
	if last.revision == 0 || !equality.Semantic.DeepEqual(last.template, template) {
		last = rollout{template: template, revision: last.revision + 1}
		m.rollouts[d.GetUID()] = last
	}
	return strconv.Itoa(last.revision)
}

func runningReplicas(obj *unstructured.Unstructured) map[string]any {
	n, found, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if !found {
		n = 1
	}
	return map[string]any{
		"observedGeneration": obj.GetGeneration(), "replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n,
		"conditions": []any{
			map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
		},
	}
}

func runningDaemons(obj *unstructured.Unstructured) map[string]any {
	return map[string]any{
		"observedGeneration": obj.GetGeneration(), "desiredNumberScheduled": int64(1), "currentNumberScheduled": int64(1),
		"updatedNumberScheduled": int64(1), "numberAvailable": int64(1), "numberReady": int64(1),
	}
}

func readyNode(*unstructured.Unstructured) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
}

func completeJob(*unstructured.Unstructured) map[string]any {
	return map[string]any{"succeeded": int64(1), "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
}
