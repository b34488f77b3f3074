package explain

import (
	"regexp"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// repoHints are what helps against a condition of the GitRepo.
func (s *study) repoHints(c *fleet.Condition) []Hint {
	r, j := s.Repo, judgement{}
	secret := r.Spec.ClientSecretName
	switch c.Reason {
	case "AuthenticationRefused", "InvalidCredentials":
		if secret == "" {
			j = j.hint("to give it credentials", "put them into a Secret in %s and name it in spec.clientSecretName of repo %s", r.Namespace, r.Name)
		} else {
			j = j.hint("to give it others", "kubectl -n %s edit secret %s", r.Namespace, secret)
		}
	case "BranchNotFound", "RevisionNotFound", "RepositoryNotFound", "InvalidURL", "NotGit", "EmptyRepository":
		j = j.hint("to read another", "kubectl -n %s edit gitrepo %s", r.Namespace, r.Name)
	case "CertificateRefused":
		j = j.hint("to trust it", "put its certificate into spec.caBundle of repo %s", r.Name)
	case fleet.ReasonSuspended:
		return j.hint("to go on", "fleet resume --all").hints
	}
	return j.hint("to see what happened", "fleet events repo/%s -n %s", r.Name, r.Namespace).hints
}

// owned finds the object that a NotOwned is about: "Service web/web exists and
// does not belong to this release".
var owned = regexp.MustCompile(`^([A-Z][A-Za-z]+) (?:([a-z0-9.-]+)/)?([a-zA-Z0-9.:-]+)(?: [^ ]+)? exists and does not belong`)

// releaseHints are what helps against a failure of the agent.
func (p *pair) releaseHints(reason, message string) []Hint {
	j, cluster, file := judgement{}, p.at.Key.Name, p.file()
	switch reason {
	case release.ReasonNotOwned, release.ReasonForeignRelease, fleet.ReasonError:
		m := owned.FindStringSubmatch(message)
		if reason == fleet.ReasonError && m == nil {
			break
		}
		j = j.hint("to let Fleet take it over", "set helm.takeOwnership: true in %s", file)
		if m != nil && m[2] != "" {
			j = j.hint("or remove it on "+cluster, "kubectl -n %s delete %s %s", m[2], strings.ToLower(m[1]), m[3])
		} else if m != nil {
			j = j.hint("or remove it on "+cluster, "kubectl delete %s %s", strings.ToLower(m[1]), m[3])
		}
		return j.hints
	case release.ReasonImmutable:
		return j.hint("to have it made anew", "set helm.force: true in %s", file).
			hint("or remove it on "+cluster, "delete the object, and change the bundle: the agent tries again").hints
	case release.ReasonTimeout:
		return j.hint("to give it more time", "raise helm.timeoutSeconds in %s", file).hints
	case release.ReasonBadTemplate, release.ReasonBadValues, release.ReasonBadYAML, release.ReasonBadChart, release.ReasonBadKustomization,
		release.ReasonInvalidObject, release.ReasonBadContent:
		return j.hint("to see it before it is pushed, in a clone", "fleet lint DIR").hints
	case release.ReasonEmptyResult:
		return j.hint("if it is meant to be gone", "delete its directory from the repository").
			hint("if it is meant to be empty", "set allowEmpty: true in %s", file).hints
	case release.ReasonUnknownKind:
		return j.hint("to go on", "install the CRD on %s first; dependsOn in %s keeps the order", cluster, file).hints
	case release.ReasonNoAccount:
		return j.hint("to go on", "make that service account on %s, or change serviceAccount in %s", cluster, file).hints
	case release.ReasonNoValues:
		return j.hint("to go on", "make what helm.valuesFrom names on %s, or change it in %s", cluster, file).hints
	case release.ReasonForbidden:
		return j.hint("to go on", "give the agent's account on %s that right, or lift what refuses it", cluster).hints
	case release.ReasonClusterScoped:
		return j.hint("to go on", "take that object out, or lift the limit to one namespace in %s", file).hints
	}
	return j.hint("to see what happens", "fleet events cluster/%s -n %s", cluster, p.at.Key.Namespace).
		hint("on the site", "fleet-agent status").hints
}
