package rights

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Look is Try with much fewer requests: it gets what the API server grants in one
// answer for each place, by SelfSubjectRulesReview, and looks up every verb on
// every kind in that. What the API server does is tried out for every verb that has
// a request.
func Look(t testing.TB, admin, as *rest.Config, places []Place) Granted {
	t.Helper()
	m := matrix{base: as.Host}
	var err error
	if m.client, err = rest.HTTPClientFor(unlimited(as)); err != nil {
		t.Fatal(err)
	}
	reviews, err := kubernetes.NewForConfig(unlimited(as))
	if err != nil {
		t.Fatal(err)
	}
	kinds := resources(t, admin)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(workers)
	for _, place := range places {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: place.rulesOf()}}
		answer, err := reviews.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range place.attempts(kinds) {
			allowed := slices.ContainsFunc(answer.Status.ResourceRules, a.allowedBy)
			if allowed {
				m.said = append(m.said, a.String())
			}
			group.Go(func() error { return m.look(ctx, a, allowed) })
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return Granted{Said: tidy(m.said), Done: tidy(m.done)}
}

// attempts are all verbs on the kinds that there can be in a place.
func (p Place) attempts(kinds []kind) []attempt {
	var out []attempt
	for _, k := range kinds {
		if p.Namespace == "" || k.namespaced {
			out = append(out, attempts(p, k)...)
		}
	}
	return out
}

// look tries one attempt out; of one without a request it takes the answer.
func (m *matrix) look(ctx context.Context, a attempt, allowed bool) error {
	done, err := allowed, error(nil)
	if !a.asked {
		done, err = m.request(ctx, a)
	}
	if done {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done = append(m.done, a.String())
	}
	return err
}

// nowhere is a namespace that does not exist: what may be done there may be done
// everywhere.
const nowhere = "no-such-namespace"

// rulesOf is the namespace whose rules count in a place.
func (p Place) rulesOf() string {
	if p.Namespace == "" {
		return nowhere
	}
	return p.Namespace
}

// allowedBy reports whether a rule allows an attempt.
func (a attempt) allowedBy(r authorizationv1.ResourceRule) bool {
	resource := a.kind.resource
	if a.kind.sub != "" {
		resource += "/" + a.kind.sub
	}
	sub := a.kind.sub != "" && slices.Contains(r.Resources, "*/"+a.kind.sub)
	named := len(r.ResourceNames) == 0 || a.name != "" && slices.Contains(r.ResourceNames, a.name)
	return named && (sub || holds(r.Resources, resource)) && holds(r.APIGroups, a.kind.group) && holds(r.Verbs, a.verb)
}

func holds(list []string, word string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, word)
}

// A Right is a line of what was granted, taken apart.
type Right struct {
	Place, Verb, Kind string
	Name              string // empty: any, or the verb has none
}

// ParseRight takes a line apart.
func ParseRight(line string) Right {
	place, rest, _ := strings.Cut(line, ": ")
	words := append(strings.Fields(rest), "", "")
	return Right{Place: place, Verb: words[0], Kind: words[1], Name: words[2]}
}
