package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// The reason of an Error says which kind of failure it was, and its exit code is the
// command's.
func TestFailureReasons(t *testing.T) {
	clusters := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusters"}
	noKinds := &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(404, "list", clusters, "", "", 0, true).ErrStatus}
	root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	for want, c := range map[string]struct {
		err  error
		code int
		idle bool
	}{
		"Usage":        {errors.New("unknown flag"), 1, true},
		"Unreachable":  {client.DescribeServerError("https://x", &url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}), 1, false},
		"Unauthorized": {client.DescribeServerError("https://x", apierrors.NewUnauthorized("no")), 1, false},
		"Forbidden":    {fmt.Errorf("list: %w", apierrors.NewForbidden(clusters, "", errors.New("no"))), 1, false},
		"NotInstalled": {client.DescribeServerError("https://x", noKinds), 1, false},
		"NotFound":     {apierrors.NewNotFound(clusters, "c1"), 1, false},
		"Failed":       {errors.New("anything"), 1, false},
		"Differences":  {cli.ErrDifferences, 2, false},
		"NotReady":     {cli.ErrNotReady, 3, false},
		"InvalidInput": {fmt.Errorf("%w: a.yaml", cli.ErrInput), 4, false},
		"Refused":      {fmt.Errorf("%w: no", cli.ErrRefused), 5, false},
		"Partial":      {cli.ErrPartly, 6, false},
	} {
		got := client.Failure(root, c.err, cli.ExitCode(c.err, false), !c.idle)
		if got.Reason != want || got.ExitCode != c.code || got.Message != c.err.Error() {
			t.Errorf("want %s and %d, got %+v", want, c.code, got)
		}
	}
}

// The advice for a missing right names the roles that really contain it.
func TestMissingRight(t *testing.T) {
	const grant = "an administrator grants it with a RoleBinding in the workspace to a ClusterRole"
	for _, c := range []struct{ verb, group, resource, want string }{
		{"list", "fleet.cattle.io", "gitrepos", grant + ": Rancher's fleet-workspace-readonly or -member, or one of your own (docs/rights.md)"},
		{"patch", "fleet.cattle.io", "gitrepos", grant + ": Rancher's fleet-workspace-member, or one of your own (docs/rights.md)"},
		{"create", "fleet.cattle.io", "clusterregistrationtokens", grant + ": Rancher's fleet-workspace-admin, or one of your own (docs/rights.md)"},
		{"patch", "fleet.cattle.io", "contents", grant + " of your own: none of those for workspaces has it (docs/rights.md)"},
		{"list", "fleet.cattle.io", "bundledeployments", "deployments are in the namespaces of the clusters: an administrator grants it there with a RoleBinding, " +
			"or everywhere with a ClusterRoleBinding, to a ClusterRole that contains it (docs/rights.md)"},
		{"list", "", "events", grant + ": Kubernetes' view, or one of your own (docs/rights.md)"},
		{"list", "", "secrets", "an administrator grants it with a RoleBinding in namespace fleet-default to a ClusterRole of your own (docs/rights.md)"},
	} {
		cause := fmt.Errorf("User %q cannot %s resource %q in API group %q in the namespace %q", "ana", c.verb, c.resource, c.group, "fleet-default")
		err := apierrors.NewForbidden(schema.GroupResource{Group: c.group, Resource: c.resource}, "x", cause)
		if got := client.MissingRight(client.DescribeServerError("https://x", err)); got != c.want {
			t.Errorf("%s %s: want %q, got %q", c.verb, c.resource, c.want, got)
		}
	}
	cause := errors.New(`User "ana" cannot create resource "fleetworkspaces" in API group "management.cattle.io" at the cluster scope`)
	err := apierrors.NewForbidden(schema.GroupResource{Group: "management.cattle.io", Resource: "fleetworkspaces"}, "", cause)
	if got, want := client.MissingRight(err), "an administrator grants it with a ClusterRoleBinding to a ClusterRole of your own (docs/rights.md)"; got != want {
		t.Errorf("at the cluster scope: want %q, got %q", want, got)
	}
}

