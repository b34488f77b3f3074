package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hostile is what a repository, a cluster or a server may put into any text: it
// clears the screen, rings, returns to the start of the line, writes the
// clipboard, turns the direction of text, hides, and begins another line.
const hostile = "\x1b[2J\a\rX\x1b]52;c;aGk=\a\u202e\u200b\u009b31m\u2028\nFORGED"

// technical are keys whose values decide how a command works, so that it would
// fail before it prints anything.
var technical = []string{
	"apiVersion", "kind", "namespace", "uid", "resourceVersion", "ownerReferences", "managedFields", "creationTimestamp", "deletionTimestamp", "data", "spec",
}

// poison puts hostile text behind each text of a value. Texts that a type of
// their own reads (times, durations, numbers) stay.
func poison(v any, keep []string) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if !slices.Contains(keep, k) {
				t[k] = poison(e, keep)
			}
		}
	case []any:
		for i := range t {
			t[i] = poison(t[i], keep)
		}
	case string:
		if _, err := time.Parse(time.RFC3339, t); err == nil {
			return t
		}
		if _, err := time.ParseDuration(t); err == nil {
			return t
		}
		return t + hostile
	}
	return v
}

// poisons are the ways in which objects are poisoned: everything but what names
// them; and only what nothing is decided by, so that commands come further.
var poisons = map[string][]string{
	"Everything": {"apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "ownerReferences", "data"},
	"Names":      append([]string{"state", "type", "status", "labels", "deploymentID", "appliedDeploymentID", "stagedDeploymentID"}, technical...),
	"Texts": append([]string{
		"name", "state", "type", "status", "labels", "reason", "commit", "deploymentID", "appliedDeploymentID", "stagedDeploymentID", "finalizers",
		"verb", "targets", "involvedObject", "namespaceName", "release",
	}, slices.DeleteFunc(slices.Clone(technical), func(k string) bool { return k == "spec" })...),
	"Annotations": nil,
}

func poisonAll(how string, objects []*unstructured.Unstructured) {
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		if how != "Annotations" {
			if status, ok := o.Object["status"].(map[string]any); ok && how == "Texts" {
				poison(status, poisons[how])
			}
			poison(o.Object, poisons[how])
		}
		a := o.GetAnnotations()
		if how == "Everything" || a == nil {
			continue
		}
		for k, v := range a {
			if !strings.HasPrefix(v, "{") && !strings.Contains(v, hostile) {
				a[k] = v + hostile
			}
		}
		o.SetAnnotations(a)
	}
}

// leaves are the commands of a tree that do something.
func leaves(c *cobra.Command, at string) []string {
	var out []string
	for _, sub := range c.Commands() {
		name := strings.TrimSpace(at + " " + sub.Name())
		if sub.HasSubCommands() {
			out = append(out, leaves(sub, name)...)
		}
		if sub.Runnable() && sub.Name() != "help" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// bad are the characters of a text that no terminal may get, and lines that
// foreign text begins.
func bad(text string) string {
	for line := range strings.Lines(text) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
				return line
			}
		}
		if strings.HasPrefix(strings.TrimPrefix(line, "! "), "FORGED") {
			return line
		}
	}
	return ""
}

// moreCommands are run beside those of the transcripts, on the fleet of their
// file. Each command of the command line is in a transcript or here.
var moreCommands = map[string][]string{
	"examples.yaml": {
		"status -w", "get clusters -w", "get clusters -o json", "get clusters -o yaml", "get clusters -o jsonpath=items[*].status", "get clusters -o wide -w", "get deployments -o wide",
		"events -w", "events -o yaml", "version", "version -o json", "check", "check -o json", "logs c1 -o yaml", "explain bundle/examples-web c1", "nonsense", "get nonsense",
		"completion bash", "completion zsh", "completion fish", "completion powershell", "__complete get clusters ", "__complete get bundles ",
		"install --help", "install controller --help", "lint testdata/trees",
	},
	"rancher.yaml":  {"workspace", "workspace -o yaml", "get clusters", "check"},
	"takeover.yaml": {"takeover", "takeover check -n fleet-default", "takeover start -n fleet-default repo/examples", "takeover undo -n fleet-default repo/examples", "status", "get bundles"},
	"cleanup.yaml":  {"cleanup", "cleanup clusterregistration --dry-run", "cleanup clusterregistration", "cleanup gitjob", "cleanup gitjob -o json"},
	"trouble.yaml":  {"status", "status -o yaml", "get bundles -A", "get deployments", "get repos", "explain bundle/web c1", "wait bundle/web --timeout 1s"},
	"agents.yaml":   {"cluster agents", "cluster agents -o yaml", "status"},
	"gate.yaml":     {"approve", "approve -o yaml"},
	"dump.yaml":     {"dump -p none/fleet.tgz -A", "dump -p none/fleet.tgz -n shops --gitrepo wbe"},
}

