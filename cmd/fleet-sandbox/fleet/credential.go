package fleet

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
)

// tokenLife is how long the programs' tokens hold. In a pod they would be
// renewed by the kubelet; nothing renews them here.
const tokenLife = 365 * 24 * time.Hour

// An account is a service account on one cluster.
type account struct {
	namespace string
	name      string
}

// writeCredential makes a kubeconfig file with a token of a service account,
// as its pod would be given. It waits until the account is there.
func (f *Fleet) writeCredential(ctx context.Context, m *Member, a account, entry kubeconfig.Entry, path string) error {
	client, err := kubernetes.NewForConfig(m.Cluster.REST())
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	seconds := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	err = f.poll(ctx, fmt.Sprintf("service account %s in %s on %s", a.name, a.namespace, m.Name), func(ctx context.Context) (bool, error) {
		answer, err := client.CoreV1().ServiceAccounts(a.namespace).CreateToken(ctx, a.name, request, metav1.CreateOptions{})
		if err != nil {
			return false, ignoreMissing(err)
		}
		entry.Token = answer.Status.Token
		return true, nil
	})
	if err != nil {
		return err
	}
	return kubeconfig.Write(path, entry)
}

// ignoreMissing is nil for an object that is not there yet, and err else.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pollInterval is how often the API is asked for something that is on its way.
const pollInterval = 100 * time.Millisecond

// poll asks until done, until an error, or until ctx ends; the error of that
// names what was waited for and the cause of the end.
func (f *Fleet) poll(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	f.waitFor(what)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
