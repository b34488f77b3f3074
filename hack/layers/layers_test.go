package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/fleetworkspace/fleet/"

// A rule says what the packages below one folder must not reach.
type rule struct {
	room   string   // folder, relative to the module
	direct bool     // only what the package itself imports, not what that imports
	exact  bool     // the paths in never alone, not what stands below them
	never  []string // import paths, with all that stands below them
	why    string
}

var rules = []rule{
	{
		room: "pkg/apis/", why: "the vocabulary uses only the Kubernetes API types",
		never: []string{
			"github.com/rancher/", "helm.sh/", "github.com/go-git/", "github.com/sirupsen/logrus",
			"k8s.io/client-go/", module + "pkg/plan/", module + "pkg/kube", module + "pkg/git", module + "pkg/helm", module + "cmd/",
		},
	},
	{
		room: "pkg/plan/", why: "decisions know no client and no other house",
		never: []string{
			"k8s.io/client-go/", "github.com/rancher/", "helm.sh/", "github.com/go-git/", "github.com/sirupsen/logrus",
			module + "pkg/kube", module + "pkg/git", module + "pkg/helm", module + "pkg/oci", module + "pkg/web", module + "pkg/archive",
			module + "pkg/controllers", module + "pkg/agent", module + "pkg/agentmanagement", module + "pkg/workspace", module + "cmd/",
		},
	},
	{
		room: "pkg/plan/", direct: true, exact: true, why: "decisions are pure: no disk, no network, no context",
		never: []string{"os", "net", "net/http", "context", "os/exec", "syscall"},
	},
	port("kube", "helm.sh/", "github.com/go-git/"),
	port("git", "helm.sh/", "k8s.io/client-go/", "github.com/rancher/"),
	port("helm", "github.com/go-git/"),
	port("oci", "helm.sh/", "github.com/go-git/", "k8s.io/client-go/"),
	port("web", "helm.sh/", "github.com/go-git/", "k8s.io/client-go/", "oras.land/"),
	port("disk", "helm.sh/", "github.com/go-git/", "k8s.io/client-go/", "oras.land/", "net/http"),
	port("archive", "helm.sh/", "github.com/go-git/", "k8s.io/client-go/", "oras.land/", "net/http"),
	{
		room: "pkg/bundlesource", direct: true, why: "it serves the manager and the CLI, and reaches libraries through ports",
		never: []string{
			"helm.sh/", "github.com/go-git/", "github.com/rancher/", module + "pkg/controllers", module + "pkg/agent",
			module + "pkg/agentmanagement", module + "pkg/workspace", module + "cmd/",
		},
	},
	manager("controllers"), manager("agentmanagement"), manager("agent"), manager("workspace"),
	loop("agents"), loop("cleanup"), loop("cluster"), loop("clusterimport"), loop("heartbeat"), loop("identity"),
	loop("local"), loop("move"), loop("registration"), loop("token"), loop("workspacelabel"),
	{
		room: "cmd/fleet-agent", why: "the agent's binary never links the controllers",
		never: []string{module + "pkg/controllers", module + "pkg/agentmanagement", module + "pkg/workspace", module + "pkg/git"},
	},
}

// testServers are servers that tests start. They are no ports, and no program
// links them.
var testServers = map[string]bool{
	module + "pkg/git/gittest": true, module + "pkg/web/webtest": true, module + "pkg/oci/ocitest": true, module + "pkg/kube/kubetest": true,
	module + "pkg/kube/kubetest/looptest": true, module + "pkg/agentmanagement/managertest": true,
}

// port is the rule of a port: its own library, no other port, no logging.
func port(name string, never ...string) rule {
	for _, other := range []string{"kube", "git", "helm", "oci", "web", "archive"} {
		if other != name {
			never = append(never, module+"pkg/"+other)
		}
	}
	for _, above := range []string{"controllers", "agentmanagement", "agent", "workspace"} {
		never = append(never, module+"pkg/"+above)
	}
	return rule{room: "pkg/" + name, direct: true, why: "a port opens one outside world and returns errors", never: append(never, "github.com/sirupsen/logrus", module+"cmd/")}
}

// manager is the rule of a folder of loops: no neighbour, no library of a port.
func manager(name string) rule {
	never := []string{"helm.sh/", "github.com/go-git/", "github.com/rancher/", module + "cmd/"}
	for _, other := range []string{"controllers", "agentmanagement", "agent", "workspace"} {
		if other != name {
			never = append(never, module+"pkg/"+other)
		}
	}
	return rule{room: "pkg/" + name, direct: true, why: "houses never import each other and reach libraries through ports", never: never}
}

