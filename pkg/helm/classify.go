package helm

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// This file is the one place that looks at the text of errors: Helm and
// kubectl return most of theirs as text.

// Delays of things that are looked at again.
const (
	waitForOthers    = 5 * time.Second
	waitForRights    = 30 * time.Second
	waitForNamespace = 2 * time.Second
)

// texts are the failures that do not pass by themselves, by a piece of their text. The
// first match applies.
var texts = []struct {
	piece  *regexp.Regexp
	reason string
}{
	{undone, release.ReasonRolledBack},
	{regexp.MustCompile(`timed out waiting for the condition`), release.ReasonTimeout},
	{regexp.MustCompile(`chart requires kubeVersion`), release.ReasonIncompatible},
	{regexp.MustCompile(`(annotation|label) validation error`), release.ReasonNotOwned},
	{immutable, release.ReasonImmutable},
	{regexp.MustCompile(`YAML parse error|MalformedYAMLError`), release.ReasonBadYAML},
	{regexp.MustCompile(`error validating data|unknown field`), release.ReasonInvalidObject},
	{regexp.MustCompile(`values don't meet the specifications of the schema`), release.ReasonBadValues},
	{regexp.MustCompile(`parse error at \(|execution error at \(|^template: |error calling include|error calling tpl`), release.ReasonBadTemplate},
}

// immutable is how an API server says that a field of an object cannot be changed.
var immutable = regexp.MustCompile(`Forbidden: updates to .* spec for fields other than .* are forbidden|is immutable|may not change once set|cannot change roleRef`)

// invalid is how an API server says which object it refuses: kind, group and name.
var invalid = regexp.MustCompile(`\b([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9.-]+))? "([^"]*)" is invalid: `)

// noNamespace is how an API server says that the namespace of an object does not exist.
var noNamespace = regexp.MustCompile(`\bnamespaces "([^"]*)" not found$`)

// adviceImmutable is the advice where a field cannot be changed. A replaced object keeps it, too.
const adviceImmutable = "delete the object or give it another name"

// refusedPatch is how Helm says that the API server refuses a value on an upgrade:
// it joins such errors as text.
var refusedPatch = regexp.MustCompile(`cannot patch "([^"]*)" with kind ([^:]*): [^:]* is invalid: `)

// unparsed is how Helm says that a template of a chart cannot be parsed.
var unparsed = regexp.MustCompile(`parse error at \(|function "[^"]*" not defined$`)

// Unparsed reports whether an error of Render is about a template that cannot be
// parsed, with any values.
func Unparsed(err error) bool { return err != nil && unparsed.MatchString(err.Error()) }

// undone is how Helm says that it has undone an action with atomic.
var undone = regexp.MustCompile(`has been (rolled back|uninstalled) due to atomic being set`)

// timedOut is the failure of an action that has waited too long.
func timedOut(err error, limit time.Duration) error {
	if undone.MatchString(err.Error()) {
		return reconcile.TerminalError(release.ReasonRolledBack, fmt.Errorf("not ready within %s (helm.timeoutSeconds), so it was undone (helm.atomic)", limit))
	}
	return reconcile.TerminalError(release.ReasonTimeout, fmt.Errorf("not ready within %s (helm.timeoutSeconds)", limit))
}

// classify gives an error of Helm its kind, and the text for users.
func classify(err error) error {
	if err == nil || reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return ofPostRenderer(err)
	}
	if words, ok := deniedText(err); ok {
		return reconcile.RequeueError(release.ReasonForbidden, waitForRights, errors.New(words))
	}
	text := objectFirst(err, plainText(err))
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.RequeueError(release.ReasonTerminating, waitForNamespace, text)
	case unserved(err) || meta.IsNoMatchError(err):
		return reconcile.RequeueError(release.ReasonUnknownKind, waitForOthers, text)
	}
	for _, t := range texts {
		if !t.piece.MatchString(err.Error()) {
			continue
		}
		if t.reason == release.ReasonImmutable {
			text = fmt.Errorf("%w; %s", ofKind(err, text), adviceImmutable)
		}
		return reconcile.TerminalError(t.reason, text)
	}
	if refusedPatch.MatchString(err.Error()) {
		return reconcile.TerminalError(release.ReasonInvalidObject, ofKind(err, text))
	}
	switch {
	case noNamespace.MatchString(text.Error()):
		return noNamespaceFor(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return reconcile.TerminalError(release.ReasonInvalidObject, text)
	case apierrors.IsForbidden(err):
		return reconcile.RequeueError(release.ReasonForbidden, waitForRights, text)
	}
	var known *refusal
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", known.description, err)
	}
	return fmt.Errorf("helm: %w", err)
}

