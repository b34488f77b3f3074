package rancher

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// webhookName is the configuration of Rancher's webhook, a Deployment of its own
// that answers whether Rancher runs or not (rancher-differences.md, B 4).
const webhookName = "rancher.cattle.io"

// podSecurity are the labels that say what pods of a namespace may do.
var podSecurity = []string{
	"pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/enforce-version", "pod-security.kubernetes.io/audit",
	"pod-security.kubernetes.io/audit-version", "pod-security.kubernetes.io/warn", "pod-security.kubernetes.io/warn-version",
}

// A webhook is Rancher's: it reviews the Clusters of both kinds, and Namespaces
// (rancher-differences.md, B 4 and D; rancher-integration.md, 1.8; reference-behaviour.md).
type webhook struct {
	hub      *harness.Hub
	clusters dynamic.ResourceInterface // management Clusters
	seen     atomic.Int64              // reviews
	away     atomic.Bool               // it answers no request
}

// startWebhook serves the webhook on an address that the API server reaches until the end
// of the test, and waits until the API server asks it.
func startWebhook(t testing.TB, hub *harness.Hub, address string) *webhook {
	t.Helper()
	authority, err := pki.NewAuthority("rancher-webhook")
	check(t, err)
	pair, err := authority.Server([]string{"rancher-webhook"}, []net.IP{net.ParseIP(address)})
	check(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	check(t, err)
	h := &webhook{hub: hub, clusters: dynamic.NewForConfigOrDie(hub.Cluster.REST()).Resource(Clusters)}
	server := httptest.NewUnstartedServer(h)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	check(t, server.Listener.Close())
	server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	check(t, err)
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h.register(t, server.URL, authority.Cert)
	probe := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	clusters := func() error {
		return hub.Client.CoreV1().RESTClient().Post().AbsPath("/apis/management.cattle.io/v3/clusters").VersionedParams(probe, metav1.ParameterCodec).
			Body([]byte(`{"apiVersion":"management.cattle.io/v3","kind":"Cluster","metadata":{"name":"c-probe"}}`)).Do(t.Context()).Error()
	}
	harness.Wait(t, timeout, "the API server asks Rancher's webhook", func() bool { return clusters() == nil && h.seen.Load() > 0 })
	return h
}

// Unreviewed does something while Rancher's webhook does not run. What it would review the
// API server lets through then.
func (r *Rancher) Unreviewed(f func()) {
	r.webhook.away.Store(true)
	defer r.webhook.away.Store(false)
	f()
}

func (h *webhook) register(t testing.TB, url string, ca []byte) {
	t.Helper()
	ignore, none := registrationv1.Ignore, registrationv1.SideEffectClassNone
	hook := func(r schema.GroupVersionResource) registrationv1.ValidatingWebhook {
		return registrationv1.ValidatingWebhook{
			Name: webhookName + "." + r.Resource + "." + cmp.Or(r.Group, "core"), FailurePolicy: &ignore, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update, registrationv1.Delete},
				Rule:       registrationv1.Rule{APIGroups: []string{r.Group}, APIVersions: []string{r.Version}, Resources: []string{r.Resource}},
			}},
		}
	}
	config := &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhookName},
		Webhooks:   []registrationv1.ValidatingWebhook{hook(Clusters), hook(ProvClusters), hook(Namespaces)},
	}
	all := h.hub.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := all.Create(t.Context(), config, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // another stand-in was here before
		check(t, all.Delete(t.Context(), config.Name, metav1.DeleteOptions{}))
		_, err = all.Create(t.Context(), config, metav1.CreateOptions{})
	}
	check(t, err)
}

// ServeHTTP answers one review.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	if h.away.Load() {
		http.Error(w, "Rancher's webhook does not run", http.StatusServiceUnavailable)
		return
	}
	h.seen.Add(1)
	refusal := h.refuses(r.Context(), review.Request)
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: refusal == nil, Result: refusal}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// refuses reviews one request; nil: it is allowed.
func (h *webhook) refuses(ctx context.Context, r *admissionv1.AdmissionRequest) *metav1.Status {
	var old, now object
	for into, raw := range map[*object][]byte{&old: r.OldObject.Raw, &now: r.Object.Raw} {
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, &into.Object); err != nil {
			return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		}
	}
	switch r.Resource.Group {
	case Clusters.Group:
		return h.refusesCluster(ctx, r, &old, &now)
	case ProvClusters.Group:
		return h.refusesProvisioning(r, &old, &now)
	}
	return h.refusesNamespace(ctx, r, &old, &now)
}

