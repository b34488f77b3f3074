package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// Formats of -o besides jsonpath=EXPRESSION. Empty is the table or the text
// that people read.
const (
	formatWide = "wide"
	formatName = "name"
	formatJSON = "json"
	formatYAML = "yaml"
)

// jsonpathPrefix begins the value of -o that is a jsonpath.
const jsonpathPrefix = "jsonpath="

// output is the value of -o.
type output string

// addFlag adds -o with the formats that a command has; jsonpath goes with
// json.
func (o *output) addFlag(fs *pflag.FlagSet, formats ...string) {
	fs.StringVarP((*string)(o), "output", "o", "", "output `format`: "+knownFormats(formats))
	values := slices.Clone(formats)
	if slices.Contains(formats, formatJSON) {
		values = append(values, jsonpathPrefix)
	}
	slices.Sort(values)
	fs.Lookup("output").Annotations = map[string][]string{formatsKey: values}
}

// knownFormats are the values of -o as a text.
func knownFormats(formats []string) string {
	known := strings.Join(formats, ", ")
	if slices.Contains(formats, formatJSON) {
		known += ", " + jsonpathPrefix + "EXPR"
	}
	return known
}

// check refuses a format that the command does not have.
func (o output) check(formats ...string) error {
	if o == "" || slices.Contains(formats, string(o)) {
		return nil
	}
	if slices.Contains(formats, formatJSON) && strings.HasPrefix(string(o), jsonpathPrefix) {
		_, err := o.path()
		return err
	}
	return fmt.Errorf("no output format %q; there are %s", string(o), knownFormats(formats))
}

// checkBefore is check for a command that writes, or waits, before it answers: a jsonpath
// with a field that its document cannot have is refused before anything is done.
func (o output) checkBefore(doc any, formats ...string) error {
	if err := o.check(formats...); err != nil || !strings.HasPrefix(string(o), jsonpathPrefix) {
		return err
	}
	if wrong, _, _ := misspelt(o.expression(), nil, shapeOf(doc)); len(wrong) > 0 {
		return fmt.Errorf("jsonpath: %w", errors.Join(wrong...))
	}
	return nil
}

// machine reports whether a program reads the answer.
func (o output) machine() bool { return o != "" && o != formatWide }

// wide reports whether nothing is left out or cut.
func (o output) wide() bool { return o == formatWide }

// print answers with a document in one of the machine's formats. compact is one line of
// JSON.
func (o output) print(std stdio, doc any, compact bool) error {
	if strings.HasPrefix(string(o), jsonpathPrefix) {
		return o.printPath(std, doc)
	}
	return o.write(std.out, doc, compact)
}

// write writes a document as YAML, or else as JSON.
func (o output) write(w io.Writer, doc any, compact bool) error {
	if o != formatYAML {
		return printJSON(w, doc, compact)
	}
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	if compact {
		data = append([]byte("---\n"), data...)
	}
	_, err = exact(w).Write(data)
	return err
}

// printJSON indents by four spaces, as kubectl does.
func printJSON(w io.Writer, doc any, compact bool) error {
	indent := "    "
	if compact {
		indent = ""
	}
	data, err := marshal(doc, indent)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

func marshal(doc any, indent string) ([]byte, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	var out bytes.Buffer
	if indent == "" {
		err = json.Compact(&out, bytes.TrimSpace(data))
	} else {
		err = json.Indent(&out, bytes.TrimSpace(data), "", indent)
	}
	if err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	return out.Bytes(), nil
}

// path reads the expression of jsonpath=. Braces and the leading dot may be
// left out, as with kubectl.
func (o output) path() (*jsonpath.JSONPath, error) {
	text := o.expression()
	p := jsonpath.New("output").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return p, nil
}

// expression is what follows jsonpath=, with the braces and the dot that may be left out.
func (o output) expression() string {
	text := strings.TrimPrefix(string(o), jsonpathPrefix)
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	return text
}

// printPath prints what a jsonpath finds. If it finds nothing because the document
// cannot have a field that the path names, that is an error; if it finds something
// else, a note.
func (o output) printPath(std stdio, doc any) error {
	p, err := o.path()
	if err != nil {
		return err
	}
	plain, err := decoded(doc)
	if err != nil {
		return err
	}
	wrong, doubtful, matched := misspelt(o.expression(), plain, shapeOf(doc))
	if len(wrong) > 0 && !matched {
		return fmt.Errorf("jsonpath: %w", errors.Join(wrong...))
	}
	var out bytes.Buffer
	if err := p.Execute(&out, plain); err != nil {
		return fmt.Errorf("jsonpath: %w", err)
	}
	for _, err := range slices.Concat(wrong, doubtful) {
		std.note("warning: jsonpath: %v", err)
	}
	_, err = fmt.Fprintln(exact(std.out), strings.TrimSuffix(out.String(), "\n"))
	return err
}

// decoded is a document as a program reads it from JSON.
func decoded(doc any) (any, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, fmt.Errorf("write json: %w", err)
	}
	return plain, nil
}