// ofKind puts kind and name of the object that an API server refuses before the words for
// it, unless they are there: then it is known better.
func ofKind(err, words error) error {
	var known *refusal
	m := invalid.FindStringSubmatch(err.Error())
	if m == nil || errors.As(err, &known) {
		return words
	}
	return fmt.Errorf("%s %s: %w", m[1], m[3], words)
}

// ofPostRenderer takes off what Helm puts before errors of the post-renderer.
func ofPostRenderer(err error) error {
	const before = "error while running post render on files: "
	var permanent *reconcile.Terminal
	if errors.As(err, &permanent) && err.Error() == before+permanent.Error() {
		return permanent
	}
	var wait *reconcile.RequeueAfter
	if errors.As(err, &wait) && err.Error() == before+wait.Error() {
		return wait
	}
	return err
}

// withoutValues is an error of the same kind whose text shows no Helm values: API
// servers repeat what they refuse.
func withoutValues(err error, r redact.Redactor) error {
	if err == nil || r.Text(err.Error()) == err.Error() {
		return err
	}
	text := errors.New(r.Text(err.Error()))
	var permanent *reconcile.Terminal
	var wait *reconcile.RequeueAfter
	switch {
	case errors.As(err, &permanent):
		return reconcile.TerminalError(permanent.Reason, text)
	case errors.As(err, &wait):
		return reconcile.RequeueError(wait.Reason, wait.After, text)
	}
	return text
}

// denial is how an API server says that a user lacks a right; see
// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.
var denial = regexp.MustCompile(`(?:[a-z0-9.-]+ (?:"(?P<name>[^"]*)" )?is )?forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>[a-z]+) ` +
	`(?:path "(?P<path>[^"]*)"|resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"` +
	`(?: in the namespace "(?P<namespace>[^"]*)"| at the cluster scope)?)(?:: RBAC: .*)?`)

// lookup matches the prefix that Helm gives an error of the template function
// lookup.
var lookup = regexp.MustCompile(`executing "[^"]*" at <.*>: error calling lookup: `)

// escalation is how it says that a user would give away more than it has.
var escalation = regexp.MustCompile(`[a-z0-9.-]+ (?:"[^"]*" )?is forbidden: user "([^"]*)" \(groups=\[[^\]]*\]\) ` +
	`is attempting to grant RBAC permissions not currently held:`)

// deniedText says in words which right an API server refused. It is false for every
// other error, also for those by which a webhook or a quota refused an object.
func deniedText(err error) (words string, ok bool) {
	if err == nil {
		return "", false
	}
	text := plainText(err)
	if m := escalation.FindStringSubmatch(text); m != nil {
		return strings.Replace(text, m[0], userText(m[1])+" may not grant rights that it does not have itself:", 1), true
	}
	m := denial.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	part := func(name string) string { return m[denial.SubexpIndex(name)] }
	what := part("path")
	if what == "" {
		what = refusedObject(part)
	}
	before, after, _ := strings.Cut(text, m[0])
	return lookup.ReplaceAllString(before, "lookup: ") + userText(part("user")) + " may not " + part("verb") + " " + what + after, true
}

// refusedObject describes the object of a denial.
func refusedObject(part func(string) string) string {
	what := part("resource")
	if group := part("group"); group != "" {
		what += "." + group
	}
	if name := part("name"); name != "" {
		what += fmt.Sprintf(" %q", name)
	}
	switch namespace := part("namespace"); {
	case namespace != "" && part("resource") != "namespaces":
		what += fmt.Sprintf(" in namespace %q", namespace)
	case part("name") == "":
		what += " in the whole cluster"
	}
	return what
}

