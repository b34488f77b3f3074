package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The page with the keys of fleet.yaml, which stand between two marks.
const (
	fleetYAMLPage = "docs/fleet-yaml.md"
	beginKeys     = "<!-- begin keys -->\n"
	endKeys       = "<!-- end keys -->"
)

// A schema is what the page shows of a JSON schema.
type schema struct {
	Type                 any               `json:"type"`
	Description          string            `json:"description"`
	Default              any               `json:"default"`
	Enum                 []string          `json:"enum"`
	Required             []string          `json:"required"`
	Ref                  string            `json:"$ref"`
	Items                *schema           `json:"items"`
	Properties           map[string]schema `json:"properties"`
	AdditionalProperties any               `json:"additionalProperties"`
	Defs                 map[string]schema `json:"$defs"`
}

// fleetYAMLReference writes the tables of keys into the page about fleet.yaml,
// from the JSON schema. The text around the marks stays.
func fleetYAMLReference(root string) error {
	text, err := fleetYAMLText(root)
	if err != nil {
		return err
	}
	path := filepath.Join(root, fleetYAMLPage)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	made, err := withKeys(string(page), text)
	if err != nil {
		return err
	}
	return write(path, []byte(made))
}

// withKeys is the page with the tables of a JSON schema between its marks.
func withKeys(page string, text []byte) (string, error) {
	var all schema
	if err := json.Unmarshal(text, &all); err != nil {
		return "", err
	}
	before, rest, begun := strings.Cut(page, beginKeys)
	_, after, ended := strings.Cut(rest, endKeys)
	if !begun || !ended {
		return "", fmt.Errorf("%s: the marks %q and %q are missing", fleetYAMLPage, strings.TrimSpace(beginKeys), endKeys)
	}
	var out strings.Builder
	out.WriteString("\n## Keys\n\n")
	rows := table{out: &out, options: all.Properties}
	rows.keys("", all, nil)
	for _, def := range []struct {
		name, heading, text string
		own                 []string
	}{
		{"target", "targetCustomizations", "Each entry has the keys of this table. All other keys of an entry are options of the tables above.",
			[]string{"name", "clusterName", "clusterSelector", "clusterGroup", "clusterGroupSelector", "doNotDeploy"}},
		{"clusters", "overrideTargets", "", nil},
		{"imageScan", "imageScans", "", nil},
	} {
		fmt.Fprintf(&out, "\n### %s\n\n", def.heading)
		if def.text != "" {
			out.WriteString(def.text + "\n\n")
		}
		rows.keys(def.heading+"[].", all.Defs[def.name], def.own)
	}
	return before + beginKeys + out.String() + "\n" + endKeys + after, nil
}

// table writes tables of keys.
type table struct {
	out     *strings.Builder
	options map[string]schema
}

// keys writes the keys of a schema, all or some of them, and a table of its own
// for each key of the top that has keys itself.
func (t table) keys(prefix string, s schema, only []string) {
	t.head()
	var sections []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		p := s.Properties[name]
		t.row(prefix+name, p, slices.Contains(s.Required, name))
		switch {
		case prefix == "" && len(p.inner().Properties) > 0:
			sections = append(sections, name)
		case prefix != "":
			t.below(prefix+name, p)
		}
	}
	for _, name := range sections {
		fmt.Fprintf(t.out, "\n### %s\n\n", name)
		t.head()
		t.below(name, s.Properties[name])
	}
}

// below writes the keys below a key, and those below them.
func (t table) below(key string, s schema) {
	if s.selector() {
		return
	}
	if s.Items != nil {
		key += "[]"
	}
	inner := s.inner()
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		p := inner.Properties[name]
		t.row(key+"."+name, p, slices.Contains(inner.Required, name))
		t.below(key+"."+name, p)
	}
}

func (t table) head() {
	t.out.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
}

// defaults is the end of a description that says the default.
var defaults = regexp.MustCompile(`^(.*?) ?Default: ((?:[^.;,]|\.\S)+)(?:[.]|([;,].*))$`)

// row writes one key.
func (t table) row(key string, s schema, required bool) {
	name := key[strings.LastIndex(key, ".")+1:]
	text, value := s.Description, ""
	if m := defaults.FindStringSubmatch(text); m != nil {
		text, value = strings.TrimSpace(m[1]), strings.TrimSpace(m[2])
		if m[3] != "" { // what is said of the default besides its value
			text = s.Description
		}
	} else if s.Default != nil {
		value = fmt.Sprint(s.Default)
	}
	text = sentence(name, text)
	if len(s.Enum) > 0 && !strings.Contains(text, s.Enum[0]) {
		text += " One of " + strings.Join(s.Enum, ", ") + "."
	}
	if required {
		text += " Required."
	}
	if s.selector() {
		text += " `{matchLabels: {...}, matchExpressions: [{key, operator, values}]}`."
	}
	fmt.Fprintf(t.out, "| `%s` | %s | %s | %s |\n", key, s.kind(), value, strings.ReplaceAll(text, "|", `\|`))
}

// sentence is a description without the key at its beginning, which the table has
// beside it.
func sentence(key, text string) string {
	rest, ok := strings.CutPrefix(text, key+" ")
	switch {
	case !ok, strings.HasPrefix(rest, "of "), strings.HasPrefix(rest, "in "):
		rest = text
	case strings.HasPrefix(rest, "is the "), strings.HasPrefix(rest, "are "), strings.HasPrefix(rest, "is a "), strings.HasPrefix(rest, "is how "):
		_, rest, _ = strings.Cut(rest, " ")
	}
	if rest == "" {
		return ""
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// inner is the schema with the keys: that of the items of a list.
func (s schema) inner() schema {
	if s.Items != nil {
		return *s.Items
	}
	return s
}

// selector reports whether a schema is a label selector.
func (s schema) selector() bool {
	_, has := s.Properties["matchExpressions"]
	return has
}

// kind is the type of a value, in words.
func (s schema) kind() string {
	var types []string
	switch t := s.Type.(type) {
	case string:
		types = []string{t}
	case []any:
		for _, one := range t {
			if one != "null" {
				types = append(types, fmt.Sprint(one))
			}
		}
	}
	switch {
	case len(types) == 0:
		return "any"
	case types[0] == "array" && s.Items != nil && s.Items.Ref == "":
		return "list of " + s.Items.kind()
	case types[0] == "array":
		return "list of object"
	case types[0] == "object" && len(s.Properties) == 0:
		return "map"
	}
	return strings.Join(types, " or ")
}
