package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RequestToken requests a token of a service account that expires after ttl (at least
// ten minutes), or earlier if the API server allows no more. The token is bound only to
// the account.
func (c *Client) RequestToken(ctx context.Context, account Key, ttl time.Duration) (string, error) {
	rc, err := c.restClient()
	if err != nil {
		return "", err
	}
	seconds := int64(ttl / time.Second)
	request := authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	result := rc.Post().
		AbsPath("api", "v1", "namespaces", account.Namespace, "serviceaccounts", account.Name, "token").
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body(body).Do(ctx)
	if err := result.Error(); err != nil { // Raw does not read the Status
		return "", wrap("request a token of", "ServiceAccount", account, err)
	}
	answer, err := result.Raw()
	if err != nil {
		return "", wrap("request a token of", "ServiceAccount", account, err)
	}
	var made authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &made); err != nil || made.Status.Token == "" {
		return "", fmt.Errorf("request a token of ServiceAccount %q: the answer holds none", account)
	}
	return made.Status.Token, nil
}
