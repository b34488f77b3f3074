package imageupdate

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// What a commit says where spec.imageScanCommit says nothing.
const (
	DefaultMessage     = "Update from image update automation"
	DefaultAuthorName  = "Fleet"
	DefaultAuthorEmail = "fleet@localhost"
)

const (
	// maxTemplateBytes bounds messageTemplate, maxMessageBytes what it writes, and
	// maxListed the changes that it can list.
	maxTemplateBytes = 8 << 10
	maxMessageBytes  = 16 << 10
	maxListed        = 100
	// maxRanges is how deep loops may be nested.
	maxRanges = 2
)

// ReasonInvalidTemplate is the reason of a messageTemplate that cannot be executed.
const ReasonInvalidTemplate = "InvalidTemplate"

// Facts for messageTemplate.
type messageFacts struct {
	Namespace, GitRepo, Branch string
	Changes                    []Change // at most maxListed
	Total                      string   // how many changes there are; a loop over a number would not end soon
}

// Message returns the text of a commit: messageTemplate, a Go template without functions,
// with the fields Namespace, GitRepo, Branch, Total, and Changes, each of which has Path,
// Line, Old and New. Without functions and with two nested loops at most, a template ends
// soon. An error is reconcile.Terminal, InvalidTemplate.
func Message(repo *fleet.GitRepo, branch string, changes []Change) (string, error) {
	text := ""
	if c := repo.Spec.ImageScanCommit; c != nil {
		text = c.MessageTemplate
	}
	if strings.TrimSpace(text) == "" {
		return DefaultMessage, nil
	}
	facts := messageFacts{
		Namespace: repo.Namespace, GitRepo: repo.Name, Branch: branch, Changes: changes[:min(len(changes), maxListed)], Total: strconv.Itoa(len(changes)),
	}
	message, err := execute(text, facts)
	if err == nil && strings.TrimSpace(message) == "" {
		err = errors.New("it writes nothing")
	}
	if err != nil {
		return "", reconcile.TerminalError(ReasonInvalidTemplate, fmt.Errorf("spec.imageScanCommit.messageTemplate: %s", condition.Cut(err.Error(), 300)))
	}
	return message, nil
}

func execute(text string, facts messageFacts) (string, error) {
	if len(text) > maxTemplateBytes {
		return "", fmt.Errorf("it is longer than %d KiB", maxTemplateBytes>>10)
	}
	t, err := template.New("message").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	for _, part := range t.Templates() {
		if part.Tree != nil && part.Root != nil {
			if err := allowed(part.Root, 0); err != nil {
				return "", err
			}
		}
	}
	var out limitedText
	if err := t.Execute(&out, facts); err != nil {
		return "", err
	}
	return out.String(), nil
}

// allowed returns what a template has that it may not have.
func allowed(n parse.Node, ranges int) error {
	switch n := n.(type) {
	case nil, *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, below := range n.Nodes {
			if err := allowed(below, ranges); err != nil {
				return err
			}
		}
		return nil
	case *parse.ActionNode:
		return allowedPipe(n.Pipe)
	case *parse.IfNode:
		return allowedBranch(&n.BranchNode, ranges)
	case *parse.WithNode:
		return allowedBranch(&n.BranchNode, ranges)
	case *parse.RangeNode:
		if ranges++; ranges > maxRanges {
			return fmt.Errorf("more than %d loops are nested", maxRanges)
		}
		if len(n.Pipe.Cmds) == 1 && len(n.Pipe.Cmds[0].Args) == 1 && n.Pipe.Cmds[0].Args[0].Type() == parse.NodeNumber {
			return errors.New("a loop over a number is not available")
		}
		return allowedBranch(&n.BranchNode, ranges)
	}
	return fmt.Errorf("%.50q is not available in this template", n.String())
}

func allowedBranch(n *parse.BranchNode, ranges int) error {
	if err := allowedPipe(n.Pipe); err != nil {
		return err
	}
	if err := allowed(n.List, ranges); err != nil {
		return err
	}
	return allowed(n.ElseList, ranges)
}

// allowedPipe refuses functions and variables: a pipe is one field or one literal.
func allowedPipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	if len(p.Decl) > 0 || len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return fmt.Errorf("%.50q is not available in this template: want one field", p.String())
	}
	switch p.Cmds[0].Args[0].(type) {
	case *parse.FieldNode, *parse.DotNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		return nil
	case *parse.VariableNode: // $ and its fields
		if strings.HasPrefix(p.String(), "$.") {
			return nil
		}
	}
	return fmt.Errorf("%.50q is not available in this template: want one field", p.String())
}

// limitedText is a text that does not grow beyond maxMessageBytes.
type limitedText struct{ strings.Builder }

func (t *limitedText) Write(p []byte) (int, error) {
	if t.Len()+len(p) > maxMessageBytes {
		return 0, fmt.Errorf("it writes more than %d KiB", maxMessageBytes>>10)
	}
	return t.Builder.Write(p)
}

// Author returns name and address of the author of commits.
func Author(spec fleet.GitRepoSpec) (name, email string) {
	name, email = DefaultAuthorName, DefaultAuthorEmail
	if c := spec.ImageScanCommit; c != nil {
		name, email = cmp.Or(strings.TrimSpace(c.AuthorName), name), cmp.Or(strings.TrimSpace(c.AuthorEmail), email)
	}
	return name, email
}
