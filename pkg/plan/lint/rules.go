package lint

import (
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// A Rule is a kind of findings.
type Rule struct {
	Name     string
	Severity finding.Severity // what its findings usually are
	Text     string           // what they say, in a few words
}

// rules are all kinds of findings about a repository: those of reading it and
// those of this package.
var rules = []Rule{
	{finding.RuleAPIVersion, finding.Error, "a kind is not served in that version of the API"},
	{finding.RuleChart, finding.Error, "a chart or dependency cannot be had from where it is named"},
	{finding.RuleConflict, finding.Error, "an object of that name belongs to somebody else"},
	{finding.RuleDependency, finding.Error, "dependsOn goes in a circle, or names a bundle wrongly"},
	{finding.RuleDeprecated, finding.Warning, "a version of the API will be removed"},
	{finding.RuleDuplicate, finding.Error, "the bundle holds the same object twice"},
	{finding.RuleDuplicateKey, finding.Warning, "a key stands twice, and the last one counts"},
	{finding.RuleEmpty, finding.Error, "a bundle has nothing to deploy"},
	{finding.RuleFile, finding.Error, "a file that is named does not exist or cannot be read"},
	{finding.RuleFrozen, finding.Warning, "a rollout strategy under which no cluster is updated"},
	{finding.RuleIgnoreFile, finding.Error, "a .fleetignore cannot be used"},
	{finding.RuleImpure, finding.Warning, "a template gives another result each time"},
	{finding.RuleJoined, finding.Error, "two objects stand in one document: a line --- is missing"},
	{finding.RuleLocalFault, finding.Error, "this process cannot keep what it downloads: its disk is full, for example"},
	{finding.RuleManifest, finding.Error, "a document of a manifest is no object: kind or apiVersion is missing"},
	{finding.RuleName, finding.Error, "a bundle name is taken twice"},
	{finding.RuleNotImplemented, finding.Warning, "something is accepted that this version does not act on"},
	{finding.RuleNotMerged, finding.Warning, "a customization sets what only the bundle itself can set"},
	{finding.RuleNotRead, finding.Warning, "a file or directory has nearly the name of one that is read, and is not read as it"},
	{finding.RuleNotRendered, finding.Warning, "a template stands where none is rendered"},
	{finding.RuleOffline, finding.Error, "something would have to be downloaded, and --offline is set"},
	{finding.RuleOutside, finding.Error, "a path or link leads out of the bundle or the repository"},
	{finding.RuleOverridden, finding.Warning, "the GitRepo has the last word on an option"},
	{finding.RuleReachesOut, finding.Error, "a template of values asks the network or the environment"},
	{finding.RuleRender, finding.Error, "a template, chart or kustomization cannot be rendered for a sample cluster"},
	{finding.RuleReserved, finding.Error, "a label, annotation or account is Fleet's own"},
	{finding.RuleSharedObject, finding.Warning, "two bundles have the same object on a cluster"},
	{finding.RuleSubmodule, finding.Warning, "a submodule or special file is left out"},
	{finding.RuleTemplate, finding.Error, "a template cannot be parsed"},
	{finding.RuleTooLarge, finding.Error, "a file or bundle is beyond a limit"},
	{finding.RuleType, finding.Error, "a value has the wrong type"},
	{finding.RuleUnknownCluster, finding.Warning, "a target names a cluster or cluster group that does not exist"},
	{finding.RuleUnknownField, finding.Error, "the kind of an object has no such field"},
	{finding.RuleUnknownKey, finding.Warning, "nothing reads a key"},
	{finding.RuleUnknownKind, finding.Warning, "neither Kubernetes nor a CRD has the kind of an object"},
	{finding.RuleUnmatched, finding.Warning, "a patch, selector or reference matches nothing of the bundle"},
	{finding.RuleUnreachable, finding.Warning, "a customization or target applies to no cluster"},
	{finding.RuleUnusedValues, finding.Warning, "values that nothing reads"},
	{finding.RuleValue, finding.Error, "a value cannot work"},
	{finding.RuleVersion, finding.Error, "a chart's version is neither a version nor a range"},
	{finding.RuleYAML, finding.Error, "a file is not YAML"},
}

// Rules returns all kinds of findings, by name.
func Rules() []Rule { return slices.Clone(rules) }

// RuleOf returns the rule of that name; ok is false if there is none.
func RuleOf(name string) (rule Rule, ok bool) {
	i, ok := slices.BinarySearchFunc(rules, name, func(r Rule, name string) int { return strings.Compare(r.Name, name) })
	if !ok {
		return Rule{}, false
	}
	return rules[i], true
}

// A Summary counts bundles and findings.
type Summary struct {
	Bundles  int // directories that are bundles, or should be
	Clean    int // without any finding
	Errors   int
	Warnings int
}

// Count adds findings to the summary.
func (s *Summary) Count(list []finding.Finding) {
	for _, f := range list {
		if f.Severity == finding.Error {
			s.Errors++
		} else {
			s.Warnings++
		}
	}
}
