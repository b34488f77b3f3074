package printer

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
	FormatWide = "wide"
	FormatName = "name"
	FormatJSON = "json"
	FormatYAML = "yaml"
)

// JsonpathPrefix begins the value of -o that is a jsonpath.
const JsonpathPrefix = "jsonpath="

// Output is the value of -o.
type Output string

// AddFlag adds -o with the formats that a command has; jsonpath goes with
// json.
func (o *Output) AddFlag(fs *pflag.FlagSet, formats ...string) {
	fs.StringVarP((*string)(o), "output", "o", "", "output `format`: "+knownFormats(formats))
	values := slices.Clone(formats)
	if slices.Contains(formats, FormatJSON) {
		values = append(values, JsonpathPrefix)
	}
	slices.Sort(values)
	fs.Lookup("output").Annotations = map[string][]string{FormatsKey: values}
}

// knownFormats are the values of -o as a text.
func knownFormats(formats []string) string {
	known := strings.Join(formats, ", ")
	if slices.Contains(formats, FormatJSON) {
		known += ", " + JsonpathPrefix + "EXPR"
	}
	return known
}

// Check refuses a format that the command does not have.
func (o Output) Check(formats ...string) error {
	if o == "" || slices.Contains(formats, string(o)) {
		return nil
	}
	if slices.Contains(formats, FormatJSON) && strings.HasPrefix(string(o), JsonpathPrefix) {
		_, err := o.Path()
		return err
	}
	return fmt.Errorf("no output format %q; there are %s", string(o), knownFormats(formats))
}

// CheckBefore is check for a command that writes, or waits, before it answers: a jsonpath
// with a field that its document cannot have is refused before anything is done.
func (o Output) CheckBefore(doc any, formats ...string) error {
	if err := o.Check(formats...); err != nil || !strings.HasPrefix(string(o), JsonpathPrefix) {
		return err
	}
	if wrong, _, _ := misspelt(o.expression(), nil, shapeOf(doc)); len(wrong) > 0 {
		return fmt.Errorf("jsonpath: %w", errors.Join(wrong...))
	}
	return nil
}

// IsMachineReadable reports whether a program reads the answer.
func (o Output) IsMachineReadable() bool { return o != "" && o != FormatWide }

// IsWide reports whether nothing is left out or cut.
func (o Output) IsWide() bool { return o == FormatWide }

// Print answers with a document in one of the machine's formats. compact is one line of
// JSON.
func (o Output) Print(std Stdio, doc any, compact bool) error {
	if strings.HasPrefix(string(o), JsonpathPrefix) {
		return o.printPath(std, doc)
	}
	return o.Encode(std.Out, doc, compact)
}

// Encode writes a document as YAML, or else as JSON.
func (o Output) Encode(w io.Writer, doc any, compact bool) error {
	if o != FormatYAML {
		return PrintJSON(w, doc, compact)
	}
	data, err := yaml.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write yaml: %w", err)
	}
	if compact {
		data = append([]byte("---\n"), data...)
	}
	_, err = DocumentWriter(w).Write(data)
	return err
}

// PrintJSON indents by four spaces, as kubectl does.
func PrintJSON(w io.Writer, doc any, compact bool) error {
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

// Path reads the expression of jsonpath=. Braces and the leading dot may be
// left out, as with kubectl.
func (o Output) Path() (*jsonpath.JSONPath, error) {
	text := o.expression()
	p := jsonpath.New("output").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, fmt.Errorf("jsonpath %q: %w", text, err)
	}
	return p, nil
}

// expression is what follows jsonpath=, with the braces and the dot that may be left out.
func (o Output) expression() string {
	text := strings.TrimPrefix(string(o), JsonpathPrefix)
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	return text
}

// printPath prints what a jsonpath finds. If it finds nothing because the document
// cannot have a field that the path names, that is an error; if it finds something
// else, a note.
func (o Output) printPath(std Stdio, doc any) error {
	p, err := o.Path()
	if err != nil {
		return err
	}
	plain, err := throughJSON(doc)
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
		std.Note("warning: jsonpath: %v", err)
	}
	_, err = fmt.Fprintln(DocumentWriter(std.Out), strings.TrimSuffix(out.String(), "\n"))
	return err
}

// throughJSON is a document as a program reads it from JSON.
func throughJSON(doc any) (any, error) {
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

// FormatsKey is the annotation of -o that lists the formats of its command.
const FormatsKey = "fleet.cattle.io/formats"
