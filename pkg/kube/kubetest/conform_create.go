package kubetest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

func (c *conformity) create() {
	made := c.configMap("made", nil)
	if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() || made.Generation != 0 {
		c.Errorf("a new object lacks what the server sets: %+v", made.ObjectMeta)
	}
	_, err := c.configMaps.Create(c.Context(), c.newConfigMap("made", nil))
	c.refused(err, kube.IsExists, "the name is taken")
	versioned := c.newConfigMap("versioned", nil)
	versioned.ResourceVersion = made.ResourceVersion
	_, err = c.configMaps.Create(c.Context(), versioned)
	c.refused(err, func(err error) bool { return codeOf(err) == http.StatusInternalServerError }, "a new object has no version")
	again := c.configMap("again", nil)
	if again.UID == made.UID || again.ResourceVersion == made.ResourceVersion {
		c.Error("two objects share a UID or a version")
	}
	got := c.okMap(c.configMaps.Get(c.Context(), c.key("made")))
	if got.UID != made.UID || got.Data["key"] != "value" {
		c.Errorf("want the object that was made, got %+v", got)
	}
	_, err = c.configMaps.Get(c.Context(), c.key("nothing"))
	c.refused(err, kube.IsGone, "there is no such object")
}

func (c *conformity) generateName() {
	generated := c.newConfigMap("", nil)
	generated.GenerateName = "some-"
	first := c.okMap(c.configMaps.Create(c.Context(), generated.DeepCopy()))
	second := c.okMap(c.configMaps.Create(c.Context(), generated.DeepCopy()))
	if first.Name == second.Name || !strings.HasPrefix(first.Name, "some-") || len(first.Name) != len("some-")+5 {
		c.Errorf("want two names of five letters after the prefix, got %q and %q", first.Name, second.Name)
	}
	_, err := c.configMaps.Create(c.Context(), c.newConfigMap("", nil))
	c.refused(err, apierrors.IsInvalid, "the object has no name")
}

// The server creates no object in a namespace that does not exist or is being deleted.
func (c *conformity) namespaces() {
	ns := ok[*corev1.Namespace](c)(c.spaces.Get(c.Context(), kube.Key{Name: c.ns}))
	if ns.Status.Phase != corev1.NamespaceActive || ns.Labels["kubernetes.io/metadata.name"] != c.ns {
		c.Errorf("want an active namespace that is labelled with its name, got %+v", ns)
	}
	missing := c.newConfigMap("made", nil)
	missing.Namespace = "conform-missing"
	_, err := c.configMaps.Create(c.Context(), missing)
	c.refused(err, kube.IsGone, "the namespace is missing")
	held := c.newConfigMap("held", nil)
	held.Finalizers = []string{"conform.example/hold"}
	held = c.okMap(c.configMaps.Create(c.Context(), held))
	w := c.watching(metav1.ListOptions{ResourceVersion: held.ResourceVersion})
	if err := c.spaces.Delete(c.Context(), kube.Key{Name: c.ns}, kube.Precondition{}); err != nil {
		c.Fatal(err)
	}
	lifetime, err := c.client.NamespaceLifetime(c.Context(), c.ns)
	if err != nil || lifetime.EndText() == "" {
		c.Errorf("want a namespace that is being deleted, got %+v, %v", lifetime, err)
	}
	_, err = c.configMaps.Create(c.Context(), c.newConfigMap("late", nil))
	c.refused(err, kube.IsTerminating, "the namespace is being deleted")
	_, err = c.configMaps.Apply(c.Context(), c.newConfigMap("late", nil))
	c.refused(err, kube.IsTerminating, "the namespace is being deleted")
	c.collect()
	marked := w.wants(watch.Modified, "held")
	if marked.GetDeletionTimestamp() == nil {
		c.Error("what is in the namespace is not being deleted")
	}
	held = c.okMap(c.configMaps.Get(c.Context(), c.key("held")))
	free := held.DeepCopy()
	free.Finalizers = nil
	c.okMap(c.configMaps.Patch(c.Context(), held, free))
	c.collect()
	w.until("held")
}

func (c *conformity) dryRun() {
	r := c.dynamic.Resource(configMapKind).Namespace(c.ns)
	made := c.configMap("made", nil)
	got, err := r.Get(c.Context(), "made", metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	got.SetLabels(map[string]string{"dry": "run"})
	dry, err := r.Update(c.Context(), got, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.GetLabels()["dry"] != "run" {
		c.Errorf("a dry run answers what would be written, got %v, %v", dry, err)
	}
	if err := r.Delete(c.Context(), "made", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		c.Error(err)
	}
	got.SetName("other")
	got.SetResourceVersion("")
	if _, err := r.Create(c.Context(), got, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		c.Error(err)
	}
	_, err = c.configMaps.Get(c.Context(), c.key("other"))
	c.refused(err, kube.IsGone, "a dry run makes nothing")
	if now := c.okMap(c.configMaps.Get(c.Context(), c.key("made"))); now.ResourceVersion != made.ResourceVersion {
		c.Error("a dry run has written")
	}
}

func (c *conformity) secrets() {
	store := kube.StoreOf[*corev1.Secret](c.client)
	made := ok[*corev1.Secret](c)(store.Create(c.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "secret"}, StringData: map[string]string{"plain": "text"},
	}))
	if made.Type != corev1.SecretTypeOpaque || string(made.Data["plain"]) != "text" || made.StringData != nil {
		c.Errorf("want an opaque Secret with data, got %+v", made)
	}
}

