package gitrepo

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestSealed(t *testing.T) {
	of := func(uid, password string) *corev1.Secret {
		s := &corev1.Secret{Data: map[string][]byte{"username": []byte("robot"), "password": []byte(password)}}
		s.UID = types.UID(uid)
		return s
	}
	one := sealed(of("x", "a"))
	if one != sealed(of("x", "a")) {
		t.Error("the same Secret has two digests: its GitRepo would be read for ever")
	}
	if one == sealed(of("x", "b")) {
		t.Error("a changed password is not seen")
	}
	if one == sealed(of("y", "a")) || one == options.BundleValuesHash(of("x", "a").Data) {
		t.Error("who guesses a password can compare it with the digest")
	}
	if got := sealed(&corev1.Secret{}); got != "" {
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
		err := absent(key, "clientSecretName", there)
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
		"Anonymous": {access{}, git.ReasonAuthenticationRefused, "x"},
		"SSH": {access{git: git.Source{URL: "git@h:r"}, secret: basic}, git.ReasonInvalidCredentials,
			`x: Secret "ok" is of type kubernetes.io/basic-auth, and SSH needs type kubernetes.io/ssh-auth with the key ssh-privatekey`},
		"HTTPS":      {access{git: git.Source{URL: "https://h/r"}, secret: basic}, git.ReasonInvalidCredentials, "x"},
		"NoSecret":   {access{}, git.ReasonInvalidCredentials, "x"},
		"Authority":  {access{}, git.ReasonCertificateRefused, "x; caBundle of the GitRepo names authorities of your own"},
		"NoneOfThem": {access{secret: basic}, git.ReasonBranchNotFound, "x"},
	} {
		err := c.access.about(reconcile.TerminalError(c.reason, errors.New("x")))
		if err.Error() != c.want || reconcile.ReasonOf(err) != c.reason || !reconcile.IsTerminal(err) {
			t.Errorf("%s: want %s %s, got %s %v", name, c.reason, c.want, reconcile.ReasonOf(err), err)
		}
	}
	named := reconcile.TerminalError(git.ReasonCertificateRefused, fmt.Errorf("x: %w", &reconcile.Untrusted{Text: "y", Advice: "z"}))
	if err := (&access{}).about(named); err == nil || err.Error() != "x: y; z" {
		t.Errorf("a certificate of a known authority: got %v", err)
	}
	if err := (&access{}).about(nil); err != nil {
		t.Errorf("no fault became %v", err)
	}
}