// No command writes a control or format character of an object to a terminal,
// and no text of an object begins a line of its own. A command that is in no
// transcript and in no list above fails the test.
func TestNoCommandWritesControlCharacters(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	seen := map[string]bool{}
	for how := range poisons {
		t.Run(how, func(t *testing.T) {
			for _, path := range files {
				script, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(filepath.Base(path), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { playPoisoned(t, how, string(script), seen) })
				})
			}
			for file, commands := range moreCommands {
				t.Run(file, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						playPoisoned(t, how, "# fleet: "+file+"\n$ fleet "+strings.Join(commands, "\n# again: x\n$ fleet ")+"\n", seen)
					})
				})
			}
		})
	}
	root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	for _, name := range leaves(root, "") {
		if !seen[name] {
			t.Errorf("no transcript and no list of this test runs fleet %s", name)
		}
	}
}

// playPoisoned runs the commands of a transcript in a poisoned fleet. It is called in a
// bubble of testing/synctest: some commands wait for what never comes.
func playPoisoned(t *testing.T, how, script string, seen map[string]bool) {
	st := &stage{limit: 300 * time.Millisecond}
	root := command((&stage{}).globals(nil), printer.Stdio{Out: &strings.Builder{}, Err: &strings.Builder{}})
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case directive.MatchString(line):
			if set := strings.Fields(line)[1:]; set[0] != "width:" {
				st.set(t, set)
			}
			if st.fake != nil && (strings.HasPrefix(line, "# fleet:") || strings.HasPrefix(line, "# again:")) {
				for _, s := range st.fake.steps {
					poisonAll(how, s.objects)
				}
			}
		case strings.HasPrefix(line, "$ fleet "):
			args := words(strings.TrimPrefix(line, "$ fleet "))
			if c, _, err := root.Find(args); err == nil {
				seen[strings.TrimPrefix(c.CommandPath(), "fleet ")] = true
			}
			for _, columns := range []int{200, 0} {
				if columns == 0 && (slices.Contains(args, "-o") || slices.Contains(args, "target") || slices.Contains(args, "deploy") || slices.Contains(args, "test")) {
					continue // a program reads it, exactly as it is
				}
				st.columns = columns
				out := st.run(t, args)
				if strings.Contains(line, "jsonpath=") {
					out = strings.ReplaceAll(out, "\nFORGED", "") // what begins lines is the user's own expression
				}
				if text := bad(out); text != "" {
					t.Errorf("%s (%d columns): %q", line, columns, text)
				}
			}
		}
	}
}

// A document for a program is exactly what the objects hold, unless it is shown
// on a terminal.
func TestDocumentsAreExact(t *testing.T) {
	st := &stage{}
	st.set(t, []string{"fleet:", "examples.yaml"})
	value := "a" + strings.ReplaceAll(hostile, "\u009b", "") // which no YAML holds
	for _, o := range st.fake.held {
		if o.GetKind() == "Cluster" && o.GetName() == "c1" {
			o.SetAnnotations(map[string]string{"x": value})
		}
	}
	for _, c := range []struct {
		format  string
		columns int
		exact   bool
	}{{"yaml", 0, true}, {"jsonpath={.metadata.annotations.x}", 0, true}, {"json", 0, true}, {"json", 200, true}, {"yaml", 200, false}} {
		st.columns = c.columns
		out := st.run(t, []string{"get", "clusters", "c1", "-o", c.format})
		got := strings.TrimSuffix(out, "\n")
		if !strings.HasPrefix(c.format, "jsonpath") {
			var doc unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(out), &doc.Object); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			got = doc.GetAnnotations()["x"]
		}
		if c.exact && got != value {
			t.Errorf("%s, %d columns: got %q", c.format, c.columns, got)
		}
		if c.columns > 0 && bad(out) != "" {
			t.Errorf("%s on a terminal: %q", c.format, bad(out))
		}
	}
}

// What a server says in an error begins no line and moves no cursor.
func TestErrorsStayInTheirLine(t *testing.T) {
	server := apierrors.NewForbidden(fleet.GroupVersion.WithResource("clusters").GroupResource(), "c1", errors.New("no"+hostile))
	for _, err := range []error{server, fmt.Errorf("read: %w", client.DescribeServerError("https://x", server)), errors.Join(errors.New("one"), server), fmt.Errorf("%w: %w", cli.ErrInput, server)} {
		for _, env := range []string{"", "true"} {
			var out strings.Builder
			client.ReportError(&out, err, func(string) string { return env })
			if text := bad(out.String()); text != "" {
				t.Errorf("%q", text)
			}
		}
	}
	if got := client.ErrorText(errors.Join(errors.New("one"), errors.New("two"))); got != "one\ntwo" {
		t.Errorf("two errors have two lines, got %q", got)
	}
}
