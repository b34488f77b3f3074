package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// systemNamespaces are the files that may name the namespace of the manager, and
// why. Everything else is told it: --system-namespace and the chart's namespace may
// say another one.
var systemNamespaces = map[string]string{
	"pkg/apis/fleet.cattle.io/v1alpha1/names.go": "the vocabulary",
	"pkg/agent/agent.go":                         "the default of a flag",
	"pkg/controllers/config.go":                  "the default of a flag",
	"cmd/fleet/internal/client/globals.go":       "the default of a flag",
	"cmd/fleet/internal/deploy/deploy.go":        "the default of a flag",
	"cmd/fleet-controller/options.go":            "the default of a flag",
	"pkg/plan/registration/token.go":             "the agent's chart has it as a default, and is told others",
	"pkg/plan/clusterimport/secret.go":           "the API names the namespaces that may hold kubeconfigs",
}

// Only those files know a namespace by heart that each installation chooses.
func TestSystemNamespace(t *testing.T) {
	found := map[string]bool{}
	for _, top := range []string{"pkg", "cmd"} {
		root := filepath.Join("..", "..", top)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "fleet-sandbox":
				return filepath.SkipDir // it installs where it wants to
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			name := filepath.ToSlash(filepath.Join(top, strings.TrimPrefix(path, root)))
			at, err := namesSystem(path)
			if at == "" || err != nil {
				return err
			}
			found[name] = true
			if systemNamespaces[name] == "" {
				t.Errorf("%s:%s names the manager's namespace, which may be another one", name, at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range systemNamespaces {
		if !found[name] {
			t.Errorf("%s does not name the manager's namespace: take it off the list", name)
		}
	}
}

// namesSystem is the line of a file that names the manager's namespace; empty: none
// does.
func namesSystem(path string) (line string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	ast.Inspect(file, func(n ast.Node) bool {
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
		line = strings.TrimPrefix(set.Position(n.Pos()).String(), path+":")
		return true
	})
	return line, nil
}
