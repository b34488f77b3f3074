package gitrepo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/rancherca"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// keyByPath is the key of the Secret that helmSecretNameForPaths names.
const keyByPath = "secrets-path.yaml"

// hashes are the annotations that say with which data of its Secrets a GitRepo
// was read last, in a fixed order.
var hashes = []string{fleet.AnnotationClientSecretHash, fleet.AnnotationHelmSecretHash, fleet.AnnotationHelmSecretForPathsHash}

// access is all that Secrets say about a GitRepo.
type access struct {
	git    git.Source
	secret *corev1.Secret // that git.Credentials are from; nil where there is none
	charts chart.Access
	hashes map[string]string // by annotation; of Secrets that are there
	former map[string]string // the same as earlier versions wrote them
}

// hashesID returns one digest of a set of hashes.
func hashesID(hashed map[string]string) string {
	var b strings.Builder
	for _, name := range hashes {
		if h := hashed[name]; h != "" {
			fmt.Fprintf(&b, "%s=%s;", name, h)
		}
	}
	return b.String()
}

// secretKeys returns the Secrets that a GitRepo names. Those with default names may be
// missing.
func secretKeys(r *fleet.GitRepo) []kube.Key {
	var keys []kube.Key
	for _, name := range []string{orDefault(r.Spec.ClientSecretName, fleet.SecretGitCredential), r.Spec.HelmSecretName,
		r.Spec.HelmSecretNameForPaths, r.Spec.OCIRegistrySecret} {
		if name != "" {
			keys = append(keys, kube.Key{Namespace: r.Namespace, Name: name})
		}
	}
	return keys
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// credentials reads the Secrets that GitRepos name.
type credentials struct {
	cache      *caches
	namespace  string // of the manager
	registries bool   // bundles may be kept in a registry
	secrets    *kube.Store[*corev1.Secret]
	rancher    *rancherca.Authorities
}

// access reads the Secrets of a GitRepo. If a named Secret does not exist or is not
// usable, the error is a reconcile.Terminal with reason FailedValidatingSecret. Errors
// of gitrepo.SpecError have the same form.
func (cr *credentials) access(ctx context.Context, repo *fleet.GitRepo) (access, error) {
	a := access{hashes: map[string]string{}, former: map[string]string{}}
	if err := gitrepo.SpecError(repo.Spec); err != nil {
		return a, err
	}
	for _, read := range []func(context.Context, *fleet.GitRepo, *access) error{cr.gitAccess, cr.chartAccess, cr.chartAccessByPath, cr.storageAccess} {
		if err := read(ctx, repo, &a); err != nil {
			return a, err
		}
	}
	var authorities []byte
	if len(repo.Spec.CABundle) == 0 {
		var err error
		if authorities, err = cr.rancherAuthorities(ctx); err != nil {
			return a, err
		}
		a.git.CABundle = authorities
	}
	a.charts.URLs = repo.Spec.HelmRepoURLRegex
	a.charts.Default = cr.withDefaults(repo, a.charts.Default, authorities)
	for dir, c := range a.charts.ByPath {
		a.charts.ByPath[dir] = cr.withDefaults(repo, c, authorities)
	}
	return a, nil
}

// rancherAuthorities returns the authorities that Rancher has for the installation, as PEM;
// nil if there are none. The error for a Secret without its key is a reconcile.Terminal.
func (cr *credentials) rancherAuthorities(ctx context.Context) ([]byte, error) {
	pem, err := cr.rancher.PEM(ctx)
	if bad := (*rancherca.SecretError)(nil); errors.As(err, &bad) {
		return nil, unusable(bad.Key, fmt.Errorf("%w, and the GitRepo has no caBundle", bad))
	}
	return pem, err
}

// withDefaults returns the credentials of a Secret, completed with the fields of the
// GitRepo that concern all downloads and with the authorities of the installation.
func (cr *credentials) withDefaults(repo *fleet.GitRepo, c chart.Credentials, authorities []byte) chart.Credentials {
	if len(c.CABundle) == 0 {
		c.CABundle = authorities
	}
	c.InsecureSkipVerify = c.InsecureSkipVerify || repo.Spec.InsecureSkipTLSverify
	if len(c.KnownHosts) == 0 {
		c.KnownHosts = cr.knownHosts()
	}
	return c
}

// verifiesWebhooks reports whether a webhook about a GitRepo has to be signed: the GitRepo
// names a Secret, or the installation has one.
func (cr *credentials) verifiesWebhooks(repo *fleet.GitRepo) bool {
	_, global := cr.cache.secrets.Get(kube.Key{Namespace: cr.namespace, Name: fleet.SecretWebhook})
	return global || repo.Spec.WebhookSecret != ""
}

// knownHosts returns the known_hosts of the installation.
func (cr *credentials) knownHosts() []byte {
	m, ok := cr.cache.config.Get(kube.Key{Namespace: cr.namespace, Name: fleet.ConfigMapKnownHosts})
	if !ok {
		return nil
	}
	return []byte(m.Data["known_hosts"])
}

// gitAccess reads the Secret for the repository itself.
func (cr *credentials) gitAccess(ctx context.Context, repo *fleet.GitRepo, a *access) error {
	a.git = git.Source{
		URL: repo.Spec.Repo, CABundle: repo.Spec.CABundle, InsecureSkipTLSVerify: repo.Spec.InsecureSkipTLSverify,
	}
	named := repo.Spec.ClientSecretName != ""
	key := kube.Key{Namespace: repo.Namespace, Name: orDefault(repo.Spec.ClientSecretName, fleet.SecretGitCredential)}
	if _, ok := cr.cache.secrets.Get(key); !ok && !named {
		return nil
	}
	secret, err := cr.secrets.Get(ctx, key)
	if kube.IsGone(err) && !named {
		return nil
	}
	if err = cr.notFoundError(key, "clientSecretName", err); err != nil {
		return err
	}
	if a.git.Credentials, err = git.CredentialsOf(string(secret.Type), secret.Data); err != nil {
		return unusable(key, err)
	}
	a.secret = secret
	if len(a.git.Credentials.SSHPrivateKey) > 0 && len(a.git.Credentials.KnownHosts) == 0 {
		a.git.Credentials.KnownHosts = cr.knownHosts()
	}
	a.setHash(fleet.AnnotationClientSecretHash, secret)
	return nil
}

// explain adds to an error of the git server which Secret or which missing field of the
// GitRepo is the cause.
func (a *access) explain(err error) error {
	reason := reconcile.ReasonOf(err)
	var untrusted *reconcile.Untrusted
	switch {
	case reason == git.ReasonAuthenticationRefused && a.git.Credentials.App != nil:
		err = fmt.Errorf("%w: the credentials are those of Secret %q", err, a.secret.Name)
	case reason == git.ReasonAuthenticationRefused && a.secret != nil:
		err = fmt.Errorf("%w: they are those of Secret %q%s", err, a.secret.Name, missingUserMessage(a.secret))
	case reason == git.ReasonPushRefused && a.secret != nil:
		err = fmt.Errorf("%w: the credentials are those of Secret %q", err, a.secret.Name)
	case reason == git.ReasonInvalidCredentials && a.secret != nil && a.secret.Type != corev1.SecretTypeSSHAuth && git.OverSSH(a.git.URL):
		err = fmt.Errorf("%w: Secret %q is of type %s, and SSH needs type %s with the key %s",
			err, a.secret.Name, a.secret.Type, corev1.SecretTypeSSHAuth, corev1.SSHAuthPrivateKey)
	case reason == git.ReasonCertificateRefused && (!errors.As(err, &untrusted) || untrusted.Advice == ""):
		err = fmt.Errorf("%w; caBundle of the GitRepo names authorities of your own", err)
	default:
		return err
	}
	return reconcile.TerminalError(reason, err)
}

// missingUserMessage returns the message for a Secret with a password and no user name;
// empty for every other Secret.
func missingUserMessage(s *corev1.Secret) string {
	if s.Type != corev1.SecretTypeBasicAuth || len(s.Data[corev1.BasicAuthUsernameKey]) > 0 {
		return ""
	}
	return fmt.Sprintf(", which has no key %s, only %s", corev1.BasicAuthUsernameKey, strings.Join(slices.Sorted(maps.Keys(s.Data)), ", "))
}

// secretOf returns the Secret that a field of the spec names; nil if the field is
// empty.
func (cr *credentials) secretOf(ctx context.Context, repo *fleet.GitRepo, field, name string) (*corev1.Secret, error) {
	if name == "" {
		return nil, nil
	}
	key := kube.Key{Namespace: repo.Namespace, Name: name}
	secret, err := cr.secrets.Get(ctx, key)
	if err = cr.notFoundError(key, field, err); err != nil {
		return nil, err
	}
	return secret, nil
}

// chartAccess reads the Secret for all charts.
func (cr *credentials) chartAccess(ctx context.Context, repo *fleet.GitRepo, a *access) error {
	secret, err := cr.secretOf(ctx, repo, "helmSecretName", repo.Spec.HelmSecretName)
	if secret == nil {
		return err
	}
	if a.charts.Default, err = chart.CredentialsOf(secret.Data); err != nil {
		return unusable(kube.KeyOf(secret), err)
	}
	a.setHash(fleet.AnnotationHelmSecretHash, secret)
	return nil
}

// chartAccessByPath reads the Secret for the charts of certain directories. Its
// credentials replace those of chartAccess there.
func (cr *credentials) chartAccessByPath(ctx context.Context, repo *fleet.GitRepo, a *access) error {
	secret, err := cr.secretOf(ctx, repo, "helmSecretNameForPaths", repo.Spec.HelmSecretNameForPaths)
	if secret == nil {
		return err
	}
	key := kube.KeyOf(secret)
	data, ok := secret.Data[keyByPath]
	if !ok {
		return unusable(key, fmt.Errorf("it has no key %q", keyByPath))
	}
	if a.charts.ByPath, err = chart.ParseByPath(data); err != nil {
		return unusable(key, err)
	}
	if a.charts.ByPath == nil {
		a.charts.ByPath = map[string]chart.Credentials{}
	}
	a.setHash(fleet.AnnotationHelmSecretForPathsHash, secret)
	return nil
}

// storageAccess checks the Secret of the registry that a GitRepo keeps its bundles in.
// Its data is read when a bundle is written.
func (cr *credentials) storageAccess(ctx context.Context, repo *fleet.GitRepo, _ *access) error {
	if !cr.registries {
		return nil
	}
	secret, err := cr.secretOf(ctx, repo, "ociRegistrySecret", repo.Spec.OCIRegistrySecret)
	if secret == nil {
		return err
	}
	if _, err = oci.StorageOf(string(secret.Type), secret.Data); err != nil {
		return unusable(kube.KeyOf(secret), err)
	}
	return nil
}

// notFoundError returns err; if the Secret that a field names does not exist, it
// returns a message that names the field.
func (cr *credentials) notFoundError(key kube.Key, field string, err error) error {
	if !kube.IsGone(err) {
		return err
	}
	var names []string
	for _, s := range cr.cache.secrets.List(key.Namespace) {
		names = append(names, s.Name)
	}
	return missingSecret(key, field, names)
}

// missingSecret returns the error for a Secret that does not exist. It suggests a
// similar name in the namespace.
func missingSecret(key kube.Key, field string, there []string) error {
	text := fmt.Sprintf("secret %q does not exist in namespace %s (%s)", key.Name, key.Namespace, field)
	if near := spelling.Nearest(key.Name, there); near != "" && near != key.Name {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return reconcile.TerminalError(fleet.EventFailedValidatingSecret, errors.New(text))
}

// unusable returns the error for a Secret that cannot be used.
func unusable(key kube.Key, err error) error {
	return reconcile.TerminalError(fleet.EventFailedValidatingSecret, fmt.Errorf("secret %q: %w", key.Name, err))
}

// setHash stores the digest of a Secret's data.
func (a *access) setHash(annotation string, s *corev1.Secret) {
	a.hashes[annotation], a.former[annotation] = secretDigest(s), options.BundleValuesHash(s.Data)
}

// secretDigest returns a digest of a Secret's data. Users who may not read the Secret
// can see the digest. It is keyed by the UID of the Secret, so that these users cannot
// check a guess. The digest of no data is "".
func secretDigest(s *corev1.Secret) string {
	if len(s.Data) == 0 {
		return ""
	}
	raw, err := json.Marshal(s.Data)
	if err != nil {
		panic(err) // a map of bytes always has a JSON
	}
	mac := hmac.New(sha256.New, []byte(s.UID))
	mac.Write(raw)
	return hex.EncodeToString(mac.Sum(nil))
}

// replaceFormerHashes replaces the digests that an earlier version of the manager has
// written on a GitRepo, if the data of the Secrets has not changed: otherwise the
// manager would read the repository again.
func (w *Worker) replaceFormerHashes(ctx context.Context, repo *fleet.GitRepo, a access) (*fleet.GitRepo, error) {
	if have := hashesID(repo.Annotations); have == "" || have != hashesID(a.former) {
		return repo, nil
	}
	return w.writeHashes(ctx, repo, a.hashes)
}

// writeHashes writes on a GitRepo with which data of its Secrets it was read, and
// returns the GitRepo as written.
func (w *Worker) writeHashes(ctx context.Context, repo *fleet.GitRepo, hashed map[string]string) (*fleet.GitRepo, error) {
	marked, err := w.repos.Mutate(ctx, repo, func(repo *fleet.GitRepo) error {
		for _, name := range hashes {
			if hashed[name] == "" {
				delete(repo.Annotations, name)
			} else {
				metav1.SetMetaDataAnnotation(&repo.ObjectMeta, name, hashed[name])
			}
		}
		return nil
	})
	if err != nil {
		return repo, kube.IgnoreGone(err)
	}
	stripRepo(marked)
	return marked, nil
}
