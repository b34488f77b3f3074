package values

import (
	"errors"
	"text/template"
	"text/template/parse"
)

const (
	// maxSteps is how much one template may do: turns of its loops, calls of
	// templates that it defines, and what its functions make.
	maxSteps = 100_000
	// slowSteps is what a slow function counts: 10 calls are possible.
	slowSteps = maxSteps / 10
	// bytesPerStep is how many bytes, or items, that a function makes count as
	// one step.
	bytesPerStep = 1000
	// stepFunction is called at the beginning of each turn. Nobody else knows it
	// while a template is read.
	stepFunction = "fleetStep"
)

var errSteps = errors.New("the template takes too many steps: more than 100,000 turns of loops, 10 calls of functions that take long, or texts that are too large")

// A meter measures what one rendering does, so that it ends in reasonable time.
type meter struct{ spent int }

func (m *meter) spend(n int) error {
	if m.spent += n; m.spent > maxSteps {
		return errSteps
	}
	return nil
}

// put counts every turn of every loop in a template and in those that it
// defines, and every call of these.
func (m *meter) put(t *template.Template) error {
	count := template.FuncMap{stepFunction: func() (string, error) { return "", m.spend(1) }}
	step, err := template.New("").Funcs(count).Parse("{{ " + stepFunction + " }}")
	if err != nil {
		return err
	}
	t.Funcs(count)
	node := step.Root.Nodes[0]
	for _, defined := range t.Templates() {
		if defined.Tree == nil || defined.Root == nil {
			continue
		}
		countTurns(defined.Root, node)
		defined.Root.Nodes = append([]parse.Node{node}, defined.Root.Nodes...)
	}
	return nil
}

// countTurns puts a node at the beginning of the body of each loop.
func countTurns(list *parse.ListNode, node parse.Node) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.IfNode:
			countTurns(n.List, node)
			countTurns(n.ElseList, node)
		case *parse.WithNode:
			countTurns(n.List, node)
			countTurns(n.ElseList, node)
		case *parse.RangeNode:
			countTurns(n.List, node)
			countTurns(n.ElseList, node)
			n.List.Nodes = append([]parse.Node{node}, n.List.Nodes...)
		}
	}
}