// The hint to look at one workspace is given where a right everywhere is missing, and not
// where the workspace, or the namespace of the manager, was asked already.
func TestForbiddenHint(t *testing.T) {
	root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	for scope, want := range map[string]string{
		`at the cluster scope`:                   "-n WORKSPACE looks at one workspace only",
		`in the namespace "fleet-default"`:       "",
		`in the namespace "cattle-fleet-system"`: "",
	} {
		cause := fmt.Errorf("User %q cannot list resource %q in API group %q %s", "ana", "bundles", "fleet.cattle.io", scope)
		err := apierrors.NewForbidden(schema.GroupResource{Group: "fleet.cattle.io", Resource: "bundles"}, "", cause)
		if got := client.Failure(root, err, 1, true); got.Reason != "Forbidden" || got.Hint != want {
			t.Errorf("%s: want hint %q, got %+v", scope, want, got)
		}
	}
}

// A webhook that denies a request with 401 says nothing of the credentials.
func TestFailureOfWebhook(t *testing.T) {
	root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	if got := client.Failure(root, client.DescribeServerError("https://x", deniedWith401), 1, true); got.Reason != "Forbidden" || got.Hint != "" {
		t.Errorf("%+v", got)
	}
}

// A command that fails prints one document on stdout where -o asks for one, none
// where it has printed its own, and its error on stderr either way.
func TestFailuresAreDocuments(t *testing.T) {
	for _, c := range []struct {
		args   []string
		kind   string // empty: nothing on stdout
		reason string
		code   int
	}{
		{[]string{"get", "bundles", "nothing", "-o", "json"}, "Error", "Failed", 1},
		{[]string{"get", "bundles", "nothing", "-o", "yaml"}, "Error", "Failed", 1},
		{[]string{"events", "repo/nothing", "-o", "json"}, "Error", "Failed", 1},
		{[]string{"get", "bundles", "nothing"}, "", "", 1},
		{[]string{"get", "bundles", "nothing", "-o", "wide"}, "", "", 1},
		{[]string{"get", "bundles", "nothing", "-o", "jsonpath={.kind}"}, "", "", 1},
		{[]string{"get", "-o", "json"}, "Error", "Usage", 1},
		{[]string{"get", "bundles", "-o", "json", "--nonsense"}, "Error", "Usage", 1},
		{[]string{"explain", "examples-web", "c3", "-o", "json"}, "Explanation", "", 3},
		{[]string{"wait", "bundle/examples-web", "-o", "json", "--timeout", "1s"}, "WaitResult", "", 3},
		{[]string{"suspend", "repo/nothing", "--reason", "x", "-o", "json"}, "Suspension", "", 1},
	} {
		st := &stage{fake: newFake(t, "testdata/fleets/examples.yaml")}
		g := st.globals(func() {})
		g.Watch = func(_ context.Context, s *client.Session, _ client.Selection) (client.FleetWatch, error) {
			return &played{f: st.fake, s: s, over: func() error { return context.DeadlineExceeded }}, nil
		}
		var out, notes bytes.Buffer
		std := printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes}
		root := command(g, std)
		root.SetArgs(c.args)
		cmd, err := root.ExecuteContextC(t.Context())
		code := reportEnd(g, cmd, std, client.CommandEnd{Err: err}, func(string) string { return "" })
		line := strings.Join(c.args, " ")
		var doc client.Error
		if out.Len() > 0 {
			data, err := yaml.YAMLToJSON(out.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &doc); err != nil {
				t.Fatalf("%s: %v: %s", line, err, out.String())
			}
		}
		if code != c.code || doc.Kind != c.kind || doc.Kind == "Error" && (doc.Reason != c.reason || doc.ExitCode != code) {
			t.Errorf("fleet %s: exit code %d, printed %q", line, code, out.String())
		}
		if c.kind != "Explanation" && notes.Len() == 0 {
			t.Errorf("fleet %s: nothing on stderr", line)
		}
	}
}

// An interrupted command, and one that has failed under an interrupt, print no Error.
func TestInterruptIsNoFailure(t *testing.T) {
	var out, notes bytes.Buffer
	std := printer.Stdio{Out: &out, Err: &notes}
	g := (&stage{}).globals(nil)
	root := command(g, std)
	if code := reportEnd(g, root, std, client.CommandEnd{Err: errors.New("x"), Interrupted: true}, func(string) string { return "" }); code != 130 || out.Len()+notes.Len() > 0 {
		t.Errorf("exit code %d, %q, %q", code, out.String(), notes.String())
	}
}
