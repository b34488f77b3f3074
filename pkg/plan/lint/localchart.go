package lint

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// maxTemplates is how many templates of one chart are looked through.
const maxTemplates = 1000

// A localChart is a chart that stands in the repository.
type localChart struct {
	dir      string
	version  string
	defaults *yaml.Node // values.yaml; nil where there is none
	// documented is the text that may name values beside the defaults: comments of
	// values.yaml, and the schema.
	documented string
	parts      []string // keys of the values of other charts
	uses       []valueUse
	// names are the field names that templates read from anything but .Values, and
	// all string literals in templates: any of them may be a key of a value.
	names map[string]bool
	// open says that templates may read values that they do not name: of other charts, or by
	// texts and contexts that are made while rendering.
	open bool
}

// A valueUse is a value that a template names: the keys below .Values.
type valueUse struct {
	file, text string
	pos        parse.Pos
	keys       []string
	// optional says that the template may do without the value.
	optional bool
}

// localChart is the chart of Helm options of the bundle: own are those of a
// customization, or nil. It is nil for a chart that is not in the repository, or
// whose templates cannot be parsed.
func (c *check) localChart(own *fleet.HelmOptions) *localChart {
	name := ""
	for _, h := range []*fleet.HelmOptions{c.file.Spec.Helm, own} {
		if h != nil && h.Repo != "" {
			return nil
		}
		if h != nil && h.Chart != "" {
			name = h.Chart
		}
	}
	dir := path.Join(c.result.Dir.Path, name)
	if done, known := c.charts[dir]; known {
		return done
	}
	if c.charts == nil {
		c.charts = map[string]*localChart{}
	}
	c.chartFiles(dir)
	c.charts[dir] = readChart(c.tree, dir)
	return c.charts[dir]
}

func readChart(tree fs.FS, dir string) *localChart {
	meta, err := readFile(tree, path.Join(dir, "Chart.yaml"))
	if err != nil || position.Root(meta) == nil {
		return nil
	}
	ch := &localChart{dir: dir, names: map[string]bool{}, parts: []string{"global"}}
	root := position.Root(meta)
	ch.version, _ = position.Text(root, "version")
	kind, _ := position.Text(root, "type")
	ch.open = kind == "library"
	for i := 0; ; i++ {
		name, named := position.Text(root, "dependencies", i, "name")
		if !named {
			break
		}
		alias, _ := position.Text(root, "dependencies", i, "alias")
		ch.parts = append(ch.parts, name, alias)
	}
	if entries, err := fs.ReadDir(tree, path.Join(dir, "charts")); err == nil {
		for _, e := range entries {
			ch.parts = append(ch.parts, e.Name())
		}
	}
	values, err := readFile(tree, path.Join(dir, "values.yaml"))
	if err == nil && len(values) <= fleetyaml.MaxBytes {
		ch.defaults = position.Root(values)
	}
	schema, _ := readFile(tree, path.Join(dir, schemaFile)) // a chart may have none
	ch.documented = string(values) + string(schema)
	ch.open = ch.open || len(ch.parts) > 1
	if !ch.templates(tree) {
		return nil
	}
	return ch
}

// templates reads the templates; it reports whether all can be parsed.
func (ch *localChart) templates(tree fs.FS) bool {
	var files []string
	err := fs.WalkDir(tree, path.Join(ch.dir, "templates"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, p)
		}
		return err
	})
	if err != nil || len(files) > maxTemplates {
		return false
	}
	for _, file := range files {
		data, err := readFile(tree, file)
		if err != nil || len(data) > fleetyaml.MaxBytes {
			return false
		}
		all, ok := parseTemplate(file, string(data))
		if !ok {
			return false
		}
		for _, t := range all {
			eachNode(t.Root, false, func(n parse.Node, optional bool) {
				ch.node(valueUse{file: file, text: string(data), optional: optional}, n)
			})
		}
	}
	return true
}

// parseTemplate parses a file of templates; ok is false where that is not possible.
func parseTemplate(name, text string) (all map[string]*parse.Tree, ok bool) {
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	all = map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", all); err != nil {
		return nil, false
	}
	all[name] = tree
	return all, true
}

