package helm

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestDenied(t *testing.T) {
	const tenant = `User "system:serviceaccount:fleet:tenant" cannot `
	forbidden := func(group, resource, name, why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, name, errors.New(why))
	}
	cases := map[string]struct {
		why  string
		err  error
		want string // empty: no right was refused
	}{
		"Create": {"a new object has no name yet", forbidden("", "configmaps", "", tenant+`create resource "configmaps" in API group "" in the namespace "web"`),
			`service account "tenant" of namespace "fleet" may not create configmaps in namespace "web"`},
		"Cluster": {"no namespace at all", forbidden("rbac.authorization.k8s.io", "clusterroles", "", tenant+`create resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope`),
			`service account "tenant" of namespace "fleet" may not create clusterroles.rbac.authorization.k8s.io in the whole cluster`},
		"Named": {"which one", forbidden("", "secrets", "db", tenant+`get resource "secrets" in API group "" in the namespace "web"`),
			`service account "tenant" of namespace "fleet" may not get secrets "db" in namespace "web"`},
		"Namespace": {"a namespace is in itself", forbidden("", "namespaces", "web", tenant+`update resource "namespaces" in API group "" in the namespace "web"`),
			`service account "tenant" of namespace "fleet" may not update namespaces "web"`},
		"Path": {"no resource", forbidden("", "", "", tenant+`get path "/apis"`),
			`service account "tenant" of namespace "fleet" may not get /apis`},
		"User": {"a person", forbidden("", "pods", "", `User "ana" cannot list resource "pods" in API group "" at the cluster scope`),
			`user "ana" may not list pods in the whole cluster`},
		"BrokenRole": {"the API server says what else is wrong", forbidden("", "pods", "", tenant+`list resource "pods" in API group "" at the cluster scope: RBAC: clusterrole "x" not found`),
			`service account "tenant" of namespace "fleet" may not list pods in the whole cluster`},
		"Lookup": {"in the words of a template", fmt.Errorf(`template: web/templates/c.yaml:3:7: executing "web/templates/c.yaml" at <lookup "v1" "Secret" "web" "db">: error calling lookup: %w`,
			forbidden("", "secrets", "db", tenant+`get resource "secrets" in API group "" in the namespace "web"`)),
			`templates/c.yaml:3:7: lookup: service account "tenant" of namespace "fleet" may not get secrets "db" in namespace "web"`},
		"Escalation": {"more than it has", forbidden("rbac.authorization.k8s.io", "roles", "r", "user \"system:serviceaccount:fleet:tenant\" (groups=[\"system:serviceaccounts\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}"),
			`service account "tenant" of namespace "fleet" may not grant rights that it does not have itself: {APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		"Quota":   {"a quota is no right", forbidden("", "pods", "web", "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"), ""},
		"Webhook": {"nor is a policy", errors.New(`admission webhook "x" denied the request: cannot have resource`), ""},
		"Other":   {"anything else", errors.New("connection refused"), ""},
		"None":    {"no error", nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			words, ok := deniedText(c.err)
			if words != c.want || ok != (c.want != "") {
				t.Errorf("%s\nwant %s\ngot  %s", c.why, c.want, words)
			}
			if !ok {
				return
			}
			if err := classify(fmt.Errorf("error calling include: %w", c.err)); reconcile.ReasonOf(err) != release.ReasonForbidden || !reconcile.IsRequeue(err) {
				t.Errorf("with the right it would go on: %v", err)
			}
		})
	}
}
