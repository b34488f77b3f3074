package values

import (
	"fmt"
	"strconv"
	"text/template"
	"text/template/parse"
)

// Functions that are called by templates which have been read. A template that
// names them itself is not read, since they are not known until then.
const (
	stepFunction     = "fleetStep"
	enterFunction    = "fleetEnter"
	leaveFunction    = "fleetLeave"
	printedFunction  = "fleetPrinted"
	returnedFunction = "fleetReturned"
)

// maxBlocks is how deep blocks (if, range, with) may be nested in a template.
const maxBlocks = 100

var errBlocks = fmt.Errorf("the template has blocks that are nested more than 100 deep: %w", ErrLimit)

// instrument makes a template, and those that it defines, come by the meter: before
// each action, in each turn of a loop, whenever a template is called, and with
// whatever is printed or returned by a method.
func (m *meter) instrument(t *template.Template) error {
	t.Funcs(template.FuncMap{
		stepFunction: m.addStep, enterFunction: m.enterTemplate, leaveFunction: m.leaveTemplate,
		printedFunction: m.printed, returnedFunction: m.checkResult,
	})
	for _, defined := range t.Templates() {
		if defined.Tree == nil || defined.Root == nil {
			continue
		}
		r := rewriter{defined.Tree}
		if err := r.list(defined.Root, 0); err != nil {
			return err
		}
		nodes := append([]parse.Node{r.call(0, enterFunction)}, defined.Root.Nodes...)
		defined.Root.Nodes = append(nodes, r.call(0, leaveFunction))
	}
	return nil
}

// A rewriter puts calls of the meter into one tree.
type rewriter struct{ tree *parse.Tree }

// list puts a step before each node that does something.
func (r rewriter) list(l *parse.ListNode, depth int) error {
	if l == nil {
		return nil
	}
	if depth > maxBlocks {
		return errBlocks
	}
	nodes := make([]parse.Node, 0, 2*len(l.Nodes))
	for _, n := range l.Nodes {
		var err error
		switch n := n.(type) {
		case *parse.ActionNode:
			r.rewritePipe(n.Pipe)
			if len(n.Pipe.Decl) == 0 {
				r.appendCall(n.Pipe, printedFunction)
			}
		case *parse.TemplateNode:
			r.rewritePipe(n.Pipe)
		case *parse.IfNode:
			err = r.rewriteBranch(&n.BranchNode, depth)
		case *parse.WithNode:
			err = r.rewriteBranch(&n.BranchNode, depth)
		case *parse.RangeNode:
			if err = r.rewriteBranch(&n.BranchNode, depth); err == nil {
				n.List.Nodes = append([]parse.Node{r.stepNode(n.Pos)}, n.List.Nodes...)
			}
		default:
			nodes = append(nodes, n)
			continue
		}
		if err != nil {
			return err
		}
		nodes = append(nodes, r.stepNode(n.Position()), n)
	}
	l.Nodes = nodes
	return nil
}

func (r rewriter) rewriteBranch(n *parse.BranchNode, depth int) error {
	r.rewritePipe(n.Pipe)
	if err := r.list(n.List, depth+1); err != nil {
		return err
	}
	return r.list(n.ElseList, depth+1)
}

// rewritePipe has the results of methods measured. Those of functions are anyway.
func (r rewriter) rewritePipe(p *parse.PipeNode) {
	if p == nil {
		return
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			if chain, ok := arg.(*parse.ChainNode); ok {
				arg = chain.Node
			}
			if inner, ok := arg.(*parse.PipeNode); ok {
				r.rewritePipe(inner)
			}
		}
	}
	final := p.Cmds[len(p.Cmds)-1]
	if _, ok := final.Args[0].(*parse.IdentifierNode); !ok && (len(p.Cmds) > 1 || len(final.Args) > 1) {
		r.appendCall(p, returnedFunction)
	}
}

// appendCall has the value of a pipeline go through a function.
func (r rewriter) appendCall(p *parse.PipeNode, function string) {
	p.Cmds = append(p.Cmds, r.command(p.Pos, function))
}

func (r rewriter) stepNode(at parse.Pos) parse.Node {
	n := int64(at)
	return r.call(at, stepFunction, &parse.NumberNode{
		NodeType: parse.NodeNumber, Pos: at, IsInt: true, Int64: n, Text: strconv.FormatInt(n, 10),
	})
}

// call is an action that calls a function and prints nothing.
func (r rewriter) call(at parse.Pos, function string, args ...parse.Node) parse.Node {
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: at, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: at, Cmds: []*parse.CommandNode{r.command(at, function, args...)},
	}}
}

func (r rewriter) command(at parse.Pos, function string, args ...parse.Node) *parse.CommandNode {
	name := parse.NewIdentifier(function).SetPos(at).SetTree(r.tree)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: append([]parse.Node{name}, args...)}
}
