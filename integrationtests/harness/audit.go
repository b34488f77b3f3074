package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A Request is one entry of an API server's audit log.
type Request struct {
	Cluster     string // whose API server
	At          time.Time
	Ended       time.Time // of a watch; zero: it goes on
	User        string
	As          string // whom the user impersonated
	Agent       string // the User-Agent
	Verb        string
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Path        string // of requests that are not about a resource
	Query       string // of the URL, as it was sent
	Code        int
	Ending      bool   // refused because the namespace is being deleted
	Body        string // what was sent, JSON; of an API server in memory
}

// What is the resource with its subresource, "bundledeployments/status", or
// the path of a request that is not about a resource.
func (r Request) What() string {
	switch {
	case r.Resource == "":
		return r.Path
	case r.Subresource == "":
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// Writes reports whether the request asks the API server to change something.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Ours reports whether the request came from one of Fleet's own processes: by
// the service accounts of its charts and those that it makes for agents.
func (r Request) Ours() bool {
	for _, namespace := range []string{"cattle-fleet-system", "cattle-fleet-local-system", "cattle-fleet-clusters-system"} {
		if strings.HasPrefix(r.User, "system:serviceaccount:"+namespace+":") {
			return true
		}
	}
	return false
}

// String is one line for people.
func (r Request) String() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	by := r.User
	if r.As != "" {
		by += " as " + r.As
	}
	return fmt.Sprintf("%s %s: %s %s %s (%d) by %s, %s", r.At.Format("15:04:05.000"), r.Cluster, r.Verb, r.What(), name, r.Code, by, r.Agent)
}

// auditEvent has the fields of a line of the log that Request needs.
type auditEvent struct {
	ID         string    `json:"auditID"`
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	UserAgent  string    `json:"userAgent"`
	Stage      string    `json:"stage"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Now        time.Time `json:"stageTimestamp"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response metav1.Status `json:"responseStatus"`
}

// ReadAudit reads the requests that an API server has received since a
// moment, in the order of their end; a watch counts when it begins and not
// again when it ends. path is that of the log, whose older files stand
// beside it; cluster is what the requests shall name.
func ReadAudit(cluster, path string, since time.Time) ([]Request, error) {
	old := strings.TrimSuffix(path, filepath.Ext(path)) + "-*" + filepath.Ext(path)
	files, err := filepath.Glob(old)
	if err != nil {
		return nil, fmt.Errorf("find audit logs: %w", err)
	}
	slices.Sort(files) // named by time
	var all []Request
	for _, file := range append(files, path) {
		part, err := readAuditFile(cluster, file, since)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

func readAuditFile(cluster, path string, since time.Time) ([]Request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer file.Close()
	var list []Request
	watches := map[string]int{} // indexes, by the request's id
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return list, nil // the rest is a line that is being written
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read audit log %s: %w", path, err)
		}
		if i, ok := watches[e.ID]; ok && e.Stage != "ResponseStarted" {
			list[i].Ended = e.Now
		}
		if e.Received.Before(since) || e.Verb == "watch" && e.Stage != "ResponseStarted" {
			continue
		}
		if e.Verb == "watch" {
			watches[e.ID] = len(list)
		}
		path, query, _ := strings.Cut(e.RequestURI, "?")
		list = append(list, Request{
			Cluster: cluster, At: e.Received, User: e.User.Username, As: e.Impersonated.Username, Agent: e.UserAgent, Verb: e.Verb,
			Group: e.Object.Group, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
			Namespace: e.Object.Namespace, Name: e.Object.Name, Path: path, Query: query, Code: int(e.Response.Code),
			Ending: kube.IsTerminating(&apierrors.StatusError{ErrStatus: e.Response}),
		})
	}
}

// Requests reads what the API servers of the given clusters have been asked
// since a moment, as far as keep (everything where nil).
func (w *World) Requests(since time.Time, keep func(Request) bool, members ...*Member) []Request {
	w.t.Helper()
	var out []Request
	for _, m := range members {
		list, err := RequestsOf(m.Cluster, since)
		w.must(err)
		for _, r := range list {
			if keep == nil || keep(r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Lines is a list of requests as text: the first 20, and how many more.
func Lines(list []Request) string {
	var b strings.Builder
	for i, r := range list {
		if i == 20 {
			fmt.Fprintf(&b, "and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintln(&b, r)
	}
	return b.String()
}