// ErrorText returns the text of an error. Which right an API server refused to whom is
// written out in words.
func ErrorText(err error) string {
	if words, ok := deniedText(err); ok {
		return words
	}
	return err.Error()
}

// userText is a user of the API in words.
func userText(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(account, ":"); ok {
			return fmt.Sprintf("service account %q of namespace %q", name, namespace)
		}
	}
	return fmt.Sprintf("user %q", user)
}

// isMalformed reports whether the API server could not read an object at all, or
// found fields in it that the kind does not have.
func isMalformed(err error) bool {
	return apierrors.IsBadRequest(err) && !strings.Contains(err.Error(), "does not support dry run")
}

// noise matches the text that Helm, kubectl and the API server put around the
// words that matter; keep is its replacement. Helm puts the chart's name before
// files.
var noise = []struct {
	text *regexp.Regexp
	keep string
}{
	{regexp.MustCompile(`^.*strict decoding error: `), ""},
	{regexp.MustCompile(`^[A-Za-z]+(\.[a-z0-9.-]+)? "[^"]*" is invalid: `), ""},
	{regexp.MustCompile(`^\d+ errors? occurred:\s*(\* )?`), ""},
	{regexp.MustCompile(`^(unable to build kubernetes objects from (new )?release manifest|Unable to continue with (install|update)|error while running post render on files): `), ""},
	{regexp.MustCompile(`\s*ensure CRDs are installed first`), ""},
	{regexp.MustCompile(`^cannot patch "[^"]*" with kind \w+: `), ""},
	{regexp.MustCompile(`^failed to replace object: `), ""},
	{regexp.MustCompile(`: Invalid value: [A-Za-z0-9.]*\{.{200,}?\}: field is immutable`), ": field is immutable"},
	{regexp.MustCompile(`^execution error at \([^/)]+/([^)]*)\): `), "$1: "},
	{regexp.MustCompile(`^parse error at \([^/)]+/([^)]*)\): `), "$1: "},
	{regexp.MustCompile(`^template: [^/: ]+/`), ""},
	{regexp.MustCompile(`^YAML parse error on [^/ ]+/([^:]*): (?:error converting YAML to JSON: )?yaml: line (\d+): `), "$1: line $2 of what it renders to: "},
	{regexp.MustCompile(`^YAML parse error on [^/ ]+/([^:]*): `), "$1: "},
	{regexp.MustCompile(`error converting YAML to JSON: yaml: `), ""},
}

var spaces = regexp.MustCompile(`\s+`)

// plainText is an error in one line, without what surrounds its core.
func plainText(err error) string {
	text := strings.TrimSpace(spaces.ReplaceAllString(err.Error(), " "))
	for changed := true; changed; {
		changed = false
		for _, n := range noise {
			short := strings.TrimSpace(n.text.ReplaceAllString(text, n.keep))
			if short != "" && short != text {
				text, changed = short, true
			}
		}
	}
	return text
}

// yamlLine is how the YAML parser says where it stopped.
var yamlLine = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: line (\d+): `)

// atLine puts file and line before the error of a document that begins after a
// number of lines of its file.
func atLine(name string, before int, err error) error {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(text, "error converting YAML to JSON: yaml: "))
	}
	line, convErr := strconv.Atoi(m[1])
	if convErr != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s:%d: %s", name, before+line, strings.TrimPrefix(text, m[0]))
}

// noNamespaceFor is the error of an object whose namespace does not exist: it waits, unless
// no namespace can have that name.
func noNamespaceFor(err error) error {
	m := noNamespace.FindStringSubmatch(plainText(err))
	if len(validation.IsDNS1123Label(m[1])) > 0 {
		text := objectFirst(err, fmt.Sprintf("no namespace can have the name %q; correct metadata.namespace", m[1]))
		return reconcile.TerminalError(release.ReasonInvalidObject, text)
	}
	text := objectFirst(err, fmt.Sprintf("namespace %q does not exist; create it, or add it to the bundle", m[1]))
	return reconcile.RequeueError(release.ReasonNoNamespace, waitForOthers, text)
}

// AbsentTemplate reports whether an error of Render is about a template that includes one
// which is not there.
func AbsentTemplate(err error) bool { return err != nil && ofInclude.MatchString(plainText(err)) }
