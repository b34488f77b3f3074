package agent

import (
	"net/http"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// An ownCluster knows whether the agent has the rights that it needs in its own
// cluster. It watches the answers to the requests that the agent sends there.
type ownCluster struct {
	namespace string // of the agent

	mu   sync.Mutex
	code int    // status by which the API server refuses the agent; 0: it refuses nothing
	soon func() // makes the agent check in at once; nil: the agent is not connected
}

// judgeAnswers returns a connection to the agent's own cluster whose answers the
// ownCluster watches.
func (o *ownCluster) judgeAnswers(cfg *rest.Config) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return answerJudge{o, next} })
	return out
}

// An answerJudge passes the answers to requests to an ownCluster.
type answerJudge struct {
	own  *ownCluster
	next http.RoundTripper
}

// RoundTrip sends a request.
func (j answerJudge) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := j.next.RoundTrip(r)
	if err == nil && !deniedWrite(r, resp) {
		j.own.onAnswer(r, resp.StatusCode)
	}
	return resp, err
}

// deniedWrite reports whether admission in the agent's own cluster has denied a write with
// 401, which Rancher's webhook does.
func deniedWrite(r *http.Request, resp *http.Response) bool {
	return r.Method != http.MethodGet && resp.StatusCode == http.StatusUnauthorized && kube.DeniedAnswer(resp)
}

// onAnswer handles one answer. It ignores a refusal to the account of a bundle, a
// missing right outside of the agent's namespace, and a refusal by a quota or a
// webhook: these do not concern the agent itself.
func (o *ownCluster) onAnswer(r *http.Request, code int) {
	if r.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
		return
	}
	home := r.Method == http.MethodGet && strings.Contains(r.URL.Path+"/", "/namespaces/"+o.namespace+"/")
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden && home:
		o.set(code)
	case code < http.StatusBadRequest && (home || o.refusal() == http.StatusUnauthorized):
		o.set(0)
	}
}

// refusal returns the status by which the API server refuses the agent; 0: it refuses
// nothing.
func (o *ownCluster) refusal() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.code
}

// set stores the status of a refusal, and makes the agent check in if it is new.
func (o *ownCluster) set(code int) {
	o.mu.Lock()
	changes, soon := o.code != code, o.soon
	o.code = code
	o.mu.Unlock()
	if changes && soon != nil {
		soon()
	}
}

// connected sets the function that makes the agent check in at once.
func (o *ownCluster) connected(soon func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.soon = soon
}

// trouble returns why the agent cannot work in its own cluster; empty if it can.
func (o *ownCluster) trouble() string {
	what := ""
	switch o.refusal() {
	case http.StatusUnauthorized:
		what = "does not know its account any more (Unauthorized)"
	case http.StatusForbidden:
		what = "does not let it work in its own namespace (Forbidden)"
	default:
		return ""
	}
	return "the agent may not read or write in its own cluster: the API server there " + what +
		"; the namespace " + o.namespace + ", the service account or its rights were deleted. What runs there is kept; install the agent again"
}
