// Command generate writes all files of the repository that are made from
// others: deep copies and CustomResourceDefinitions from pkg/apis, the JSON
// schema of fleet.yaml, the tables of its keys in docs/fleet-yaml.md, the manifest
// docs/takeover.yaml from the chart fleet, and docs/compatibility.md from the rows
// in hack/compatibility. It takes no arguments, works in the repository that it is
// run in, and writes a file only if its content changes. Running it twice is
// running it once.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A step makes one kind of file from others, below root.
type step struct {
	name string
	run  func(root string) error
}

var steps = []step{
	{"deep copies", deepCopies},
	{"CustomResourceDefinitions", crds},
	{"JSON schema of fleet.yaml", fleetYAML},
	{"reference of fleet.yaml", fleetYAMLReference},
	{"manager beside another one", takeover},
	{"table of compatibility", compatibilityTable},
}

func main() {
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
	for _, s := range steps {
		if err := s.run(root); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s: %v\n", s.name, err)
			os.Exit(1)
		}
	}
}

// moduleRoot is the nearest directory, upwards, with the tools module.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "tools", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no tools/go.mod here or above")
		}
		dir = parent
	}
}

func deepCopies(root string) error {
	return controllerGen(root, "object", "paths=./pkg/apis/...")
}

// controllerGen runs the generator that tools/go.mod pins.
func controllerGen(root string, args ...string) error {
	args = append([]string{"tool", "-modfile=tools/go.mod", "controller-gen"}, args...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("controller-gen: %w", err)
	}
	return nil
}

// write replaces the content of a file, unless it is the same already.
func write(path string, content []byte) error {
	old, err := os.ReadFile(path)
	if err == nil && string(old) == string(content) {
		return nil
	}
	return os.WriteFile(path, content, 0o644)
}
