package kubetest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A reviewer is a webhook that denies what bears the label deny.
type reviewer struct {
	*conformity
	mu   sync.Mutex
	away bool
	seen []admissionv1.AdmissionRequest
}

func (r *reviewer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var body admissionv1.AdmissionReview
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil || r.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	r.seen = append(r.seen, *body.Request)
	var obj metav1.PartialObjectMetadata
	for _, raw := range [][]byte{body.Request.OldObject.Raw, body.Request.Object.Raw} {
		if len(raw) > 0 && json.Unmarshal(raw, &obj) != nil {
			http.Error(w, "no object", http.StatusBadRequest)
			return
		}
	}
	text := obj.Labels["deny"]
	body.Response = &admissionv1.AdmissionResponse{UID: body.Request.UID, Allowed: text == ""}
	if text != "" {
		body.Response.Result = &metav1.Status{Code: http.StatusTeapot, Message: text}
	}
	_ = json.NewEncoder(w).Encode(body)
}

// last returns the newest review.
func (r *reviewer) last() admissionv1.AdmissionRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return admissionv1.AdmissionRequest{}
	}
	return r.seen[len(r.seen)-1]
}

func (r *reviewer) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
}

// register makes the API server ask the reviewer about ConfigMaps in the namespace of the
// test, until its end.
func (r *reviewer) register(policy admissionregistrationv1.FailurePolicyType) {
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	none := admissionregistrationv1.SideEffectClassNone
	configs := kubernetes.NewForConfigOrDie(r.cfg).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configs.Create(r.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: r.ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "maps.conform.example", FailurePolicy: &policy, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := configs.Delete(context.Background(), r.ns, metav1.DeleteOptions{}); err != nil {
			r.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	probe := r.newConfigMap("probe", nil)
	r.collected("the API server asks the webhook", func() bool {
		_, err := kubernetes.NewForConfigOrDie(r.cfg).CoreV1().ConfigMaps(r.ns).Create(r.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && r.last().Name == "probe" && *r.last().DryRun
	})
}

// denied fails the test unless the webhook has denied a request.
func (r *reviewer) denied(err error, what string) {
	r.Helper()
	if codeOf(err) != http.StatusTeapot || !strings.Contains(err.Error(), `admission webhook "maps.conform.example" denied the request: no`) {
		r.Errorf("want it denied: %s; got %v", what, err)
	}
}

// A webhook reviews what is created, changed and deleted.
func conformWebhook(c *conformity) {
	r := &reviewer{conformity: c}
	r.register(admissionregistrationv1.Fail)
	_, err := c.configMaps.Create(c.Context(), c.newConfigMap("denied", map[string]string{"deny": "no"}))
	r.denied(err, "to create it")
	_, err = c.configMaps.Get(c.Context(), c.key("denied"))
	c.refused(err, kube.IsGone, "its creation was denied")

	made := c.configMap("made", nil)
	if got := r.last(); got.Operation != admissionv1.Create || got.Name != "made" || got.Namespace != c.ns || got.Kind.Kind != "ConfigMap" ||
		got.Resource.Resource != "configmaps" || got.UserInfo.Username == "" || len(got.OldObject.Raw) > 0 || *got.DryRun {
		c.Errorf("review of a creation: %s %s of %s by %v", got.Operation, got.Kind, got.Name, got.UserInfo)
	}
	changed := made.DeepCopy()
	changed.Labels = map[string]string{"deny": "no"}
	_, err = c.configMaps.Patch(c.Context(), made, changed)
	r.denied(err, "to patch it")
	if got := r.last(); got.Operation != admissionv1.Update || !strings.Contains(string(got.Object.Raw), `"deny"`) || strings.Contains(string(got.OldObject.Raw), `"deny"`) {
		c.Errorf("review of a patch: %s %s of %s by %v", got.Operation, got.Kind, got.Name, got.UserInfo)
	}
	if now := c.okMap(c.configMaps.Get(c.Context(), c.key("made"))); now.ResourceVersion != made.ResourceVersion {
		c.Error("a patch that was denied has written")
	}
	_, err = c.configMaps.Update(c.Context(), changed)
	r.denied(err, "to update it")
	if err := c.configMaps.Delete(c.Context(), c.key("made"), kube.Precondition{}); err != nil {
		c.Error(err)
	}
	if got := r.last(); got.Operation != admissionv1.Delete || len(got.Object.Raw) > 0 || len(got.OldObject.Raw) == 0 {
		c.Errorf("review of a deletion: %s %s of %s by %v", got.Operation, got.Kind, got.Name, got.UserInfo)
	}
	r.leave()
	_, err = c.configMaps.Create(c.Context(), c.newConfigMap("unreviewed", nil))
	c.refused(err, apierrors.IsInternalError, "the webhook does not answer")
}

// A webhook that may be ignored is, if it does not answer.
func conformWebhookIgnored(c *conformity) {
	r := &reviewer{conformity: c}
	r.register(admissionregistrationv1.Ignore)
	_, err := c.configMaps.Create(c.Context(), c.newConfigMap("denied", map[string]string{"deny": "no"}))
	r.denied(err, "to create it")
	r.leave()
	c.okMap(c.configMaps.Create(c.Context(), c.newConfigMap("denied", map[string]string{"deny": "no"})))
}
