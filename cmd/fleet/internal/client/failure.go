package client

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Error is what a command prints with -o json or -o yaml that fails before it has
// printed anything.
type Error struct {
	printer.Document
	// Message is the text that stands on stderr.
	Message string `json:"message"`
	// Reason is one CamelCase word that programs may compare: Usage, Unreachable,
	// Unauthorized, Forbidden, NotFound, NotInstalled, Differences, NotReady,
	// InvalidInput, Refused, Partial; Failed for all else.
	Reason string `json:"reason"`
	// Hint is a command or a flag that helps, where one is known.
	Hint string `json:"hint,omitempty"`
	// ExitCode is the one with which the command ends.
	ExitCode int `json:"exitCode"`
}

// exitReasons are the reasons of exit codes that have one meaning.
var exitReasons = map[int]string{2: "Differences", 3: "NotReady", 4: "InvalidInput", 5: "Refused", 6: "Partial"}

// Failure is the document about an error that ended a command. ran reports whether
// the command began its work, so that it was called in a right way.
func Failure(cmd *cobra.Command, err error, code int, ran bool) Error {
	doc := Error{Document: printer.NewDocument("Error"), Message: err.Error(), Reason: exitReasons[code], ExitCode: code}
	var elsewhere *NotManagementError
	switch {
	case doc.Reason != "":
	case !ran:
		doc.Reason, doc.Hint = "Usage", cmd.CommandPath()+" --help"
	case apierrors.IsUnauthorized(err) && kube.IsDenied(err):
		doc.Reason = "Forbidden"
	case apierrors.IsUnauthorized(err):
		doc.Reason = "Unauthorized"
	case apierrors.IsForbidden(err) && anonymous(err):
		doc.Reason, doc.Hint = "Forbidden", "--context and --kubeconfig choose other credentials"
	case errors.As(err, new(*unseenDeploymentsError)):
		doc.Reason = "Forbidden" // no -n helps
	case apierrors.IsForbidden(err):
		doc.Reason = "Forbidden"
		if strings.Contains(err.Error(), atClusterScope) {
			doc.Hint = "-n WORKSPACE looks at one workspace only"
		}
	case errors.As(err, &elsewhere):
		doc.Reason, doc.Hint = "NotInstalled", elsewhere.hint
	case UnknownResource(err):
		doc.Reason, doc.Hint = "NotInstalled", installHint
	case apierrors.IsNotFound(err):
		doc.Reason = "NotFound"
	case noAnswer(err):
		doc.Reason, doc.Hint = "Unreachable", "fleet check"
	default:
		doc.Reason = "Failed"
	}
	return doc
}

// anonymous reports whether the API server has refused a request that came without
// credentials. A right for that user would be one for every client.
func anonymous(err error) bool {
	return strings.Contains(err.Error(), `is forbidden: User "system:anonymous"`)
}

// refusedRight finds the verb and the resource in the message of an API server that
// refuses a request, and refusedIn the namespace.
var (
	refusedRight = regexp.MustCompile(`cannot ([a-z]+) resource "([^"]+)"`)
	refusedIn    = regexp.MustCompile(`in the namespace "([^"]+)"`)
)

// atClusterScope is in the message of an API server about a right in all namespaces, or on
// objects that are in none.
const atClusterScope = "at the cluster scope"

// MissingRight says how a user gets a right that an error is about; empty for all other
// errors. The message of the API server names the verb, the resource and the namespace.
func MissingRight(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || !strings.Contains(err.Error(), `is forbidden: User "`) {
		return "" // a webhook or a policy has refused it
	}
	if anonymous(err) {
		return "the kubeconfig sends no credentials: log in, or choose another user or file (--context, --kubeconfig)"
	}
	d := status.Status().Details
	ofEvents := d != nil && d.Group == events.Group && d.Kind == events.Resource
	if d == nil || d.Group != fleet.Group && !ofEvents {
		return otherRight(err)
	}
	if d.Group == fleet.Group && d.Kind == cli.MustKind("deployments").Resource().Resource {
		return "deployments are in the namespaces of the clusters: an administrator grants it there with a RoleBinding, " +
			"or everywhere with a ClusterRoleBinding, to a ClusterRole that contains it (docs/rights.md)"
	}
	role := ""
	if found := refusedRight.FindStringSubmatch(err.Error()); ofEvents {
		role = "Kubernetes' view"
	} else if found != nil {
		role = rolesWith(found[1], found[2])
	}
	if role == "" {
		return "an administrator grants it with a RoleBinding in the workspace to a ClusterRole of your own: none of those for workspaces has it (docs/rights.md)"
	}
	return "an administrator grants it with a RoleBinding in the workspace to a ClusterRole: " + role + ", or one of your own (docs/rights.md)"
}

// otherRight is MissingRight for objects that are not Fleet's, which no ClusterRole for
// workspaces contains.
func otherRight(err error) string {
	binding := ""
	if in := refusedIn.FindStringSubmatch(err.Error()); in != nil {
		binding = "RoleBinding in namespace " + in[1]
	} else if strings.Contains(err.Error(), atClusterScope) {
		binding = "ClusterRoleBinding"
	}
	if binding == "" {
		return ""
	}
	return "an administrator grants it with a " + binding + " to a ClusterRole of your own (docs/rights.md)"
}

// rolesWith are the ClusterRoles for workspaces that contain a right on a kind of Fleet;
// empty where none does.
func rolesWith(verb, resource string) string {
	switch least := workspace.LeastRole(verb, resource); least {
	case "":
		return ""
	case workspace.AllReadOnly:
		return "Rancher's fleet-workspace-readonly or -member"
	default:
		return "Rancher's " + least
	}
}

// noAnswer reports whether no server answered.
func noAnswer(err error) bool {
	var netErr net.Error
	var urlErr *url.Error
	return errors.As(err, &urlErr) || errors.As(err, &netErr)
}

// An CommandEnd is how a command ended.
type CommandEnd struct {
	Err         error
	Interrupted bool
}

// DocumentFormat is the format of the document that a command was to print; empty
// where it was to print something else.
func DocumentFormat(cmd *cobra.Command) printer.Output {
	f := cmd.Flags().Lookup("output")
	if f == nil || f.Annotations[printer.FormatsKey] == nil {
		return ""
	}
	o := printer.Output(f.Value.String())
	if (o == printer.FormatJSON || o == printer.FormatYAML) && slices.Contains(f.Annotations[printer.FormatsKey], string(o)) {
		return o
	}
	return ""
}

// PrintsContinuously reports whether a command was to keep printing, one line for each document.
func PrintsContinuously(cmd *cobra.Command) bool {
	for _, name := range []string{"watch", "follow"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
			return true
		}
	}
	return false
}
