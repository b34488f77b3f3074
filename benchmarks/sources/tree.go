package sources

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
)

// filesPerDir is how many files writeTree puts into each directory.
const filesPerDir = 3

// writeTree writes n bundle directories of three files below dir, ten to a
// folder: a fleet.yaml, a Deployment and a ConfigMap.
func writeTree(dir string, n int) error {
	for i := range n {
		name := bundleDir(i)
		files := map[string]string{
			"fleet.yaml": fmt.Sprintf("defaultNamespace: app-%d\nlabels: {team: t%d}\nhelm: {releaseName: app-%d}\ntargetCustomizations:\n"+
				"- name: prod\n  clusterSelector: {matchLabels: {env: prod}}\n  helm: {values: {replicas: 3}}\n", i, i/10, i),
			"deployment.yaml": fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app-%d}\nspec:\n  selector: {matchLabels: {app: app-%d}}\n"+
				"  template:\n    metadata: {labels: {app: app-%d}}\n    spec:\n      containers:\n      - {name: main, image: \"registry.example.com/app:%d\"}\n", i, i, i, i),
			settingsFile: settings(i, "first"),
		}
		for file, text := range files {
			if err := writeFile(filepath.Join(dir, name, file), text); err != nil {
				return err
			}
		}
	}
	return nil
}

const settingsFile = "settings.yaml"

func settings(i int, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings-%d}\ndata:\n  value: %q\n  text: |\n%s", i, value,
		strings.Repeat(fmt.Sprintf("    one line of the settings of app %d\n", i), 20))
}

func bundleDir(i int) string { return fmt.Sprintf("team-%03d/app-%04d", i/10, i) }

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// commit commits all of a working copy to the main branch, which need not exist
// yet, and returns the commit. No reader sees it before push.
func commit(tree, message string) (string, error) {
	for _, args := range [][]string{
		{"checkout", "--quiet", "-B", gitserver.Branch},
		{"add", "--all"},
		{"commit", "--quiet", "--message", message},
	} {
		if _, err := gitserver.Git(tree, args...); err != nil {
			return "", err
		}
	}
	return gitserver.Git(tree, "rev-parse", "HEAD")
}

// push pushes the main branch of a working copy.
func push(tree string) error {
	_, err := gitserver.Git(tree, "push", "--quiet", "origin", gitserver.Branch)
	return err
}

// publish is commit and push.
func publish(tree, message string) (string, error) {
	made, err := commit(tree, message)
	if err != nil {
		return "", err
	}
	return made, push(tree)
}
