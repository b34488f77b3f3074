package kubetest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// An admission asks webhooks about writes.
type admission struct{ handler }

// A webhook is one of a ValidatingWebhookConfiguration. The server asks it over HTTPS about
// the writes of clients, and not about what CollectGarbage and the like do.
type webhook = admissionregistrationv1.ValidatingWebhook

// webhooksFor returns the webhooks that review a write. The caller holds s.mu.
func (s admission) webhooksFor(c *call, operation admissionregistrationv1.OperationType) ([]webhook, error) {
	var out []webhook
	configs := s.resources[admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")]
	for _, r := range configs.sorted(func(*record) bool { return true }) {
		var config admissionregistrationv1.ValidatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &config); err != nil {
			return nil, err
		}
		for _, w := range config.Webhooks {
			if w.ClientConfig.URL == nil || w.ObjectSelector != nil && len(w.ObjectSelector.MatchLabels)+len(w.ObjectSelector.MatchExpressions) > 0 || len(w.MatchConditions) > 0 {
				return nil, s.refuse("knows neither services, object selectors nor match conditions of webhooks, as %s has", w.Name)
			}
			in, err := s.selectsNamespace(w, c)
			if err != nil {
				return nil, err
			}
			if in && slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool { return c.meets(r, operation) }) {
				out = append(out, w)
			}
		}
	}
	return out, nil
}

// selectsNamespace reports whether a webhook is for the namespace of a request, or for the
// Namespace that it is about. Other objects without a namespace each webhook is for.
func (s admission) selectsNamespace(w webhook, c *call) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if w.NamespaceSelector == nil || err != nil {
		return true, err
	}
	name := c.Namespace
	if c.res.isNamespace() {
		name = c.Name
	}
	ns := s.resources[schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}].objects[kube.Key{Name: name}]
	return name == "" || ns != nil && selector.Matches(labels.Set(ns.GetLabels())), nil
}

// meets reports whether a rule of a webhook is about a request.
func (c *call) meets(r admissionregistrationv1.RuleWithOperations, operation admissionregistrationv1.OperationType) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, "*") || slices.Contains(list, one) }
	scope := r.Scope == nil || *r.Scope == admissionregistrationv1.AllScopes || (*r.Scope == admissionregistrationv1.NamespacedScope) == c.res.Namespaced
	resource := has(r.Resources, c.Resource)
	if c.Subresource != "" {
		resource = slices.ContainsFunc([]string{"*/*", c.Resource + "/*", "*/" + c.Subresource, c.Resource + "/" + c.Subresource}, func(name string) bool {
			return slices.Contains(r.Resources, name)
		})
	}
	return scope && resource && has(r.APIGroups, c.Kind.Group) && has(r.APIVersions, c.Kind.Version) &&
		(slices.Contains(r.Operations, admissionregistrationv1.OperationAll) || slices.Contains(r.Operations, operation))
}

// A review is a write that webhooks are asked about.
type review struct {
	hooks   []webhook
	request admissionv1.AdmissionRequest
	live    *record // the object that they see
}

// reviewOf returns what webhooks have to be asked about a call; nil if nothing. A write that
// fails anyhow is not reviewed.
func (s admission) reviewOf(c *call) (*review, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.writes() || c.Kind == reviewKind.resource() || s.resources[c.Kind] == nil {
		return nil, nil
	}
	r := &review{live: c.res.objects[kube.Key{Namespace: c.Namespace, Name: c.Name}]}
	operation := map[string]admissionregistrationv1.OperationType{"create": admissionregistrationv1.Create, "delete": admissionregistrationv1.Delete}[c.Verb]
	switch {
	case operation != "":
	case r.live == nil:
		operation = admissionregistrationv1.Create // by server-side apply
	default:
		operation = admissionregistrationv1.Update
	}
	var err error
	if r.hooks, err = s.webhooksFor(c, operation); err != nil || len(r.hooks) == 0 {
		return nil, err
	}
	trial := *c
	trial.dryRun, trial.partial, trial.content = true, false, runtime.DeepCopyJSON(c.content)
	after, err := s.dispatch(&trial)
	if err != nil {
		return nil, nil //nolint:nilerr // it fails again when it is carried out
	}
	object, err := io.ReadAll(after.body)
	if err != nil {
		return nil, err
	}
	kind := c.res.GroupVersionKind
	r.request = admissionv1.AdmissionRequest{
		UID: uuid.NewUUID(), Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(c.Kind), SubResource: c.Subresource,
		Name: trial.Name, Namespace: c.Namespace, Operation: admissionv1.Operation(operation), DryRun: &c.dryRun,
		UserInfo: authenticationv1.UserInfo{Username: c.who.name, Groups: c.who.groups},
	}
	if operation != admissionregistrationv1.Delete {
		r.request.Object.Raw = object
	}
	if r.live != nil {
		r.request.OldObject.Raw = r.live.json
	}
	if c.res.isNamespace() {
		r.request.Namespace = r.request.Name
	}
	return r, nil
}

// ask asks the webhooks about a write. The caller does not hold s.mu: a webhook may send
// requests itself.
func (s admission) ask(ctx context.Context, r *review) error {
	for _, w := range r.hooks {
		answer, err := s.call(ctx, w, r.request)
		switch {
		case err != nil && w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore:
		case err != nil:
			return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: %w", w.Name, err))
		case !answer.Allowed:
			return denial(w.Name, answer.Result)
		}
	}
	return nil
}

// call asks one webhook.
func (s admission) call(ctx context.Context, w webhook, request admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	client, err := s.clientOf(w)
	if err != nil {
		return nil, err
	}
	timeout := 10 * time.Second
	if w.TimeoutSeconds != nil {
		timeout = time.Duration(*w.TimeoutSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Request: &request,
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *w.ClientConfig.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the webhook answers %s", resp.Status)
	}
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Response == nil || answer.Response.UID != request.UID {
		return nil, errors.New("the webhook does not answer the review")
	}
	return answer.Response, nil
}

// clientOf returns a client that trusts the authority of a webhook. There is one for each
// authority, as connections are kept.
func (s admission) clientOf(w webhook) (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(w.ClientConfig.CABundle)
	if known := s.clients[key]; known != nil {
		return known, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(w.ClientConfig.CABundle) {
		return nil, errors.New("the webhook has no certificate authority")
	}
	made := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	s.clients[key] = made
	return made, nil
}

// denial is the answer to a request that a webhook denies, in the words of API servers.
func denial(name string, result *metav1.Status) error {
	if result == nil {
		result = &metav1.Status{}
	}
	result.Status, result.Code = metav1.StatusFailure, max(result.Code, http.StatusBadRequest)
	by := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case result.Message != "":
		result.Message = by + ": " + result.Message
	case result.Reason != "":
		result.Message = by + ": " + string(result.Reason)
	default:
		result.Message = by + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: *result}
}
