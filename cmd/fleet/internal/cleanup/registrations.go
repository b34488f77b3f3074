package cleanup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	planleftover "github.com/fleetworkspace/fleet/pkg/plan/leftover"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// RegistrationOptions are the flags of fleet cleanup clusterregistration.
type RegistrationOptions struct {
	Options
	Pace Pace
}

// Resources that are looked through for leftovers.
var (
	serviceAccounts     = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	roles               = rbacv1.SchemeGroupVersion.WithResource("roles")
	roleBindings        = rbacv1.SchemeGroupVersion.WithResource("rolebindings")
	clusterRoleBindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")

	registrations = fleet.GroupVersion.WithResource("clusterregistrations")
	clusters      = fleet.GroupVersion.WithResource("clusters")
)

// grants are the kinds of what the reference makes for a registration. Accounts are first,
// because their deletion ends a credential.
var grants = []schema.GroupVersionResource{serviceAccounts, clusterRoleBindings, roleBindings, roles}

// Check refuses flags that are not possible.
func (o RegistrationOptions) Check() error {
	if err := o.Pace.Validate(); err != nil {
		return err
	}
	return o.checkBefore()
}

// Registrations deletes ClusterRegistrations that are left over, and what the reference
// made for registrations that do not exist. Without -n it works in all workspaces. If it
// cannot read everything that decides, it deletes nothing.
func Registrations(ctx context.Context, o RegistrationOptions, s *client.Session) error {
	d := &deleter{s: s, dryRun: o.DryRun, pause: o.Pace.backoff()}
	return d.report(o.Options, d.registrations(ctx))
}

func (d *deleter) registrations(ctx context.Context) error {
	items, err := d.s.ListAll(ctx, client.Query{Resource: registrations, Namespace: d.s.Scope})
	if err != nil {
		return err
	}
	requests, err := client.AllAs[fleet.ClusterRegistration](items)
	if err != nil {
		return err
	}
	read := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, u := range items {
		read[types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}] = u
	}
	existing, err := d.s.ListAll(ctx, client.Query{Resource: clusters, Namespace: d.s.Scope})
	if err != nil {
		return err
	}
	made, err := d.listGrants(ctx)
	if err != nil {
		return err
	}
	left := planleftover.Registrations(requests, namesOf(existing), accountsIn(made))
	gone := map[types.NamespacedName]bool{}
	for _, l := range left {
		key := types.NamespacedName{Namespace: l.Request.Namespace, Name: l.Request.Name}
		var check func(context.Context) error
		if l.Gone {
			check = d.clusterIsGone(l.Cluster)
		}
		before := len(d.failed)
		if err := d.delete(ctx, leftover{registrations, read[key], l.Reason, check}); err != nil {
			return err
		}
		if len(d.failed) == before {
			gone[key] = true
		}
	}
	return d.grants(ctx, made, gone)
}

// clusterIsGone checks at the API server that a Cluster does not exist.
func (d *deleter) clusterIsGone(cluster types.NamespacedName) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.s.API.Get(ctx, clusters, cluster.Namespace, cluster.Name)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("%w: Cluster %s exists again", cli.ErrRefused, cluster)
		}
		return client.DescribeServerError(d.s.Server, err)
	}
}

// listGrants lists what managers made for registrations, by resource.
func (d *deleter) listGrants(ctx context.Context) (map[schema.GroupVersionResource][]*unstructured.Unstructured, error) {
	out := map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	for _, resource := range grants {
		items, err := d.s.ListAll(ctx, client.Query{Resource: resource, Labels: fleet.LabelManaged + "=" + registration.True})
		if err != nil {
			return nil, err
		}
		out[resource] = items
	}
	return out, nil
}

// grants deletes what the reference made for registrations that are gone. gone has those
// that this command has deleted, or would delete.
func (d *deleter) grants(ctx context.Context, made map[schema.GroupVersionResource][]*unstructured.Unstructured, gone map[types.NamespacedName]bool) error {
	for _, resource := range grants {
		for _, u := range made[resource] {
			owner, ok := planleftover.OwnerOf(u)
			if !ok || owner.Kind != planleftover.KindRegistration || d.s.Scope != "" && owner.Namespace != d.s.Scope {
				continue
			}
			isGone, err := d.registrationIsGone(ctx, owner.NamespacedName, gone)
			if err != nil {
				return err
			}
			if !isGone {
				continue
			}
			if err := d.delete(ctx, leftover{resource: resource, object: u, reason: "its registration " + owner.String() + " is gone"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// registrationIsGone reports whether a registration does not exist. It asks the API server
// once, and keeps the answer in known.
func (d *deleter) registrationIsGone(ctx context.Context, key types.NamespacedName, known map[types.NamespacedName]bool) (bool, error) {
	if gone, ok := known[key]; ok {
		return gone, nil
	}
	_, err := d.s.API.Get(ctx, registrations, key.Namespace, key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, client.DescribeServerError(d.s.Server, err)
	}
	known[key] = err != nil
	return known[key], nil
}

func namesOf(items []*unstructured.Unstructured) map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, u := range items {
		out[types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}] = true
	}
	return out
}

func accountsIn(made map[schema.GroupVersionResource][]*unstructured.Unstructured) []metav1.Object {
	var out []metav1.Object
	for _, u := range made[serviceAccounts] {
		out = append(out, u)
	}
	return out
}
