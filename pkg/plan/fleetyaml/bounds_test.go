package fleetyaml

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/test/raced"
)

// laughs is a file of nested aliases: 10^levels values in a few lines.
func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [" + strings.Repeat("x,", 9) + "x]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	fmt.Fprintf(&b, "helm: {valuesFiles: *a%d}\n", levels-1)
	return b.String()
}

// numbered is a line many times, each with its number.
func numbered(line string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// A file with more mistakes than anybody reads has the first of them, and at
// least one that breaks the bundle if any does, in the same order each time.
func TestFindingsAreBounded(t *testing.T) {
	text := "labels:\n" + numbered("  a%d: x y\n", 1000)
	_, first := Parse("f", []byte(text))
	_, second := Parse("f", []byte(text))
	if len(first) != maxFindings+1 || !slices.Equal(first, second) {
		t.Errorf("%d findings, the same again: %v", len(first), slices.Equal(first, second))
	}
	if last := first[len(first)-1]; last.String() != "f:1:1: warning: there are more findings about this file, which are left out [too-large]" {
		t.Errorf("the last says %s", last)
	}
	for name, mistake := range map[string]string{"Decoded": "helm: {timeoutSeconds: soon}\n", "Checked": "dependsOn: [{}]\n", "Reserved": "labels: {fleet.cattle.io/x: y}\n"} {
		_, found := Parse("f", []byte(numbered("zz%d: x\n", 1000)+mistake))
		if !finding.HasErrors(found) || len(found) != maxFindings+2 {
			t.Errorf("%s: want the error behind a thousand warnings, got %d findings", name, len(found))
		}
	}
}

// What is small on disk and large in memory is refused before it is unfolded:
// reading it allocates no more than a file of this size may.
func TestBounds(t *testing.T) {
	text := strings.Repeat("t", 400_000)
	cases := map[string]struct{ why, text, rule string }{
		"ManyValues":  {"10^9 values in 10 lines", laughs(9), finding.RuleTooLarge},
		"LargeValues": {"40 GB of text in 900 KB", "a: &a " + text + "\nhelm: {values: {b: [" + strings.Repeat("*a,", 100_000) + "*a]}}\n", finding.RuleTooLarge},
		"Keys":        {"keys are unfolded too", "a: &a {" + text[:1000] + ": 1}\nhelm: {values: {b: [" + strings.Repeat("*a,", 10_000) + "*a]}}\n", finding.RuleTooLarge},
		"Merges":      {"so are merges", "a: &a {" + text[:1000] + ": 1}\nhelm: {values: {b: [" + strings.Repeat("{<<: *a},", 10_000) + "1]}}\n", finding.RuleTooLarge},
		"Itself":      {"an alias of what it stands in has no end", "helm: {values: &a {b: *a}}\n", finding.RuleTooLarge},
		"OneLine":     {"10 MB in one line", "name: " + strings.Repeat("a", 10<<20), finding.RuleTooLarge},
		"ManyItems":   {"more values than anybody writes", "helm: {valuesFiles: [" + strings.Repeat("a,", 500_000) + "a]}", finding.RuleTooLarge},
		"Deep":        {"the parser stops", "helm: {values: {a: " + strings.Repeat("[", 100_000) + "}}", finding.RuleYAML},
		"DeepEnough":  {"so does the decoder, later", "helm: {values: {a: " + strings.Repeat("[", 2_000) + strings.Repeat("]", 2_000) + "}}", finding.RuleTooLarge},
		"Dense":       {"the most that is read", "helm: {valuesFiles: [" + strings.Repeat("a,", 190_000) + "a]}", ""},
		"Labels":      {"each value is a mistake, and has a place that is looked for", "labels:\n" + numbered("  a%d: x y\n", 40_000), finding.RuleTooLarge},
		"Numbers":     {"each value is decoded by itself", "labels:\n" + numbered("  a%d: 1\n", 20_000), finding.RuleTooLarge},
		"Reserved":    {"each key is a mistake", "labels:\n" + numbered("  fleet.cattle.io/%d: x\n", 30_000), finding.RuleTooLarge},
		"Unknown":     {"for each key a near one is looked for", numbered("namespac%d: x\n", 50_000), finding.RuleTooLarge},
		"UnknownLong": {"a key of 1 MB is near to none", "? " + strings.Repeat("namespace", 100_000) + "\n: x\n", finding.RuleUnknownKey},
		"Twice":       {"each line repeats a key", strings.Repeat("namespace: x\n", 50_000), finding.RuleTooLarge},
		"Targets":     {"each has a mistake", "targetCustomizations: [" + strings.Repeat("{helm: {version: x.y, repo: r}},", 10_000) + "]\n", finding.RuleTooLarge},
		"Long":        {"one long value", "helm: {values: {a: " + strings.Repeat("a", 1_000_000) + "}}", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data := []byte(c.text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, found := Parse("f", data)
			runtime.ReadMemStats(&after)
			mib := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d KiB of text, %d MiB allocated", len(data)>>10, mib)
			if mib > 250 && !raced.Enabled {
				t.Errorf("%s: %d MiB were allocated", c.why, mib)
			}
			switch {
			case len(found) > maxFindings+2:
				t.Errorf("%s: %d findings", c.why, len(found))
			case c.rule == "" && len(found) > 0:
				t.Errorf("%s: %v", c.why, found)
			case c.rule != "" && (len(found) == 0 || found[len(found)-1].Rule != c.rule):
				t.Errorf("%s: want %s, got %v", c.why, c.rule, found)
			}
		})
	}
}

// FuzzParse reads foreign files: whatever is in them, reading ends, what may
// not get through does not, and what is secret is not repeated.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "{}", "name: a", "helm: {values: {a: 1}}", "targetCustomizations:\n- name: x\n  clusterSelector: {}\n",
		"labels: {fleet.cattle.io/x: y}", "a: &a [*a]", "<<: {namespace: x}", "helm:\n\tx", "? a\n: b", "dependsOn: [{}]", "rolloutStrategy: {maxUnavailable: 10%}",
		"labels: &l {a: b}\nLabels: {<<: *l, objectset.rio.cattle.io/id: x}", "labels: {a: b}\n<<: {labels: {fleet.cattle.io/x: y}}",
		"helm: {values: SECRET}", "helm:\n  templateValues: [SECRET]", "helm: {values: {? {a: SECRET} : SECRET}}", "helm: {values: {a: SECRET", "helm: {values: &SECRET {a: *SECRET}}",
		"imageScans: [{image: a, tagName: b, interval: 1m}]", "diff: {comparePatches: [{kind: Pod, operations: [{op: ignore}]}]}",
		"overrideTargets: []", "---\n---\nname: a", "name: !!binary aGk=", "paused: yes\npaused: off", "correctDrift: {enabled: on}", laughs(4),
		" namespace: a\nhelm: {}\n", "namespace: a\n...\nhelm: {}\n", "{namespace: a}}", "{}\n{}\n",
	} {
		f.Add([]byte(s))
	}
	examples, err := filepath.Glob("../../../examples/*/fleet.yaml")
	if err != nil || len(examples) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, found := Parse("f", data)
		if finding.HasErrors(found) {
			return
		}
		for _, set := range []map[string]string{file.Labels, file.Annotations} {
			for key := range set {
				if Reserved(key) {
					t.Fatalf("reserved key %q", key)
				}
			}
		}
		for i, target := range file.Spec.Targets {
			if target.Name == "" {
				t.Fatalf("target %d without a name", i)
			}
			file.AtTarget(i, "helm", "chart")
		}
	})
}

// Nothing that stands below values is in a finding, whatever is wrong there.
func FuzzSecrets(f *testing.F) {
	for _, s := range []string{"SECRET", "[SECRET]", "{? {a: SECRET} : SECRET}", "{a: SECRET", "&SECRET {a: *b}", "{a: !!int SECRET}", "{SECRET: .inf}", "\tSECRET", "'SECRET", "{a: {<<: SECRET}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		const secret = "SECRET"
		for _, key := range []string{"values", "templateValues", "Values"} {
			_, found := Parse("f", []byte("helm:\n  "+key+": "+value))
			for _, finding := range found {
				_, text, _ := strings.Cut(finding.Message, "helm")
				if strings.Contains(value, secret+"\n") || strings.Contains(value, "helm") || strings.Contains(value, ":") {
					return // it may have become a key, and messages contain keys
				}
				if strings.Contains(text+finding.Hint, secret) {
					t.Fatalf("the secret is in the message: %s", finding)
				}
			}
		}
	})
}
