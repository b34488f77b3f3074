package sources

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// A Bundle whose resources are in a registry names them in spec.contentsId, and
// a Secret of that name says where that is. Agents, and fleet deploy, are given
// a copy of it that only reads.

// RegistryClient talks to the registries that keep bundles.
func RegistryClient() *oci.Client {
	return oci.New(oci.Config{UserAgent: "fleet/" + version.Version, Proxy: http.ProxyFromEnvironment, Addresses: address.WithLoopback()})
}

// Credential returns the Secret of the Bundle's registry, from the file or the live
// cluster. nil: the Bundle needs none, or it is not available.
func (s *Source) Credential(ctx context.Context) (*corev1.Secret, error) {
	id := s.Bundle.Spec.ContentsID
	if id == "" {
		return nil, nil
	}
	if secret := registrySecret(s.File.Secrets, s.Bundle.Namespace, id); secret != nil || s.Live == nil {
		return secret, nil
	}
	return client.GetAs[corev1.Secret](ctx, s.Live, client.Secrets, s.Bundle.Namespace, id)
}

// registrySecret finds the Secret of a content that is kept in a registry.
func registrySecret(list []*corev1.Secret, namespace, id string) *corev1.Secret {
	i := slices.IndexFunc(list, func(s *corev1.Secret) bool {
		return s.Name == id && s.Namespace == namespace && s.Type == fleet.SecretTypeOCIStorage
	})
	if i < 0 {
		return nil
	}
	return list[i]
}

// ReadersCopy is the Secret of a registry as a cluster gets it.
func ReadersCopy(secret *corev1.Secret, namespace string) (*corev1.Secret, error) {
	data, err := oci.Readable(string(secret.Type), secret.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: Secret %s/%s: %w", cli.ErrInput, secret.Namespace, secret.Name, err)
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: secret.Name,
			Labels:      map[string]string{fleet.LabelManaged: "true", fleet.LabelInternalSecret: "true"},
			Annotations: map[string]string{fleet.AnnotationInputHash: string(secret.UID) + "/" + secret.ResourceVersion},
		},
		Type: secret.Type, Data: data,
	}, nil
}

// ErrPull is in errors of pull that are not the file's.
var ErrPull = errors.New("pull its content")

// Pull takes what a deployment deploys from the registry that the file's Secret
// leads to.
func Pull(ctx context.Context, all Objects, bd *fleet.BundleDeployment, id string) (content.Manifest, error) {
	secret := registrySecret(all.Secrets, bd.Namespace, id)
	if secret == nil {
		return content.Manifest{}, fmt.Errorf("its content is in an OCI registry, and the Secret that says in which one is missing: %s/%s; fleet target prints it",
			bd.Namespace, id)
	}
	storage, err := oci.StorageOf(string(secret.Type), secret.Data)
	if err != nil {
		return content.Manifest{}, fmt.Errorf("Secret %q: %w", secret.Name, err) //nolint:staticcheck // the name of a kind
	}
	raw, err := RegistryClient().Pull(ctx, storage.Read(), id)
	if err != nil {
		return content.Manifest{}, fmt.Errorf("%w: %w", ErrPull, err)
	}
	return content.Unpack(id, content.Compress(raw))
}
