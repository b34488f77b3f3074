// Package tenants proves that what is done for a bundle is done with the rights of
// the service account that it names. A real API server refuses what the account
// may not do, and its audit log says who has asked: the agent itself only for what
// is its own.
package tenants

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// A site is an agent that works as the service account fleet-agent in its own
// cluster, with the rights of its chart.
type site struct {
	*harness.Site
	began time.Time
}

func newSite(t *testing.T, hub *harness.Hub, name string) *site {
	t.Helper()
	s := &site{Site: harness.NewSite(t, hub, hub, name)}
	s.Account()
	s.Start()
	s.Order("warm", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "x")}})
	s.State("warm", fleet.Ready) // deployed with the agent's own account, and the requests that it sends only once are sent
	s.began = s.Moment()
	return s
}

// tenant makes a service account for deployments, with rights.
func (s *site) tenant(name string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	s.Down.Account(s.TB, s.Namespace, name)
	if len(rules) > 0 {
		s.Down.Allow(s.TB, s.account(name), "", rules...)
	}
}

func (s *site) account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: s.Namespace, Name: name}
}

// user is a service account of the agent's namespace, as audit logs name it.
func (s *site) user(name string) string { return "system:serviceaccount:" + s.Namespace + ":" + name }

// everything is the right to do everything.
var everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// may is a right.
func may(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{group}, Verbs: strings.Split(verbs, " "), Resources: strings.Split(resources, " "), ResourceNames: names,
	}
}

// requests lists the requests of the agent to its own cluster since the test
// began.
func (s *site) requests() []harness.Request {
	s.Helper()
	list, err := s.Down.Requests(s.began)
	s.Must(err)
	return slices.DeleteFunc(list, func(r harness.Request) bool { return r.User != s.user("fleet-agent") })
}

// asItself are those of requests that the agent made with its own rights, the
// exceptions aside: its own things, in its own namespace; which kinds there are;
// watches of metadata; and Helm's records.
func (s *site) asItself() []harness.Request {
	s.Helper()
	return slices.DeleteFunc(s.requests(), func(r harness.Request) bool {
		switch {
		case r.As != "", r.Namespace == s.Namespace, r.Namespace == s.Home("warm"), r.Resource == "":
			return true
		case r.Resource == "events" && r.Verb == "create":
			return true
		case r.Verb == "get" && r.Resource == "namespaces" && r.Name == metav1.NamespaceSystem:
			return true // the UID by which an agent knows its own cluster
		case r.Verb == "list" || r.Verb == "watch":
			metadata := strings.Contains(r.Query, "labelSelector=objectset.rio.cattle.io") ||
				r.Resource == "customresourcedefinitions" || strings.HasSuffix(r.Agent, "(namespaces)")
			return metadata || r.Resource == "secrets" && (strings.Contains(r.Query, "owner%3Dhelm") || strings.Contains(r.Query, "fleet.cattle.io"))
		}
		return r.Resource == "secrets" && strings.HasPrefix(r.Name, "sh.helm.release.v1.")
	})
}

// clean checks that the agent has done nothing of a tenant's with its own rights.
func (s *site) clean() {
	s.Helper()
	if list := s.asItself(); len(list) > 0 {
		s.Errorf("the agent has asked with its own rights:\n%s", harness.Lines(list))
	}
}

// asked reports whether the agent has sent a request as a service account, and
// whether the API server has accepted it.
func (s *site) asked(account, verb, what string) bool {
	s.Helper()
	return slices.ContainsFunc(s.requests(), func(r harness.Request) bool {
		return r.As == s.user(account) && r.Verb == verb && r.What() == what && r.Code < 300
	})
}

func (s *site) create(obj kube.Object) {
	s.Helper()
	switch o := obj.(type) {
	case *corev1.Namespace:
		_, err := kube.StoreOf[*corev1.Namespace](s.Down.Admin).Create(s.Context(), o)
		s.Must(err)
	case *corev1.Secret:
		_, err := kube.StoreOf[*corev1.Secret](s.Down.Admin).Create(s.Context(), o)
		s.Must(err)
	case *corev1.ConfigMap:
		_, err := kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Create(s.Context(), o)
		s.Must(err)
	default:
		s.Fatalf("do not know how to create a %T", obj)
	}
}

// space makes a namespace with labels.
func (s *site) space(name string, labels map[string]string) string {
	s.Helper()
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Prefix + name, Labels: labels}})
	return s.Prefix + name
}

// relabel changes the labels of a namespace.
func (s *site) relabel(name string, f func(map[string]string)) {
	s.Helper()
	spaces := kube.StoreOf[*corev1.Namespace](s.Down.Admin)
	s.Until("namespace "+name+" has other labels", func() bool {
		old, err := spaces.Get(s.Context(), kube.Key{Name: name})
		s.Must(err)
		changed := old.DeepCopy()
		f(changed.Labels)
		_, err = spaces.Patch(s.Context(), old, changed)
		return err == nil
	})
}

// labels are those of a namespace; nil if there is none.
func (s *site) labels(name string) map[string]string {
	s.Helper()
	ns, err := kube.StoreOf[*corev1.Namespace](s.Down.Admin).Get(s.Context(), kube.Key{Name: name})
	if kube.IsGone(err) || err == nil && ns.DeletionTimestamp != nil {
		return nil
	}
	s.Must(err)
	return ns.Labels
}

// chart is a chart with one template.
func chart(template string) []string {
	return []string{"Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/c.yaml", template}
}