// A Secret and a ConfigMap hold one MiB of values.
func (c *conformity) dataLimit() {
	secrets := kube.StoreOf[*corev1.Secret](c.client)
	for i, size := range []int{dataLimit, dataLimit + 1} {
		name := fmt.Sprint("large-", i)
		_, secret := secrets.Create(c.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Data: map[string][]byte{"a": make([]byte, size-1), "b": {1}},
		})
		large := c.newConfigMap(name, nil)
		large.Data = map[string]string{"a": strings.Repeat("a", size)}
		_, configMap := c.configMaps.Create(c.Context(), large)
		for _, err := range []error{secret, configMap} {
			if size <= dataLimit && err != nil || size > dataLimit && !apierrors.IsInvalid(err) {
				c.Errorf("%d bytes: %v", size, err)
			}
		}
	}
}

// conformValidation checks that the server refuses names and labels that no object may
// have, however they are written.
func conformValidation(c *conformity) {
	_, err := c.configMaps.Create(c.Context(), c.newConfigMap("Not_A_Name", nil))
	c.refused(err, apierrors.IsInvalid, "the name has capital letters")
	bad := map[string]string{"label": "not a value!"}
	_, err = c.configMaps.Create(c.Context(), c.newConfigMap("labelled", bad))
	c.refused(err, func(err error) bool {
		return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.labels") && strings.Contains(err.Error(), "not a value!")
	}, "the label has a space")
	_, err = c.configMaps.Apply(c.Context(), c.newConfigMap("labelled", bad))
	c.refused(err, apierrors.IsInvalid, "the label of what is applied has a space")
	made := c.configMap("labelled", nil)
	made.Labels = bad
	_, err = c.configMaps.Update(c.Context(), made)
	c.refused(err, apierrors.IsInvalid, "the new label has a space")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "system:role"}}
	ok[*rbacv1.Role](c)(kube.StoreOf[*rbacv1.Role](c.client).Create(c.Context(), role))
}

func (c *conformity) tokens() {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "account"}}
	ok[*corev1.ServiceAccount](c)(kube.StoreOf[*corev1.ServiceAccount](c.client).Create(c.Context(), account))
	if token, err := c.client.RequestToken(c.Context(), c.key("account"), time.Hour); err != nil || token == "" {
		c.Errorf("want a token, got %q, %v", token, err)
	}
	_, err := c.client.RequestToken(c.Context(), c.key("nobody"), time.Hour)
	c.refused(err, kube.IsGone, "there is no such account")
}

// The token controller of a cluster fills the Secret for a token of a service account, and
// deletes the Secret of an account that is gone or was made again.
func (c *conformity) accountTokens() {
	accounts, secrets := kube.StoreOf[*corev1.ServiceAccount](c.client), kube.StoreOf[*corev1.Secret](c.client)
	for _, again := range []bool{false, true} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "account"}}
		made := ok[*corev1.ServiceAccount](c)(accounts.Create(c.Context(), account))
		ok[*corev1.Secret](c)(secrets.Create(c.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "account"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}))
		c.collected("the token is filled", func() bool {
			s := ok[*corev1.Secret](c)(secrets.Get(c.Context(), c.key("token")))
			return len(s.Data[corev1.ServiceAccountTokenKey]) > 0 && s.Annotations[corev1.ServiceAccountUIDKey] == string(made.UID)
		})
		if err := accounts.Delete(c.Context(), c.key("account"), kube.Precondition{}); err != nil {
			c.Fatal(err)
		}
		if again {
			ok[*corev1.ServiceAccount](c)(accounts.Create(c.Context(), account))
		}
		c.collected("the token of an account that is gone is deleted", func() bool {
			_, err := secrets.Get(c.Context(), c.key("token"))
			return kube.IsGone(err)
		})
	}
}

func (c *conformity) events() {
	made := c.configMap("eventful", nil)
	w, err := c.dynamic.Resource(eventsv1.SchemeGroupVersion.WithResource("events")).Namespace(c.ns).Watch(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	recorder := kube.NewRecorder(c.client, "test")
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- recorder.Run(ctx) }()
	recorder.Event(made, kube.Warning, "Happened", "something happened")
	reported := (&watching{c, w}).next()
	if reported.Type != watch.Added || !strings.HasPrefix(metaOf(reported.Object).GetName(), "eventful.") {
		c.Errorf("want the event, got %s", printed(reported))
	}
	cancel()
	if err := <-done; err != nil {
		c.Error(err)
	}
}
