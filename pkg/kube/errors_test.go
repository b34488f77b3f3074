package kube_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// Texts of API servers about requests that admission has denied.
const (
	byWebhook  = `admission webhook "rancher.cattle.io.clusters" denied the request: Unauthorized`
	byPolicy   = `clusters.fleet.cattle.io "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`
	byPolicyOf = `clusters.fleet.cattle.io "c" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no`
)

// answered is the error of a request that an API server answers with a Status.
func answered(code int32, reason metav1.StatusReason, message string) error {
	return fmt.Errorf("patch: %w", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}})
}

// A webhook or a policy chooses the code of its denial. With each code a denial says
// nothing of the credential, and the API server is there.
func TestDenials(t *testing.T) {
	clusters := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusters"}
	cases := map[string]struct {
		why                                   string
		err                                   error
		denied, unauthorized, forbidden, away bool
	}{
		"Refused":         {"the credential is not known", apierrors.NewUnauthorized("Unauthorized"), false, true, false, true},
		"NoRights":        {"RBAC refuses it", apierrors.NewForbidden(clusters, "c", errors.New("no")), false, false, true, true},
		"Broken":          {"the API server is not able to answer", apierrors.NewInternalError(errors.New("no")), false, false, false, true},
		"Webhook401":      {"Rancher's webhook", answered(401, metav1.StatusReasonUnauthorized, byWebhook), true, false, false, false},
		"Webhook401Bare":  {"a webhook that names no reason", answered(401, "", byWebhook), true, false, false, false},
		"Webhook403":      {"most webhooks", answered(403, metav1.StatusReasonForbidden, byWebhook), true, false, true, false},
		"Webhook400":      {"a webhook that names no code", answered(400, "", byWebhook), true, false, false, false},
		"Webhook503":      {"the webhook has answered", answered(503, metav1.StatusReasonServiceUnavailable, byWebhook), true, false, false, false},
		"NoExplanation":   {"a webhook without words", answered(401, "", `admission webhook "w" denied the request without explanation`), true, false, false, false},
		"Policy401":       {"a policy may name the reason Unauthorized", answered(401, metav1.StatusReasonUnauthorized, byPolicy), true, false, false, false},
		"PolicyNoBinding": {"without a binding", answered(401, metav1.StatusReasonUnauthorized, byPolicyOf), true, false, false, false},
		"WebhookFails": {"a webhook that does not answer has denied nothing",
			apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)), false, false, false, true},
		"OtherText": {"not a text of the API server", fmt.Errorf("%s: %w", byWebhook, apierrors.NewUnauthorized("no")), false, true, false, true},
		"NoStatus":  {"nor is a text without an answer", errors.New(byWebhook), false, false, false, false},
		"None":      {"no error", nil, false, false, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for what, got := range map[string][2]bool{
				"IsDenied": {kube.IsDenied(c.err), c.denied}, "IsUnauthorized": {kube.IsUnauthorized(c.err), c.unauthorized},
				"IsForbidden": {kube.IsForbidden(c.err), c.forbidden}, "IsAway": {kube.IsAway(c.err), c.away},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: %s is %t", c.why, what, got[0])
				}
			}
		})
	}
}

// A denial by a webhook is classified as one and carries the webhook's message, whatever
// verb was denied.
func TestWritesReportDenials(t *testing.T) {
	denied := func(t *testing.T, verb string, write func(context.Context, *kube.Client) error) {
		t.Helper()
		s := kubetest.New(t)
		client := s.Connect("test")
		s.Deny(1, kubetest.Match{Verb: verb})
		err := write(t.Context(), client)
		if !kube.IsDenied(err) || kube.IsUnauthorized(err) || !strings.Contains(fmt.Sprint(err), kubetest.DeniedText) {
			t.Errorf("got %v", err)
		}
	}
	made := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "made"}}
	}
	for name, c := range map[string]struct {
		verb  string
		write func(context.Context, *kube.Client) error
	}{
		"Create": {"create", func(ctx context.Context, c *kube.Client) error {
			_, err := kube.StoreOf[*corev1.ConfigMap](c).Create(ctx, made())
			return err
		}},
		"Update": {"update", func(ctx context.Context, c *kube.Client) error {
			_, err := kube.StoreOf[*corev1.ConfigMap](c).Update(ctx, made())
			return err
		}},
		"Patch": {"patch", func(ctx context.Context, c *kube.Client) error {
			_, err := kube.StoreOf[*corev1.ConfigMap](c).PatchRaw(ctx, kube.KeyOf(made()), types.MergePatchType, []byte(`{}`))
			return err
		}},
		"Apply": {"", func(ctx context.Context, c *kube.Client) error {
			_, err := kube.StoreOf[*corev1.ConfigMap](c).Apply(ctx, made())
			return err
		}},
		"Delete": {"delete", func(ctx context.Context, c *kube.Client) error {
			return kube.StoreOf[*corev1.ConfigMap](c).Delete(ctx, kube.KeyOf(made()), kube.Precondition{})
		}},
		"Token": {"create", func(ctx context.Context, c *kube.Client) error {
			_, err := c.RequestToken(ctx, kube.Key{Namespace: "default", Name: "account"}, time.Hour)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) { denied(t, c.verb, c.write) })
	}
}

// Reading the body of an answer to classify it leaves the body as it was.
func TestDeniedAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		`{"kind":"Status","message":"admission webhook \"w\" denied the request: Unauthorized","code":401}`:         true,
		`{"kind":"Status","message":"c is forbidden: ValidatingAdmissionPolicy 'p' denied request: no","code":401}`: true,
		"k8s\x00\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x4eFailure\x1a" + byWebhook:                                    true,
		`{"kind":"Status","message":"Unauthorized","code":401}`:                                                     false,
		"": false,
	} {
		resp := &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(bytes.NewBufferString(text))}
		if got := kube.DeniedAnswer(resp); got != want {
			t.Errorf("%q: got %t", text, got)
		}
		if left, err := io.ReadAll(resp.Body); err != nil || string(left) != text {
			t.Errorf("want %q to be left, got %q, %v", text, left, err)
		}
	}
}
