package kubetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Guard makes the server authenticate and authorize the requests that Handler passes on,
// as a real API server does, and returns the token of an administrator of this name.
// Service accounts show the tokens that the server made for them, and have the rights of
// their Roles and ClusterRoles. Requests by RoundTrip, without Handler, remain those of an
// administrator.
//
// Rights count from the next request on, those of aggregated ClusterRoles after
// AggregateRoles.
func (s *Server) Guard(admin string) (token string) {
	token = rand.Text()
	s.mu.Lock()
	s.guard.admin, s.guard.adminToken = admin, token
	s.mu.Unlock()
	_, err := kube.StoreOf[*rbacv1.ClusterRole](s.Connect("kubetest")).Create(context.Background(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
		},
	})
	if err != nil {
		s.t.Errorf("kubetest: guard: %v", err)
	}
	return token
}

// Handler serves the server to other processes. See Guard for who may do what.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		resp, err := s.answer(req, s.guarded())
		if err != nil {
			panic(http.ErrAbortHandler) // the client sees that the connection was cut
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		flow := http.NewResponseController(w)
		buf := make([]byte, 32<<10)
		for {
			_ = flow.Flush() // a client that has left ends the copy below
			n, err := resp.Body.Read(buf)
			if n > 0 {
				if _, err := w.Write(buf[:n]); err != nil {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				panic(http.ErrAbortHandler)
			}
		}
	})
}

func (s *Server) guarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.adminToken != ""
}

// A guard is what a server authenticates and authorizes by.
type guard struct {
	admin      string
	adminToken string                // empty: the server authorizes no request
	owners     map[string]tokenOwner // by the token
	changes    int                   // of roles and bindings until grants were read
	grants     []grant
}

// A user is who sends a request.
type user struct {
	name   string
	groups []string
}

const (
	anonymous     = "system:anonymous"
	groupMasters  = "system:masters"
	accountPrefix = "system:serviceaccount:"

	groupAuthenticated = "system:authenticated" // all users but anonymous
)

// accountUser is the user that a service account is.
func accountUser(namespace, name string) user {
	return user{accountPrefix + namespace + ":" + name, []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, groupAuthenticated}}
}

// A tokenOwner is the service account that a token was made for.
type tokenOwner struct {
	account *record
	secret  *record // that holds the token; nil: a TokenRequest made it
	expires metav1.Time
}

// authenticate returns the user of a token. The caller holds s.mu.
func (h handler) authenticate(token string) (user, error) {
	if token == h.guard.adminToken {
		return user{h.guard.admin, []string{groupMasters, groupAuthenticated}}, nil
	}
	if token == "" {
		return user{anonymous, []string{"system:unauthenticated"}}, nil
	}
	owner, ok := h.guard.owners[token]
	if !ok {
		return user{}, apierrors.NewUnauthorized("Unauthorized")
	}
	exists := func(r *record, resource string) bool {
		now := h.resources[corev1.SchemeGroupVersion.WithResource(resource)].objects[kube.KeyOf(r)]
		return now != nil && now.GetUID() == r.GetUID()
	}
	switch {
	case !exists(owner.account, "serviceaccounts"), owner.secret != nil && !exists(owner.secret, "secrets"),
		!owner.expires.IsZero() && now().After(owner.expires.Time):
		return user{}, apierrors.NewUnauthorized("Unauthorized")
	}
	if owner.secret != nil {
		if err := h.markUsed(kube.KeyOf(owner.secret)); err != nil {
			return user{}, err
		}
	}
	return accountUser(owner.account.GetNamespace(), owner.account.GetName()), nil
}

// labelLastUsed is the day on which the token of a Secret was used last:
// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-legacy-token-last-used
const labelLastUsed = "kubernetes.io/legacy-token-last-used"

// markUsed labels the Secret of a token that a request shows, as API servers do once a day.
func (h handler) markUsed(key kube.Key) error {
	secrets := h.resources[corev1.SchemeGroupVersion.WithResource("secrets")]
	day := now().Format("2006-01-02")
	if secrets.objects[key].GetLabels()[labelLastUsed] == day {
		return nil
	}
	obj := secrets.objects[key].DeepCopy()
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelLastUsed] = day
	obj.SetLabels(labels)
	_, err := h.commit(secrets, obj, false)
	return err
}

// permit authenticates and authorizes a request. The call is nil for a request for
// discovery, which every authenticated user may send.
func (h handler) permit(c *call, req *http.Request) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	who, err := h.authenticate(bearerToken(req))
	switch {
	case err != nil:
		return err
	case c == nil && who.name == anonymous && req.URL.Path != "/version":
		text := fmt.Sprintf("User %q cannot get path %q", who.name, req.URL.Path)
		return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(text))
	case c == nil:
		return nil
	}
	c.By = who.name
	if impersonated := c.User; impersonated != "" {
		ask := attributes{verb: "impersonate", resource: "users", name: impersonated}
		if namespace, name, ok := accountOf(impersonated); ok {
			ask.resource, ask.namespace, ask.name = "serviceaccounts", namespace, name
		}
		if !h.allows(who, ask) {
			return ask.forbidden(who)
		}
		who = user{impersonated, []string{groupAuthenticated}}
		if ask.resource == "serviceaccounts" {
			who = accountUser(ask.namespace, ask.name)
		}
	}
	c.who = who
	if c.Kind == selfReviewKind.resource() && slices.Contains(who.groups, groupAuthenticated) {
		return nil
	}
	if ask := c.attributes(); !h.allows(who, ask) {
		return ask.forbidden(who)
	}
	return nil
}
