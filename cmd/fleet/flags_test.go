package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// A misspelt flag of any command is answered with a flag of this command.
func TestUnknownFlag(t *testing.T) {
	root := newRootCommand(printer.Stdio{Out: io.Discard, Err: io.Discard})
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, c := range all {
		flags := map[string]string{"--worksapce": "--namespace", "--namspace": "--namespace"}
		c.InheritedFlags() // adds them to Flags
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if n := len(f.Name); n > 3 && !f.Hidden {
				swapped := "--" + f.Name[:n-2] + f.Name[n-1:] + f.Name[n-2:n-1]
				flags[swapped] = "--" + f.Name
			}
		})
		for given, want := range flags {
			if c.Flags().Lookup(strings.TrimPrefix(given, "--")) != nil {
				continue
			}
			err := c.Flags().Parse([]string{given})
			got := cli.UnknownFlag(c, err).Error()
			// --rule and --rules are equally near
			if tie := strings.HasPrefix(want, "--rule"); got != "no flag "+given+"; did you mean "+want+"?" && !tie {
				t.Errorf("%s: want %s, got %s", c.CommandPath(), want, got)
			}
		}
		for letter := 'a'; letter <= 'z'; letter++ {
			if c.Flags().ShorthandLookup(string(letter)) != nil {
				continue
			}
			err := c.Flags().Parse([]string{"-" + string(letter)})
			if err == nil || errors.Is(err, pflag.ErrHelp) {
				continue
			}
			_, near, found := strings.Cut(strings.TrimSuffix(cli.UnknownFlag(c, err).Error(), "?"), "did you mean --")
			if found && c.Flags().Lookup(near) == nil {
				t.Errorf("%s -%c: suggests --%s, which it does not have", c.CommandPath(), letter, near)
			}
		}
	}
}

// A flag that names a namespace takes only what can be the name of one: in commands that
// write, in those that print, and in those that look.
func TestImpossibleNamespaceOfFlag(t *testing.T) {
	const want = ` is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last`
	for name, c := range map[string]struct {
		args []string
		flag string
		near string
	}{
		"Apply":          {args: []string{"apply", "-o", "-", "-n", "Bad_NS", "x", "testdata"}, flag: `--namespace "Bad_NS"`, near: "bad-ns"},
		"ApplyTarget":    {args: []string{"apply", "-o", "-", "--target-namespace", "a.b", "x", "testdata"}, flag: `--target-namespace "a.b"`, near: "a-b"},
		"Test":           {args: []string{"test", "-n", "a/b", "testdata"}, flag: `--namespace "a/b"`},
		"Target":         {args: []string{"target", "-b", "x", "--namespace", "-a"}, flag: `--namespace "-a"`},
		"Deploy":         {args: []string{"deploy", "-i", "x", "-n", "Apps"}, flag: `--namespace "Apps"`, near: "apps"},
		"DeployAgent":    {args: []string{"deploy", "-i", "x", "-a", "Apps"}, flag: `--agent-namespace "Apps"`, near: "apps"},
		"Suspend":        {args: []string{"suspend", "repo/x", "-n", "Bad_NS"}, flag: `--namespace "Bad_NS"`, near: "bad-ns"},
		"Delete":         {args: []string{"delete", "repo/x", "-n", "Bad_NS"}, flag: `--namespace "Bad_NS"`, near: "bad-ns"},
		"Token":          {args: []string{"install", "agent-token", "-n", "fleet default"}, flag: `--namespace "fleet default"`, near: "fleet-default"},
		"Controller":     {args: []string{"install", "controller", "--system-namespace", "Fleet"}, flag: `--system-namespace "Fleet"`, near: "fleet"},
		"Nothing":        {args: []string{"install", "controller", "--system-namespace", ""}, flag: `--system-namespace ""`},
		"Status":         {args: []string{"status", "-n", "Fleet-Default"}, flag: `--namespace "Fleet-Default"`, near: "fleet-default"},
		"BeforeAnything": {args: []string{"get", "bundles", "-o", "json", "-n", "Fleet-Default"}, flag: `--namespace "Fleet-Default"`, near: "fleet-default"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, "examples.yaml", c.args...)
			text := c.flag + want
			if c.near != "" {
				text += `; did you mean "` + c.near + `"?`
			}
			if err == nil || err.Error() != text || cli.ExitCode(err, false) != 1 || out != "" {
				t.Errorf("want %s, got %v and %q", text, err, out)
			}
		})
	}
}

