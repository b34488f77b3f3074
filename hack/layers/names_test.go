package layers

import (
	"go/ast"
	"strings"
	"testing"
)

// systemNamespaces are the files that may name the namespace of the manager, and
// why. All other code gets it from --system-namespace or the chart's namespace,
// which may differ.
var systemNamespaces = map[string]string{
	"pkg/apis/fleet.cattle.io/v1alpha1/names.go": "the vocabulary",
	"pkg/agent/agent.go":                         "the default of a flag",
	"pkg/controllers/config.go":                  "the default of a flag",
	"cmd/fleet/internal/client/globals.go":       "the default of a flag",
	"cmd/fleet/internal/deploy/deploy.go":        "the default of a flag",
	"cmd/fleet-controller/options.go":            "the default of a flag",
	"pkg/plan/registration/token.go":             "the agent's chart has it as a default, and takes others as a value",
	"pkg/plan/clusterimport/secret.go":           "the API names the namespaces that may hold kubeconfigs",
}

// Only those files know a namespace by heart that each installation chooses.
func TestSystemNamespace(t *testing.T) {
	found := map[string]bool{}
	for _, f := range goFiles(t, false) {
		if !strings.HasPrefix(f.path, "pkg/") && !strings.HasPrefix(f.path, "cmd/") || strings.HasPrefix(f.path, "cmd/fleet-sandbox/") {
			continue // the sandbox installs where it wants to
		}
		at := namesSystem(f)
		if at == 0 {
			continue
		}
		found[f.path] = true
		if systemNamespaces[f.path] == "" {
			t.Errorf("%s:%d names the manager's namespace, which may be another one", f.path, at)
		}
	}
	for name := range systemNamespaces {
		if !found[name] {
			t.Errorf("%s does not name the manager's namespace: take it off the list", name)
		}
	}
}

// namesSystem is the last line of a file that names the manager's namespace; 0: none does.
func namesSystem(f goFile) (line int) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			of, ok := x.X.(*ast.Ident)
			if !ok || x.Sel.Name != "NamespaceSystem" || of.Name == "metav1" {
				return true
			}
		case *ast.BasicLit:
			if x.Value != `"cattle-fleet-system"` {
				return true
			}
		default:
			return true
		}
		line = f.set.Position(n.Pos()).Line
		return true
	})
	return line
}
