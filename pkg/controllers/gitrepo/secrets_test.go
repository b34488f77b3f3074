package gitrepo

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

func TestSealed(t *testing.T) {
	of := func(uid, password string) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{"username": []byte("robot"), "password": []byte(password)}}
		s.UID = types.UID(uid)
		return s
	}
	one := secretDigest(of("x", "a"))
	if one != secretDigest(of("x", "a")) {
		t.Error("the same Secret has two digests: its GitRepo would be read for ever")
	}
	if one == secretDigest(of("x", "b")) {
		t.Error("a changed password is not seen")
	}
	if one == secretDigest(of("y", "a")) || one == options.BundleValuesHash(of("x", "a").Data) {
		t.Error("who guesses a password can compare it with the digest")
	}
	if got := secretDigest(&corev1.Secret{}); got != "" {
		t.Errorf("no data have a digest: %q", got)
	}
}

// A Secret that does not exist is named with its namespace, and with the near one there.
func TestAbsentSecret(t *testing.T) {
	key := kube.Key{Namespace: "fleet-default", Name: "git-creds"}
	for want, there := range map[string][]string{
		`secret "git-creds" does not exist in namespace fleet-default (clientSecretName)`:                           {"other", "helm"},
		`secret "git-creds" does not exist in namespace fleet-default (clientSecretName); did you mean "git-cred"?`: {"helm", "git-cred"},
	} {
		err := missingSecret(key, "clientSecretName", there)
		if err.Error() != want || reconcile.ReasonOf(err) != fleet.EventFailedValidatingSecret {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What a git server refuses is said with the Secret or the field that it is about.
func TestAbout(t *testing.T) {
	basic := &corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"username": []byte("ci"), "password": []byte("p")}}
	basic.Name = "ok"
	misspelt := &corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{"user": []byte("ci"), "password": []byte("p")}}
	misspelt.Name = "ok"
	for name, c := range map[string]struct {
		access       access
		reason, want string
	}{
		"Refused": {access{secret: basic}, git.ReasonAuthenticationRefused, `x: they are those of Secret "ok"`},
		"NoUser": {access{secret: misspelt}, git.ReasonAuthenticationRefused,
			`x: they are those of Secret "ok", which has no key username, only password, user`},
		"App": {access{git: git.Source{Credentials: git.Credentials{App: &git.App{}}}, secret: basic}, git.ReasonAuthenticationRefused,
			`x: the credentials are those of Secret "ok"`},
		"Anonymous": {access{}, git.ReasonAuthenticationRefused, "x"},
		"SSH": {access{git: git.Source{URL: "git@h:r"}, secret: basic}, git.ReasonInvalidCredentials,
			`x: Secret "ok" is of type kubernetes.io/basic-auth, and SSH needs type kubernetes.io/ssh-auth with the key ssh-privatekey`},
		"HTTPS":      {access{git: git.Source{URL: "https://h/r"}, secret: basic}, git.ReasonInvalidCredentials, "x"},
		"NoSecret":   {access{}, git.ReasonInvalidCredentials, "x"},
		"Authority":  {access{}, git.ReasonCertificateRefused, "x; caBundle of the GitRepo names authorities of your own"},
		"NoneOfThem": {access{secret: basic}, git.ReasonBranchNotFound, "x"},
	} {
		err := c.access.explain(reconcile.TerminalError(c.reason, errors.New("x")))
		if err.Error() != c.want || reconcile.ReasonOf(err) != c.reason || !reconcile.IsTerminal(err) {
			t.Errorf("%s: want %s %s, got %s %v", name, c.reason, c.want, reconcile.ReasonOf(err), err)
		}
	}
	named := reconcile.TerminalError(git.ReasonCertificateRefused, fmt.Errorf("x: %w", &reconcile.Untrusted{Text: "y", Advice: "z"}))
	if err := (&access{}).explain(named); err == nil || err.Error() != "x: y; z" {
		t.Errorf("a certificate of a known authority: got %v", err)
	}
	if err := (&access{}).explain(nil); err != nil {
		t.Errorf("no fault became %v", err)
	}
}

// gitSecret is a Secret with a password for the repository.
func gitSecret(password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "git"}, Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{corev1.BasicAuthUsernameKey: []byte("ana"), corev1.BasicAuthPasswordKey: []byte(password)},
	}
}

// withSecret makes a GitRepo that names a Secret.
func withSecret(w *looptest.World) {
	makeRepo(w, "repo", func(r *fleet.GitRepo) { r.Spec.ClientSecretName = "git" })
}

