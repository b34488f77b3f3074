package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// promises are the tests on running clusters that hold what the README's table "What
// happens when" says, by the first cell of the row: "<folder> <test>".
var promises = map[string][]string{
	"the manager is down":            {"alone TestAlone", "fleet TestKilledManagerConverges"},
	"an agent is down":               {"fleet TestStoppedAgentCatchesUpWithTheLastCommit", "fleet TestClusterOffTheNet"},
	"the management cluster is lost": {"recovery TestManagementClusterBurns", "recovery TestManagerCopied"},
	"git is down":                    {"gitrepo TestGitRepo"},
	"a namespace or kind of Fleet is deleted by mistake": {
		"terminating TestDeletedByMistake", "terminating TestOthersDeleted", "terminating TestGroupsDeleted",
		"fleet TestDeletedClusterNamespaceComesBack", "fleet TestDeletedDeploymentComesBack",
	},
	"a GitRepo or Bundle is deleted by hand": {"terminating TestDeletedByHand", "terminating TestProtected"},
	"the chart is uninstalled":               {"terminating TestChartsUninstalled"},
	"you want to go back to the reference":   {"takeover TestTakeover", "install TestMove"},
}

// Every row of the README's table "What happens when" has tests, which exist.
func TestPromisesInReadme(t *testing.T) {
	rows := promised(t)
	for row := range promises {
		if !rows[row] {
			t.Errorf("README does not say any more what happens when %s", row)
		}
	}
	for row := range rows {
		if len(promises[row]) == 0 {
			t.Errorf("no test holds what README says of %q: name one here", row)
		}
		for _, test := range promises[row] {
			folder, name, _ := strings.Cut(test, " ")
			if !exists(t, filepath.Join(root, "integrationtests", folder), name) {
				t.Errorf("%s: there is no test %s in integrationtests/%s", row, name, folder)
			}
		}
	}
}

// promised are the first cells of the rows below the heading "What happens when".
func promised(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## What happens when\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]bool{}
	for line := range strings.Lines(section) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && cell != line && cell != "" {
			rows[cell] = true
		}
	}
	return rows
}

// exists reports whether a folder has a test of a name.
func exists(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
