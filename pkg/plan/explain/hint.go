package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/schema"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// repoHints returns the hints for a condition of the GitRepo.
func (s *compiledSubject) repoHints(c *fleet.Condition) []Hint {
	r, j := s.Repo, linkState{}
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

// owned finds the object that a message is about: "svc.yaml: Service web/web exists and
// does not belong to this release". An older agent names no file.
var owned = regexp.MustCompile(`^(?:[^ ]+: )?([A-Z][A-Za-z]+) (?:([a-z0-9.-]+)/)?([a-zA-Z0-9.:-]+)(?: [^ ]+)? exists and (?:does not belong|belongs)`)

// object finds the object that a message begins with: "Service web/web in a.yaml: ", or
// "a.yaml: Service web/web: ".
var object = regexp.MustCompile(`^(?:[^ ]+: )?([A-Z][A-Za-z0-9]+) (?:([a-z0-9.-]+)/)?([a-zA-Z0-9.:-]+)(?: in [^ ]+)?: `)

// remove is the command that deletes an object that a message names: its kind, namespace
// and name stand behind all of the match.
func remove(m []string) string {
	kind, namespace, name := strings.ToLower(m[1]), m[2], m[3]
	if namespace == "" {
		return fmt.Sprintf("kubectl delete %s %s", kind, name)
	}
	return fmt.Sprintf("kubectl -n %s delete %s %s", namespace, kind, name)
}

// deletedAlongText returns what is deleted along with an object of a kind, to follow the purpose
// of a hint. It is empty where only the object itself is deleted.
func deletedAlongText(kind string) string {
	switch kind {
	case "PersistentVolumeClaim":
		return ", which deletes its data too"
	case "Namespace":
		return ", which deletes all objects in it too"
	case "CustomResourceDefinition":
		return ", which deletes all objects of that kind too"
	}
	return ""
}

// absenceHints returns the hints for a Secret, ConfigMap or namespace of the cluster
// that is missing; nil if the message is about something else.
func (al agentLinks) absenceHints(message string) []Hint {
	a, found := release.ParseAbsence(message)
	cluster, file, j := al.deploymentPlace.Key.Name, al.file(), linkState{}
	switch {
	case !found:
		return al.namespaceHints(message)
	case a.Kind == "Namespace":
		return j.hint("to go on, on "+cluster, "kubectl create namespace %s", a.Name).
			hint("or if the name is wrong", "correct the namespace in %s, or let the bundle create it: createNamespace: true", file).hints
	case a.Exists:
		j = j.hint("to go on, on "+cluster, "kubectl -n %s edit %s %s, and add that key", a.Namespace, strings.ToLower(a.Kind), a.Name)
	default:
		j = j.hint("to go on", "create %s %s/%s on %s", a.Kind, a.Namespace, a.Name, cluster)
	}
	return j.hint("or if the name is wrong", "correct helm.valuesFrom in %s", file).hints
}

// rival finds the bundle that has an object or a release which this one wants, too.
var rival = regexp.MustCompile(`(?:exists and|: it) belongs to (?:release [^ ]+ of )?bundle ([a-z0-9][a-z0-9.-]*)`)

// rivalHints returns the hints for two bundles that want the same object. None
// suggests to take it over, which would only make the other one fail, or to delete
// it, since it is made again.
func (al agentLinks) rivalHints(reason, message string) ([]Hint, bool) {
	m := rival.FindStringSubmatch(message)
	if m == nil {
		return nil, false
	}
	other, j := m[1], linkState{}
	switch {
	case reason == release.ReasonForeignRelease && strings.Contains(message, "takeOwnership"):
		return nil, false // the other bundle does not want the release any more
	case reason == release.ReasonForeignRelease:
		j = j.hint("to end it", "set another helm.releaseName in fleet.yaml of one of the two bundles, %s and %s", al.Bundle.Name, other)
	default:
		what := "the object"
		if o := owned.FindStringSubmatch(message); o != nil {
			what = o[1] + " " + strings.TrimPrefix(o[2]+"/"+o[3], "/")
		}
		j = j.hint("to end it", "remove %s from bundle %s or from bundle %s", what, al.Bundle.Name, other)
	}
	return j.hint("to see the other bundle", "fleet explain %s %s", other, al.deploymentPlace.Key.Name).hints, true
}

// retry returns the edit or command that makes the agent try again after it has given up:
// it changes the deployment id.
func (al agentLinks) retry() string {
	if al.Repo == nil {
		return "raise forceSyncGeneration in " + al.file()
	}
	return fmt.Sprintf(`kubectl -n %s patch gitrepo %s --type merge -p '{"spec":{"forceSyncGeneration":%d}}'`,
		al.Repo.Namespace, al.Repo.Name, al.Repo.Spec.ForceSyncGeneration+1)
}

// releaseHints returns the hints for a failure of the agent.
func (al agentLinks) releaseHints(reason, message string) []Hint {
	j, cluster, file := linkState{}, al.deploymentPlace.Key.Name, al.file()
	switch reason {
	case release.ReasonNotOwned, release.ReasonForeignRelease, release.ReasonSharedObject, fleet.ReasonError:
		return al.ownerHints(reason, message)
	case release.ReasonImmutable:
		if m := object.FindStringSubmatch(message); m != nil {
			j = j.hint("to have it made anew on "+cluster+deletedAlongText(m[1]), "%s, and change the bundle: the agent tries again", remove(m))
		} else {
			j = j.hint("to have it made anew on "+cluster, "delete the object, and change the bundle: the agent tries again")
		}
		return j.hint("or to keep it until the other is there", "give the object another name in the bundle").hints
	case release.ReasonTimeout:
		return j.hint("to give it more time", "raise helm.timeoutSeconds in %s", file).hints
	case release.ReasonBadTemplate, release.ReasonBadValues, release.ReasonBadYAML, release.ReasonBadChart, release.ReasonBadKustomization,
		release.ReasonBadContent, release.ReasonDuplicateObject:
		if m := noMap.FindStringSubmatch(message); m != nil {
			return j.hint("to go on", "mend key %s of %s %s in namespace %s on %s: the agent tries again", m[4], m[1], m[3], m[2], cluster).hints
		}
		return al.lintHints()
	case release.ReasonInvalidObject:
		return j.hint("to check it with the API server of "+cluster+", in the bundle's directory", "%s", dryRun(message)).hints
	case release.ReasonEmptyResult:
		return j.hint("if it is meant to be gone", "delete its directory from the repository").
			hint("if it is meant to be empty", "set allowEmpty: true in %s", file).hints
	case release.ReasonUnknownKind:
		return al.kindHints(message)
	case release.ReasonNoAccount:
		if al.Repo != nil && al.Repo.Spec.ServiceAccount != "" { // no fleet.yaml changes it
			file = "GitRepo " + al.Repo.Name
		}
		return j.hint("to go on", "make that service account on %s, or change serviceAccount in %s", cluster, file).hints
	case release.ReasonNoValues, release.ReasonNoNamespace:
		if hints := al.absenceHints(message); hints != nil {
			return hints
		}
		return j.hint("to go on", "make what helm.valuesFrom names on %s, or change it in %s", cluster, file).hints
	case release.ReasonForbidden:
		return j.hint("to go on", "give the agent's account on %s that right, or lift what refuses it", cluster).hints
	case release.ReasonClusterScoped:
		return j.hint("to go on", "take that out, or lift the limit to one namespace in %s", file).hints
	}
	return al.eventHints()
}

// ownerHints returns hints for an object or a release that belongs to another owner.
func (al agentLinks) ownerHints(reason, message string) []Hint {
	j, cluster, file := linkState{}, al.deploymentPlace.Key.Name, al.file()
	if hints, found := al.rivalHints(reason, message); found {
		return hints
	}
	m := owned.FindStringSubmatch(message)
	switch {
	case reason == fleet.ReasonError && m == nil:
		return al.eventHints()
	case reason == release.ReasonForeignRelease && !strings.Contains(message, "takeOwnership"): // of another agent
		return j.hint("to deploy it beside that one", "set another helm.releaseName in %s", file).hints
	}
	j = j.hint("to let Fleet take it over", "set helm.takeOwnership: true in %s", file)
	switch {
	case m == nil:
	case m[1] == "Namespace" && withdrawal.Protected(m[3]): // the API server refuses to delete most of them
		j = j.hint("or leave it to the cluster", "take Namespace %s out of the bundle", m[3])
	default:
		j = j.hint("or remove it on "+cluster+deletedAlongText(m[1]), "%s", remove(m)).hint("and to have it tried again at once", "%s", al.retry())
	}
	return j.hints
}

// noMap finds kind, namespace, name and key of values on the cluster that are no YAML map.
var noMap = regexp.MustCompile(`^helm\.valuesFrom: (ConfigMap|Secret) ([^ /]+)/([^ ,]+), key "([^"]*)": not a YAML map`)

// What helps against a kind that the cluster does not serve, as the agent says it.
var (
	useInstead = regexp.MustCompile(`; use ([^ ]+) of ([^ ]+)$`)
	otherServe = regexp.MustCompile(`; (?:it|its CRD in this bundle) serves ([^ ]+)`)
)

// kindHints returns the hints for an object whose kind the cluster does not serve.
func (al agentLinks) kindHints(message string) []Hint {
	j, file := linkState{}, al.file()
	where := "the manifest"
	if name, _, ok := strings.Cut(message, ": "); ok && !strings.Contains(name, " ") {
		where = name
	}
	switch own := al.ownCRD(message); {
	case useInstead.MatchString(message):
		m := useInstead.FindStringSubmatch(message)
		return j.hint("to go on", "set apiVersion: %s and kind: %s in %s", m[2], m[1], where).hints
	case otherServe.MatchString(message):
		m := otherServe.FindStringSubmatch(message)
		return j.hint("to go on", "use version %s in apiVersion in %s", strings.TrimSuffix(m[1], ","), where).hints
	case own != "":
		return j.hint("to go on", "move the CRD (%s) into a bundle of its own and name that in dependsOn of %s, or into crds/ of a chart: "+
			"Helm installs nothing before %s knows all kinds", own, file, al.deploymentPlace.Key.Name).hints
	case strings.Contains(message, "its CRD is in this bundle"):
		return j.hint("to go on", "move the CRD into a bundle of its own and name that in dependsOn in %s, or into the crds folder of a chart", file).hints
	case strings.Contains(message, "which no CRD can bring"):
		return j.hint("to see it before it is pushed, in a clone", "fleet lint DIR").hints
	}
	return j.hint("to go on", "install the CRD on %s first; dependsOn in %s keeps the order", al.deploymentPlace.Key.Name, file).hints
}

// absentNamespace finds the namespace that an object needs.
var absentNamespace = regexp.MustCompile(`\bnamespace "([^"]*)" does not exist; create it`)

// namespaceHints returns the hints for an object whose namespace does not exist; nil if
// the message is about something else.
func (al agentLinks) namespaceHints(message string) []Hint {
	m := absentNamespace.FindStringSubmatch(message)
	if m == nil {
		return nil
	}
	return linkState{}.hint("to create it on "+al.deploymentPlace.Key.Name, "kubectl create namespace %s", m[1]).hints
}

// unknownKind finds the kind that the cluster does not know.
var unknownKind = regexp.MustCompile(`kind "?([A-Za-z0-9]+)"? (?:of|in version) "?([^/ "]+)/`)

// ownCRD is the file of the bundle that holds the CRD of the kind that a cluster does not know;
// empty where there is none, or where Helm installs it first.
func (al agentLinks) ownCRD(message string) string {
	m := unknownKind.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	for _, r := range al.Bundle.Spec.Resources {
		data, err := content.ResourceBytes(r)
		if err != nil || slices.Contains(strings.Split(r.Name, "/"), "crds") {
			continue
		}
		for _, o := range schema.CRDs(data) {
			kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
			group, _, _ := unstructured.NestedString(o, "spec", "group")
			if kind == m[1] && group == m[2] {
				return r.Name
			}
		}
	}
	return ""
}

// manifest finds the file of a manifest at the beginning of a message. Those of
// charts are templates, which kubectl cannot read.
var manifest = regexp.MustCompile(`^([^ :]+\.(?:ya?ml|json)): `)

// dryRun is the command that finds what only an API server can find: fleet lint
// knows no values that it refuses.
func dryRun(message string) string {
	if m := manifest.FindStringSubmatch(message); m != nil && !strings.Contains("/"+m[1], "/templates/") {
		return "kubectl apply --dry-run=server -f " + m[1]
	}
	return "fleet test . | kubectl apply --dry-run=server -f -"
}

// eventHints are where to look for what a message does not say.
func (al agentLinks) eventHints() []Hint {
	return linkState{}.hint("to see what happens", "fleet events cluster/%s -n %s", al.deploymentPlace.Key.Name, al.deploymentPlace.Key.Namespace).
		hint("on the site", "fleet-agent status").hints
}
