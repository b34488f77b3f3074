package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// programs is the folder of the programs that tests build.
var programs string

// program builds fleet once.
var program = sync.OnceValues(func() (string, error) {
	var err error
	if programs, err = os.MkdirTemp("", "fleet-docs"); err != nil {
		return "", err
	}
	path := filepath.Join(programs, "fleet")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", path, "./cmd/fleet")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if programs != "" {
		_ = os.RemoveAll(programs)
	}
	os.Exit(code)
}

// shell is a block of commands.
var shell = regexp.MustCompile("(?s)\n```sh[^\n]*\n(.*?)```")

// Each fleet command of README and of the pages in docs has subcommands and flags
// that exist.
func TestCommandsInPagesExist(t *testing.T) {
	fleet, err := program()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shell.FindAllStringSubmatch(string(data), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
				line, _, _ = strings.Cut(line, " | ")
				line, _, _ = strings.Cut(line, " > ")
				line, _, _ = strings.Cut(line, " >> ")
				line, _, _ = strings.Cut(line, " || ")
				rest, ok := strings.CutPrefix(line, "fleet ")
				if !ok || tried[line] {
					continue
				}
				tried[line] = true
				cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$FLEET" `+rest+` --help`)
				cmd.Env = append(os.Environ(), "FLEET="+fleet)
				out, err := cmd.CombinedOutput()
				if err != nil || strings.HasPrefix(string(out), "error") {
					t.Errorf("%s: %s: %v\n%s", path, line, err, out)
				}
			}
		}
	}
	if len(tried) < 20 {
		t.Errorf("%d commands found: the test looks in the wrong place", len(tried))
	}
}

// What docs/install.md installs has the images that it pushes.
func TestInstallUsesOwnImages(t *testing.T) {
	fleet, err := program()
	if err != nil {
		t.Fatal(err)
	}
	text := page(t, "install.md")
	_, block, ok := strings.Cut(text, "```sh install\n")
	block, _, _ = strings.Cut(block, " > fleet.yaml\n")
	rest, isFleet := strings.CutPrefix(block, "fleet ")
	if !ok || !isFleet {
		t.Fatal("docs/install.md does not install the manager")
	}
	out, err := exec.CommandContext(t.Context(), fleet, strings.Fields(strings.ReplaceAll(rest, "\\\n", " "))...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"registry.example.com/fleet/fleet:v0.1.0", "registry.example.com/fleet/fleet-agent:v0.1.0"} {
		if !strings.Contains(string(out), image) {
			t.Errorf("the manager does not use the image %s", image)
		}
		if !strings.Contains(text, "docker push "+image) || !strings.Contains(text, "docker://"+image) {
			t.Errorf("docs/install.md does not push the image %s", image)
		}
	}
	if strings.Contains(string(out), "image: fleetworkspace/") {
		t.Error("the manager uses images that are not published")
	}
	chart, err := os.ReadFile(filepath.Join(root, "charts/fleet/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(chart), "\nappVersion: 0.1.0\n") {
		t.Error("docs/install.md names the tag v0.1.0, and make images makes another one")
	}
}
