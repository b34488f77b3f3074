package rancher

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// webhookName is the configuration of Rancher's webhook, a Deployment of its own
// that answers whether Rancher runs or not (rancher-differences.md, B 4).
const webhookName = "rancher.cattle.io"

// podSecurity begins the labels that say what pods of a namespace may do.
const podSecurity = "pod-security.kubernetes.io/"

// A webhook is Rancher's: it reviews management Clusters and Namespaces.
type webhook struct {
	hub  *harness.Hub
	seen atomic.Int64 // reviews
}

// startWebhook serves the webhook on an address that the API server reaches until the end
// of the test, and waits until the API server asks it.
func startWebhook(t testing.TB, hub *harness.Hub, address string) {
	t.Helper()
	authority, err := pki.NewAuthority("rancher-webhook")
	check(t, err)
	pair, err := authority.Server([]string{"rancher-webhook"}, []net.IP{net.ParseIP(address)})
	check(t, err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	check(t, err)
	h := &webhook{hub: hub}
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
	harness.Wait(t, patience, "the API server asks Rancher's webhook", func() bool { return clusters() == nil && h.seen.Load() > 0 })
}

func (h *webhook) register(t testing.TB, url string, ca []byte) {
	t.Helper()
	ignore, none := registrationv1.Ignore, registrationv1.SideEffectClassNone
	hook := func(group, version, resource string) registrationv1.ValidatingWebhook {
		return registrationv1.ValidatingWebhook{
			Name: webhookName + "." + resource + "." + strings.TrimPrefix(group+".core", "."), FailurePolicy: &ignore, SideEffects: &none,
			AdmissionReviewVersions: []string{"v1"}, ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create, registrationv1.Update},
				Rule:       registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
			}},
		}
	}
	config := &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhookName},
		Webhooks:   []registrationv1.ValidatingWebhook{hook(Clusters.Group, Clusters.Version, Clusters.Resource), hook("", "v1", "namespaces")},
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
	h.seen.Add(1)
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: h.allows(r.Context(), review.Request)}
	if !answer.Allowed {
		answer.Result = &metav1.Status{
			Status: metav1.StatusFailure, Message: "Unauthorized", Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized,
		}
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// allows reviews the two changes for which the requester needs a verb of Rancher's: a
// cluster comes into a workspace, and a Namespace gets other limits for pods
// (rancher-differences.md, B 4).
func (h *webhook) allows(ctx context.Context, r *admissionv1.AdmissionRequest) bool {
	var old, now object
	for into, raw := range map[*object][]byte{&old: r.OldObject.Raw, &now: r.Object.Raw} {
		if len(raw) > 0 && json.Unmarshal(raw, &into.Object) != nil {
			return false
		}
	}
	if r.Resource.Resource == Clusters.Resource {
		to := text(&now, "spec", "fleetWorkspaceName")
		return to == "" || to == text(&old, "spec", "fleetWorkspaceName") || h.may(ctx, r.UserInfo, "fleetaddcluster", "fleetworkspaces", to)
	}
	return maps.Equal(limits(&old), limits(&now)) || h.may(ctx, r.UserInfo, "updatepsa", "projects", "")
}

// limits are the labels of a Namespace that say what its pods may do.
func limits(ns *object) map[string]string {
	out := ns.GetLabels()
	maps.DeleteFunc(out, func(name, _ string) bool { return !strings.HasPrefix(name, podSecurity) })
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