// loop is the rule of a loop of agent management: it gets what it needs of the other loops
// as interfaces.
func loop(name string) rule {
	var never []string
	for _, other := range []string{
		"agents", "cleanup", "cluster", "clusterimport", "heartbeat", "identity", "local", "move", "registration", "token", "workspacelabel",
	} {
		if other != name {
			never = append(never, module+"pkg/agentmanagement/"+other)
		}
	}
	return rule{room: "pkg/agentmanagement/" + name, direct: true, why: "loops never import each other; pkg/agentmanagement composes them", never: never}
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// listPackages returns the packages of the project. go list runs once.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	list, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var packages = sync.OnceValues(func() (list []pkg, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"...").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		list = append(list, p)
	}
})

// Imports point down: each rule holds for every package below its room.
func TestLayers(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		if program := strings.HasPrefix(p.ImportPath, module+"cmd/"); program && slices.ContainsFunc(p.Deps, func(d string) bool { return testServers[d] }) {
			t.Errorf("%s links a server that is for tests only", p.ImportPath)
		}
		for _, r := range rules {
			if !within(p.ImportPath, module+r.room) || testServers[p.ImportPath] {
				continue
			}
			seen[r.room] = true
			if bad := r.breaches(p); len(bad) > 0 {
				t.Errorf("%s reaches %s\n\t%s", p.ImportPath, strings.Join(bad, ", "), r.why)
			}
		}
	}
	for _, must := range []string{"pkg/apis/", "pkg/plan/", "pkg/kube", "pkg/git", "pkg/helm", "pkg/oci", "pkg/web", "pkg/archive"} {
		if !seen[must] {
			t.Errorf("no package found below %s: the test would pass whatever is imported", must)
		}
	}
}

// soleImporters names for a library the one folder whose packages may import it. Tests and
// benchmarks may import it too.
var soleImporters = []struct{ library, room, why string }{
	{"github.com/go-git/go-git/", "pkg/git", "all else reads repositories through pkg/git"},
	{"github.com/go-playground/webhooks/", "pkg/controllers/webhook", "what git hosts send is read in one place"},
}

// No package outside of its folder imports a library of soleImporters.
func TestSoleImporters(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range listPackages(t) {
		for _, sole := range soleImporters {
			if !slices.ContainsFunc(p.Imports, func(path string) bool { return strings.HasPrefix(path, sole.library) }) || within(p.ImportPath, module+"benchmarks") {
				continue
			}
			seen[sole.library] = true
			if !within(p.ImportPath, module+sole.room) {
				t.Errorf("%s imports %s, which is for %s alone\n\t%s", p.ImportPath, sole.library, sole.room, sole.why)
			}
		}
	}
	for _, sole := range soleImporters {
		if !seen[sole.library] {
			t.Errorf("no package imports %s: the test would pass whatever is imported", sole.library)
		}
	}
}

// sharedByCommands are the packages of the command line that may be imported by the
// packages of commands, from the lowest to the highest.
var sharedByCommands = []string{"printer", "cli", "client", "rancher", "sources"}

// What a command of fleet does imports no other command, and what commands share imports
// only what stands before it.
func TestCommandLayers(t *testing.T) {
	const internal = module + "cmd/fleet/internal/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", internal+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	commands := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		below := sharedByCommands
		if at := slices.Index(sharedByCommands, strings.TrimPrefix(p.ImportPath, internal)); at >= 0 {
			below = sharedByCommands[:at]
		} else {
			commands++
		}
		for _, path := range p.Imports {
			if name, inside := strings.CutPrefix(path, internal); inside && !slices.Contains(below, name) {
				t.Errorf("%s imports %s, which is not below it", p.ImportPath, path)
			}
		}
	}
	if commands == 0 {
		t.Error("no package of a command found: the test would pass whatever is imported")
	}
}

// breaches lists what p reaches and must not.
func (r rule) breaches(p pkg) []string {
	reach := p.Deps
	if r.direct {
		reach = p.Imports
	}
	var bad []string
	for _, dep := range reach {
		for _, never := range r.never {
			if hit := dep == never || !r.exact && within(dep, never); hit && !within(dep, module+r.room) {
				bad = append(bad, dep)
			}
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// within reports whether an import path is a folder or stands below it.
func within(path, folder string) bool {
	folder = strings.TrimSuffix(folder, "/")
	return path == folder || strings.HasPrefix(path, folder+"/")
}