// What the environment names as workspace is checked where it counts: in commands that
// write without -n.
func TestImpossibleNamespaceOfEnvironment(t *testing.T) {
	t.Setenv("NAMESPACE", "Bad_NS")
	t.Chdir("../../examples")
	for line, refused := range map[string]bool{
		"apply -o - x settings":                  true,
		"apply -o - -n fleet-default x settings": false,
		"lint settings":                          false,
	} {
		root := newRootCommand(printer.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if got := err != nil && strings.HasPrefix(err.Error(), `NAMESPACE "Bad_NS" is not possible: `); got != refused || !refused && err != nil {
			t.Errorf("%s: refused %t is wrong: %v", line, got, err)
		}
	}
}

// A value that cannot be right is refused with its flag before anything is printed, made or
// asked for.
func TestImpossibleFlagValues(t *testing.T) {
	t.Setenv("COMMIT", "")
	const account = `--service-account "%s" is not possible: want lower case letters, digits, . and -`
	for line, want := range map[string]string{
		"apply -o - -a Bad_SA x testdata":                         strings.ReplaceAll(account, "%s", "Bad_SA"),
		"apply -o - -a fleet-agent x testdata":                    `--service-account "fleet-agent" is Fleet's own; no bundle may act as it`,
		"apply -o - --commit a/b x testdata":                      `--commit "a/b" is not possible: it becomes a label of the bundles, of at most 63 letters, digits, . _ and -`,
		"apply -o - --targets-file nope x testdata":               `--targets-file: open nope: no such file or directory`,
		"apply -f nope":                                           `--file: open nope: no such file or directory`,
		"apply -o - --username u --password-file nope x testdata": `--password-file: open nope: no such file or directory`,
		"test -b nope":                                            `--bundle-file: open nope: no such file or directory`,
		"test --kube-version abc testdata":                        `--kube-version: kubernetes version "abc" is not a version such as v1.36.0`,
		"deploy -d -i nope --kube-version abc":                    `--kube-version: kubernetes version "abc" is not a version such as v1.36.0`,
		"deploy -i nope":                                          `--input-file: open nope: no such file or directory`,
		"target -b ./nope":                                        `--bundle-file: open ./nope: no such file or directory`,
		"lint --service-account Bad_SA testdata":                  strings.ReplaceAll(account, "%s", "Bad_SA"),
		"lint --cluster-file nope testdata":                       `--cluster-file: open nope: no such file or directory`,
		"lint --crd-file nope testdata":                           `--crd-file: open nope: no such file or directory`,
		"install agent-token --ttl 5":                             `--ttl: lifetime "5": it has no unit; write for example 7d, 1w, 12h, or 0 for ever`,
		"cluster join c1 --ttl 5":                                 `--ttl: lifetime "5": it has no unit; write for example 7d, 1w, 12h, or 0 for ever`,
		"cluster join c1 --timeout -1s":                           `--timeout must not be below 0`,
		"workspace create team-a --timeout -1s":                   `--timeout must not be below 0`,
		"wait repo/examples --commit=":                            `--commit is empty: want @, or at least 4 digits of a commit`,
		"install agent-config":                                    `no labels: want --label KEY=VALUE`,
	} {
		out, _, err := run(t, "examples.yaml", strings.Fields(line)...)
		if err == nil || err.Error() != want || cli.ExitCode(err, false) != 1 || out != "" {
			t.Errorf("fleet %s: want %s, got %v and %q", line, want, err, out[:min(len(out), 100)])
		}
	}
	t.Setenv("COMMIT", "a b")
	_, _, err := run(t, "examples.yaml", "apply", "-o", "-", "x", "testdata")
	if err == nil || !strings.HasPrefix(err.Error(), `COMMIT "a b" is not possible: `) {
		t.Errorf("the environment: got %v", err)
	}
}