// refusesCluster reviews a management Cluster: the local one is not deleted, no cluster
// leaves its workspace for none, and who brings one into a workspace needs a verb on that.
func (h *webhook) refusesCluster(ctx context.Context, r *admissionv1.AdmissionRequest, old, now *object) *metav1.Status {
	if r.Operation == admissionv1.Delete {
		if r.Name == local {
			return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "local cluster may not be deleted")
		}
		return nil
	}
	from, to := text(old, "spec", "fleetWorkspaceName"), text(now, "spec", "fleetWorkspaceName")
	switch {
	case from == to:
		return nil
	case to == "":
		return refusal(http.StatusBadRequest, metav1.StatusReasonInvalid, "once set, field FleetWorkspaceName cannot be made empty")
	case h.may(ctx, r.UserInfo, "fleetaddcluster", "fleetworkspaces", to):
		return nil
	}
	return refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "")
}

// nameOfProvisioning is the form of names of provisioning Clusters that come first.
var nameOfProvisioning = regexp.MustCompile(`^[^-][-a-z0-9]+$`)

// refusesProvisioning reviews the name of a provisioning Cluster: that of a legacy cluster
// needs its management Cluster, and "local" belongs to one workspace. One that is imported
// does not become one that Rancher has made, nor the other way round.
func (h *webhook) refusesProvisioning(r *admissionv1.AdmissionRequest, old, now *object) *metav1.Status {
	valid := len(r.Name) <= 63 && nameOfProvisioning.MatchString(r.Name)
	switch {
	case r.Name == local:
		valid = r.Namespace == FleetLocal
	case legacy(r.Name):
		valid = h.exists(r.Name)
	}
	switch {
	case r.Operation == admissionv1.Create && !valid:
		return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "cluster name must be 63 characters or fewer, must not begin with a hyphen, "+
			"cannot be \"local\" nor of the form \"c-xxxxx\", and can only contain lowercase alphanumeric characters or ' - '")
	case r.Operation == admissionv1.Update && r.Name != local && (field(old, "spec", "rkeConfig") == nil) != (field(now, "spec", "rkeConfig") == nil):
		return refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "RKEConfig cannot be changed from null or to null")
	}
	return nil
}

// refusesNamespace reviews a Namespace: those of the local cluster are not deleted, and who
// changes the limits for pods needs a verb on projects.
func (h *webhook) refusesNamespace(ctx context.Context, r *admissionv1.AdmissionRequest, old, now *object) *metav1.Status {
	switch {
	case r.Operation == admissionv1.Delete && (r.Name == local || r.Name == FleetLocal):
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "can't delete local cluster")
	case r.Operation == admissionv1.Delete, maps.Equal(limits(old), limits(now)), h.may(ctx, r.UserInfo, "updatepsa", "projects", ""):
		return nil
	}
	return refusal(http.StatusForbidden, metav1.StatusReasonUnauthorized, "")
}

// refusal is the answer to a request that is refused.
func refusal(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Message: message, Reason: reason, Code: code}
}

// exists reports whether there is a management Cluster, or it cannot be read.
func (h *webhook) exists(cluster string) bool {
	_, err := h.clusters.Get(context.Background(), cluster, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// limits are the labels of a Namespace that say what its pods may do.
func limits(ns *object) map[string]string {
	out := ns.GetLabels()
	maps.DeleteFunc(out, func(name, _ string) bool { return !slices.Contains(podSecurity, name) })
	return out
}

// may reviews the access of a requester to an object of Rancher's.
func (h *webhook) may(ctx context.Context, who authenticationv1.UserInfo, verb, resource, name string) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, Groups: who.Groups, UID: who.UID,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: Clusters.Group, Version: Clusters.Version, Resource: resource, Name: name},
	}}
	answer, err := h.hub.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed
}
