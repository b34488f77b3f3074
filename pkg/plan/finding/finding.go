// Package finding describes what is wrong in a file of a repository: where, how
// bad, by which rule, and what would help. The same text goes to the GitRepo's
// status, to events, and to the command line.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a Finding means for its bundle.
type Severity string

// The severities.
const (
	// Error: the bundle cannot be made; what it was before stays.
	Error Severity = "error"
	// Warning: something is ignored or probably not meant.
	Warning Severity = "warning"
)

// Rules name kinds of findings. They are part of the command line's contract.
const (
	RuleYAML           = "yaml"            // not YAML
	RuleType           = "type"            // a value of the wrong type
	RuleValue          = "value"           // a value that is not allowed
	RuleUnknownKey     = "unknown-key"     // a key that nothing reads
	RuleDuplicateKey   = "duplicate-key"   // a key that stands twice
	RuleReserved       = "reserved"        // a name that Fleet keeps for itself
	RuleFile           = "file"            // a file that is not there
	RuleOutside        = "outside"         // a path that leads out
	RuleTooLarge       = "too-large"       // beyond a limit
	RuleName           = "name"            // a bundle name that is not possible or taken
	RuleEmpty          = "empty"           // nothing to deploy
	RuleConflict       = "conflict"        // an object of that name belongs to another owner
	RuleNotImplemented = "not-implemented" // accepted, but not acted on yet
	RuleIgnoreFile     = "ignore-file"     // a .fleetignore that cannot be used
	RuleSubmodule      = "submodule"       // a git submodule without a URL, or a special file, which is not read
	RuleVersion        = "version"         // a version or range that is none
	RuleUnreachable    = "unreachable"     // a customization that never applies
	RuleChart          = "chart"           // a chart or dependency that cannot be had
	RuleOffline        = "offline"         // something that would have to be downloaded
	RuleLocalFault     = "local-fault"     // a fault of the process that reads, such as a full disk
	RuleRender         = "render"          // a chart or kustomization that cannot be rendered
	RuleImpure         = "impure"          // a template whose result changes by itself
	RuleReachesOut     = "reaches-out"     // a template function that asks the network
	RuleNotMerged      = "not-merged"      // an option that a customization cannot change
	RuleUnknownField   = "unknown-field"   // a field that the kind of an object does not have
	RuleUnknownKind    = "unknown-kind"    // a kind that no schema knows
	RuleAPIVersion     = "api-version"     // a version of the API in which a kind is not served
	RuleDependency     = "dependency"      // dependsOn that goes in a circle, or names a bundle wrongly
	RuleDeprecated     = "deprecated"      // a version of the API that will be removed
	RuleOverridden     = "overridden"      // an option that the GitRepo has the last word on
	RuleManifest       = "manifest"        // a document that is no Kubernetes object
	RuleJoined         = "joined"          // two objects in one document, without a line --- between them
	RuleDuplicate      = "duplicate"       // an object that the bundle holds twice
	RuleSharedObject   = "shared-object"   // an object that two bundles have
	RuleTemplate       = "template"        // a template that cannot be parsed
	RuleUnusedValues   = "unused-values"   // values files that are not read
	RuleFrozen         = "frozen"          // a rollout that updates no cluster
	RuleNotRendered    = "not-rendered"    // a template where none is rendered
	RuleNotRead        = "not-read"        // a file that looks like fleet.yaml, or a chart or kustomization, and is not read
	RuleUnmatched      = "unmatched"       // a patch or selector that matches no object
	RuleUnknownCluster = "unknown-cluster" // a cluster or cluster group that does not exist
)

// A Finding is one thing that is wrong.
type Finding struct {
	Path     string // relative to the root of the repository; empty where it is about the GitRepo
	Line     int    // from 1; 0 where the whole file or directory is meant
	Column   int    // from 1; 0 where the whole line is meant
	Severity Severity
	Rule     string
	Message  string
	Hint     string // what would help, or empty
}

// String returns "path:line:column: severity: message [rule]".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s [%s]", f.Path, max(f.Line, 1), max(f.Column, 1), f.Severity, f.Message, f.Rule)
}

// Short returns "path:line: message", for the status of an object, and the message alone
// where it is about no file.
func (f Finding) Short() string {
	switch {
	case f.Path == "":
		return f.Message
	case f.Line == 0:
		return f.Path + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Message)
}

// Reason returns the rule as the reason of a condition: NotImplemented, TooLarge.
func (f Finding) Reason() string {
	if f.Rule == RuleYAML {
		return "InvalidYAML"
	}
	var b strings.Builder
	for part := range strings.SplitSeq(f.Rule, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// HasErrors reports whether any of the findings is an Error.
func HasErrors(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == Error })
}

// Errors returns the findings that are Errors.
func Errors(list []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(list), func(f Finding) bool { return f.Severity != Error })
}

// Strict returns the findings with every Warning made an Error.
func Strict(list []Finding) []Finding {
	strict := slices.Clone(list)
	for i := range strict {
		if strict[i].Severity == Warning {
			strict[i].Severity = Error
		}
	}
	return strict
}

// Sort orders findings by place.
func Sort(list []Finding) { slices.SortStableFunc(list, Compare) }

// Compare orders two findings by place.
func Compare(a, b Finding) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Column, b.Column), strings.Compare(a.Message, b.Message))
}
