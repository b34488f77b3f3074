// Package rights tries out what a credential may do: every verb on every kind
// that an API server serves, both by asking the API server and by doing it.
package rights

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A Place is where verbs are tried.
type Place struct {
	Label     string   // in the results
	Namespace string   // empty: the whole cluster
	Names     []string // of objects to try, besides "any"
	// NamesOf are names to try of single resources, by "resource" without a group.
	NamesOf map[string][]string
}

// Granted are the rights of a credential, both as the API server reports them
// and as it grants them: sorted lines "<place>: <verb>
// <resource>[/<sub>][.<group>] [<name>]". A line has no name for verbs without
// one and where any name will do.
type Granted struct {
	Said []string // by SelfSubjectAccessReview
	Done []string // by requests
}

// anyName is a name that no object has.
const anyName = "any"

// workers is how many requests are under way at once.
const workers = 8

// collection and single are the verbs with and without a name in the path.
var (
	collection = []string{"list", "watch", "create", "deletecollection"}
	single     = []string{"get", "update", "patch", "delete"}
	// unusual verbs have no request of their own; the API server is only asked.
	unusual = []string{"bind", "escalate", "impersonate", "approve", "sign", "use", "attest"}
)

// Try tries every verb on every kind in some places with a credential. The
// administrator reports which kinds there are.
func Try(t testing.TB, admin, as *rest.Config, places []Place) Granted {
	t.Helper()
	m := matrix{base: as.Host}
	var err error
	if m.client, err = rest.HTTPClientFor(unlimited(as)); err != nil {
		t.Fatal(err)
	}
	if m.reviews, err = kubernetes.NewForConfig(unlimited(as)); err != nil {
		t.Fatal(err)
	}
	kinds := resources(t, admin)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(workers)
	for _, place := range places {
		for _, kind := range kinds {
			for _, a := range attempts(place, kind) {
				group.Go(func() error { return m.try(ctx, a) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return Granted{Said: tidy(m.said), Done: tidy(m.done)}
}

// unlimited is a configuration without rate limits of the client's.
func unlimited(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.QPS = -1
	return out
}

// A kind is one resource or subresource that the API server serves.
type kind struct {
	group, version, resource, sub string
	namespaced                    bool
}

func (k kind) String() string {
	s := k.resource
	if k.sub != "" {
		s += "/" + k.sub
	}
	if k.group != "" {
		s += "." + k.group
	}
	return s
}

// resources lists all kinds, each in one version.
func resources(t testing.TB, admin *rest.Config) []kind {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(unlimited(admin))
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var out []kind
	seen := map[string]bool{}
	for _, list := range lists {
		group, version, ok := strings.Cut(list.GroupVersion, "/")
		if !ok {
			group, version = "", list.GroupVersion
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			k := kind{group, version, resource, sub, r.Namespaced}
			if !seen[k.String()] {
				seen[k.String()] = true
				out = append(out, k)
			}
		}
	}
	return out
}

// An attempt is one verb on one kind in one place.
type attempt struct {
	place Place
	kind  kind
	verb  string
	name  string
	asked bool // there is no such request: only asked
}

func (a attempt) String() string {
	s := a.place.Label + ": " + a.verb + " " + a.kind.String()
	if a.name != "" && a.name != anyName {
		s += " " + a.name
	}
	return s
}

// attempts are all verbs on a kind in a place.
func attempts(place Place, k kind) []attempt {
	var out []attempt
	names := slices.Concat([]string{anyName}, place.Names, place.NamesOf[k.resource])
	for _, verb := range collection {
		switch {
		case k.sub == "":
			out = append(out, attempt{place: place, kind: k, verb: verb})
		case verb == "create":
			for _, name := range names {
				out = append(out, attempt{place: place, kind: k, verb: verb, name: name})
			}
		}
	}
	for _, verb := range single {
		for _, name := range names {
			out = append(out, attempt{place: place, kind: k, verb: verb, name: name})
		}
	}
	for _, verb := range unusual {
		out = append(out, attempt{place: place, kind: k, verb: verb, name: anyName, asked: true})
	}
	return out
}

// A matrix collects what was granted.
type matrix struct {
	base    string
	client  *http.Client
	reviews kubernetes.Interface

	mu         sync.Mutex
	said, done []string
}

func (m *matrix) try(ctx context.Context, a attempt) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.place.Namespace, Verb: a.verb, Group: a.kind.group, Version: a.kind.version,
			Resource: a.kind.resource, Subresource: a.kind.sub, Name: a.name,
		},
	}}
	answer, err := m.reviews.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	allowed := false
	if !a.asked {
		if allowed, err = m.request(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer.Status.Allowed {
		m.said = append(m.said, a.String())
	}
	if allowed || a.asked && answer.Status.Allowed {
		m.done = append(m.done, a.String())
	}
	return nil
}

// request does it, with an empty body, and reports whether the API server went
// past the question of rights.
func (m *matrix) request(ctx context.Context, a attempt) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	method, path := a.http()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(m.base, "/")+path, strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := m.client.Do(req)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	if a.verb != "watch" {
		_, _ = io.Copy(io.Discard, answer.Body) // so that the connection is used again
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return false, fmt.Errorf("the credential is not known")
	}
	return answer.StatusCode != http.StatusForbidden, nil
}

// http is the request of an attempt.
func (a attempt) http() (method, path string) {
	path = "/apis/" + a.kind.group + "/" + a.kind.version
	if a.kind.group == "" {
		path = "/api/" + a.kind.version
	}
	if a.place.Namespace != "" {
		path += "/namespaces/" + a.place.Namespace
	}
	path += "/" + a.kind.resource
	if a.name != "" {
		path += "/" + a.name
	}
	if a.kind.sub != "" {
		path += "/" + a.kind.sub
	}
	switch a.verb {
	case "create":
		return http.MethodPost, path
	case "update":
		return http.MethodPut, path
	case "patch":
		return http.MethodPatch, path
	case "delete", "deletecollection":
		return http.MethodDelete, path
	case "watch":
		return http.MethodGet, path + "?watch=true&timeoutSeconds=1"
	}
	return http.MethodGet, path
}

// tidy sorts lines; one for a certain name goes where any name will do.
func tidy(lines []string) []string {
	slices.Sort(lines)
	var out []string
	for _, line := range slices.Compact(lines) {
		words := strings.Split(line, " ")
		if !slices.Contains(lines, strings.Join(words[:len(words)-1], " ")) {
			out = append(out, line)
		}
	}
	return out
}
