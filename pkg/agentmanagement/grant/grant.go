// Package grant writes the ServiceAccounts, tokens and rights of agents and
// registration tokens.
package grant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Writer writes accounts and rights under one loop's name. Its stores are for what the
// loop reads and deletes itself.
type Writer struct {
	known *cache.Shared

	Accounts        *kube.Store[*corev1.ServiceAccount]
	Secrets         *kube.Store[*corev1.Secret]
	Roles           *kube.Store[*rbacv1.Role]
	Bindings        *kube.Store[*rbacv1.RoleBinding]
	ClusterBindings *kube.Store[*rbacv1.ClusterRoleBinding]
}

// NewWriter makes a Writer that compares objects with caches.
func NewWriter(c *kube.Client, known *cache.Shared) Writer {
	return Writer{
		known:    known,
		Accounts: kube.StoreOf[*corev1.ServiceAccount](c), Secrets: kube.StoreOf[*corev1.Secret](c),
		Roles: kube.StoreOf[*rbacv1.Role](c), Bindings: kube.StoreOf[*rbacv1.RoleBinding](c),
		ClusterBindings: kube.StoreOf[*rbacv1.ClusterRoleBinding](c),
	}
}

// Account creates a ServiceAccount if it is missing.
func (w Writer) Account(ctx context.Context, want *corev1.ServiceAccount) error {
	return ensure.Object(ctx, w.known.Accounts, w.Accounts, want, copyNothing)
}

// WithToken creates a ServiceAccount and the Secret for its token, and returns the
// token; it is empty until the API server has filled the Secret, which enqueues the
// caller's key.
func (w Writer) WithToken(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) ([]byte, error) {
	if err := w.Account(ctx, account); err != nil {
		return nil, err
	}
	if err := w.AccountToken(ctx, secret); err != nil {
		return nil, err
	}
	have, err := w.Secrets.Get(ctx, kube.KeyOf(secret))
	if err != nil {
		return nil, err
	}
	return have.Data[corev1.ServiceAccountTokenKey], nil
}

// AccountToken creates the Secret that the API server fills with the token of an
// account. It adopts a Secret of rancher/fleet, because the cache selects Secrets by
// this manager's labels.
func (w Writer) AccountToken(ctx context.Context, want *corev1.Secret) error {
	if _, ok := w.known.AccountTokens.Get(kube.KeyOf(want)); ok {
		return nil
	}
	return ensure.Object(ctx, ensure.Unseen[*corev1.Secret]{}, w.Secrets, want, copyNothing)
}

// Role creates a Role, or sets its rules.
func (w Writer) Role(ctx context.Context, want *rbacv1.Role) error {
	return ensure.Object(ctx, w.known.Roles, w.Roles, want, copyRules)
}

// Binding creates a RoleBinding, or sets its subjects.
func (w Writer) Binding(ctx context.Context, want *rbacv1.RoleBinding) error {
	return ensure.Object(ctx, w.known.Bindings, w.Bindings, want, copySubjects)
}

// ClusterBinding creates a ClusterRoleBinding, or sets its subjects.
func (w Writer) ClusterBinding(ctx context.Context, want *rbacv1.ClusterRoleBinding) error {
	return ensure.Object(ctx, w.known.ClusterBindings, w.ClusterBindings, want, copyClusterSubjects)
}

// These copy what ensure.Object copies besides metadata.
func copyNothing[P kube.Object](P, P)             {}
func copyRules(have, want *rbacv1.Role)           { have.Rules = want.Rules }
func copySubjects(have, want *rbacv1.RoleBinding) { have.Subjects = want.Subjects }
func copyClusterSubjects(have, want *rbacv1.ClusterRoleBinding) {
	have.Subjects = want.Subjects
}