// node adds the values and names of one template node to ch.uses, ch.names and ch.open.
func (ch *localChart) node(use valueUse, n parse.Node) {
	var keys []string
	switch t := n.(type) {
	case *parse.FieldNode:
		keys = t.Ident
	case *parse.VariableNode:
		keys = t.Ident[1:]
		ch.open = ch.open || len(keys) == 0 && t.Ident[0] == "$"
	case *parse.DotNode:
		ch.open = true
	case *parse.IdentifierNode:
		ch.open = ch.open || t.Ident == "tpl"
	case *parse.ChainNode:
		for _, name := range t.Field {
			ch.names[name] = true
		}
		return
	case *parse.StringNode:
		ch.names[t.Text] = true
		return
	}
	if len(keys) > 0 && keys[0] == "Values" {
		use.pos, use.keys = n.Position(), keys[1:]
		ch.uses = append(ch.uses, use)
		return
	}
	for _, name := range keys {
		ch.names[name] = true
	}
}

// reads reports whether a template reads a value, or one below it.
func (ch *localChart) reads(keys []string) bool {
	return ch.names[keys[len(keys)-1]] || slices.ContainsFunc(ch.uses, func(u valueUse) bool {
		return len(u.keys) >= len(keys) && slices.Equal(u.keys[:len(keys)], keys)
	})
}

// handsOn reports whether a template takes a mapping as a whole, so that all keys
// below it may count.
func (ch *localChart) handsOn(keys []string) bool {
	return slices.ContainsFunc(ch.uses, func(u valueUse) bool {
		return len(u.keys) <= len(keys) && slices.Equal(u.keys, keys[:len(u.keys)])
	})
}

// documents reports whether values.yaml or the schema names a key, if only in a
// comment.
func (ch *localChart) documents(key string) bool {
	return slices.Contains(strings.FieldsFunc(ch.documented, func(r rune) bool {
		return !strings.ContainsRune("-_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}), key)
}

// plain are functions for values that have to be there.
var plain = []string{
	"quote", "squote", "toYaml", "toJson", "toString", "indent", "nindent", "trim", "trunc", "trimSuffix", "upper", "lower", "int", "int64", "b64enc", "printf", "print",
}

// eachNode visits the parts of a template. optional says that the part is a condition, or
// goes through a function that may do without it.
func eachNode(n parse.Node, optional bool, visit func(n parse.Node, optional bool)) {
	switch t := n.(type) {
	case *parse.ListNode:
		if t == nil {
			return
		}
		for _, e := range t.Nodes {
			eachNode(e, false, visit)
		}
	case *parse.PipeNode:
		eachCommand(t, optional, visit)
	case *parse.ChainNode:
		visit(t, optional)
		eachNode(t.Node, optional, visit)
	case *parse.ActionNode:
		eachNode(t.Pipe, optional, visit)
	case *parse.TemplateNode:
		if t.Pipe != nil && len(t.Pipe.Cmds) == 1 && len(t.Pipe.Cmds[0].Args) == 1 && isWhole(t.Pipe.Cmds[0].Args[0]) {
			return // the template that it names is visited, too
		}
		eachNode(t.Pipe, true, visit)
	case *parse.IfNode:
		eachBranch(&t.BranchNode, visit)
	case *parse.RangeNode:
		eachBranch(&t.BranchNode, visit)
	case *parse.WithNode:
		eachBranch(&t.BranchNode, visit)
	default:
		visit(n, optional)
	}
}

// eachCommand visits the parts of a pipeline, which may be nil.
func eachCommand(pipe *parse.PipeNode, optional bool, visit func(n parse.Node, optional bool)) {
	if pipe == nil {
		return
	}
	for _, e := range pipe.Cmds {
		optional = optional || toleratesMissing(e)
	}
	for _, e := range pipe.Cmds {
		for _, arg := range e.Args {
			if !isContext(e, arg) {
				eachNode(arg, optional, visit)
			}
		}
	}
}

// isContext reports whether an argument is what include hands on to another template, which
// is visited, too.
func isContext(command *parse.CommandNode, arg parse.Node) bool {
	name, ok := command.Args[0].(*parse.IdentifierNode)
	return ok && name.Ident == "include" && isWhole(arg)
}

// isWhole reports whether a part of a template is all that the template has.
func isWhole(n parse.Node) bool {
	switch t := n.(type) {
	case *parse.DotNode:
		return true
	case *parse.VariableNode:
		return len(t.Ident) == 1 && t.Ident[0] == "$"
	}
	return false
}

func eachBranch(b *parse.BranchNode, visit func(n parse.Node, optional bool)) {
	eachNode(b.Pipe, true, visit)
	eachNode(b.List, false, visit)
	eachNode(b.ElseList, false, visit)
}

// toleratesMissing reports whether a command may do without what it is given.
func toleratesMissing(command *parse.CommandNode) bool {
	name, ok := command.Args[0].(*parse.IdentifierNode)
	return ok && !slices.Contains(plain, name.Ident)
}