// A Secret that changes is used at once: the repository is read again with it, and the
// GitRepo says with which data.
func TestChangedSecret(t *testing.T) {
	g := newGit(t)
	looptest.Run(t, looptest.Loop{
		Start: g.start(scope.Scope{}), Of: loopName,
		Given: g.given("a", func(w *looptest.World) { looptest.Make(w, gitSecret("first")) }, withSecret, g.read),
		When: func(w *looptest.World) {
			looptest.Change(w, ws, "git", func(s *corev1.Secret) { s.Data[corev1.BasicAuthPasswordKey] = []byte("second") })
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			want := secretDigest(looptest.Read[*corev1.Secret](w, ws, "git"))
			if got := repo(w).Annotations[fleet.AnnotationClientSecretHash]; got != want {
				w.Errorf("want the digest %s, got %s", want, got)
			}
			if got := g.lastSource().Credentials.Password; got != "second" {
				w.Errorf("want the second password used, got %q", got)
			}
		},
	})
}

// A Secret that is named must exist. What was deployed stays while it does not.
func TestMissingSecret(t *testing.T) {
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", func(w *looptest.World) { looptest.Make(w, gitSecret("first")) }, withSecret, g.read),
		When: func(w *looptest.World) {
			looptest.Remove[*corev1.Secret](w, ws, "git")
			w.Pass(10 * time.Minute)
			wantCondition(w, fleet.ConditionAccepted, "False", fleet.EventFailedValidatingSecret, `secret "git" does not exist in namespace team (clientSecretName)`)
			wantBundles(w, "repo-a")
			looptest.Make(w, gitSecret("second"))
			w.Pass(time.Second)
			wantCondition(w, fleet.ConditionAccepted, "True", "", "")
		},
		Then: func(w *looptest.World) { wantRead(w, g.head()) },
	})
}

// A Secret of a GitHub App that lacks a key is reported on the GitRepo, and used when it is
// complete. What was deployed stays.
func TestIncompleteAppSecret(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	g := newGit(t)
	looptest.Undisturbed(t, looptest.Loop{
		Start: g.start(scope.Scope{}),
		Given: g.given("a", func(w *looptest.World) { looptest.Make(w, gitSecret("first")) }, withSecret, g.read),
		When: func(w *looptest.World) {
			looptest.Remove[*corev1.Secret](w, ws, "git")
			app := gitSecret("")
			app.Type, app.Data = corev1.SecretTypeOpaque, map[string][]byte{"github_app_id": []byte("12"), "github_app_private_key": pkcs1}
			looptest.Make(w, app)
			w.Pass(time.Second)
			wantCondition(w, fleet.ConditionAccepted, "False", fleet.EventFailedValidatingSecret,
				`secret "git": the secret of a GitHub App has no github_app_installation_id`)
			wantBundles(w, "repo-a")
			looptest.Change(w, ws, "git", func(s *corev1.Secret) { s.Data["github_app_installation_id"] = []byte("34") })
			w.Pass(time.Second)
			wantCondition(w, fleet.ConditionAccepted, "True", "", "")
		},
		Then: func(w *looptest.World) {
			wantRead(w, g.head())
			if app := g.lastSource().Credentials.App; app == nil || app.ID != 12 || app.Installation != 34 || string(app.PrivateKey) != string(pkcs1) {
				w.Errorf("the source has the App %v", app)
			}
		},
	})
}

// The digests that an earlier version wrote, without a key, are replaced. Nothing is read
// again because of that, unless the Secret has changed as well.
func TestFormerDigestReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		digest string
		reads  int
	}{
		"SameData":  {options.BundleValuesHash(gitSecret("first").Data), 0},
		"OtherData": {options.BundleValuesHash(gitSecret("former").Data), 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGit(t)
			looptest.Undisturbed(t, looptest.Loop{
				Start: g.start(scope.Scope{}),
				Given: g.given("a", func(w *looptest.World) { looptest.Make(w, gitSecret("first")) }, withSecret, g.read, func(w *looptest.World) {
					changeRepo(w, func(r *fleet.GitRepo) { r.Annotations[fleet.AnnotationClientSecretHash] = c.digest })
				}),
				Then: func(w *looptest.World) {
					wantRead(w, g.head())
					want := secretDigest(looptest.Read[*corev1.Secret](w, ws, "git"))
					if got := repo(w).Annotations[fleet.AnnotationClientSecretHash]; got != want {
						w.Errorf("want the digest %s, got %s", want, got)
					}
					if got := g.fetches() - 1; got != c.reads {
						w.Errorf("want it read again %d times, got %d", c.reads, got)
					}
				},
			})
		})
	}
}
