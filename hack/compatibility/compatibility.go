// Package compatibility makes docs/compatibility.md, the table of what Rancher
// Fleet v0.16 does, what this project does instead, and which test proves that.
// The rows are in the files below rows, one file for each subject.
package compatibility

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Page is the file that the table is written to, from the top of the repository.
const Page = "docs/compatibility.md"

// An Answer says whether this project does what the reference does.
type Answer string

// The answers of a row.
const (
	Same     Answer = "same"      // users see the same behaviour
	Differs  Answer = "differs"   // users see another behaviour, which Row.How describes
	NotThere Answer = "not there" // this project has nothing for it; Row.How says why
)

// A Row is one behaviour of the reference.
type Row struct {
	ID        string   `json:"id"`        // a letter or two and a number, such as K4; unique
	Reference string   `json:"reference"` // what the reference does
	Ours      Answer   `json:"ours"`
	How       string   `json:"how"`   // required unless the answer is Same
	Proof     []string `json:"proof"` // "PACKAGE TestName" or "PACKAGE TestName/Subtest"; empty: no test
}

// A Subject has the rows of one letter, in their order.
type Subject struct {
	Title string `json:"title"`
	Rows  []Row  `json:"rows"`
}

//go:embed rows/*.yaml
var files embed.FS

// Subjects returns all rows, in the order of the names of their files. An unknown
// key in a file is an error.
func Subjects() ([]Subject, error) {
	names, err := fs.Glob(files, "rows/*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Subject
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var s Subject
		if err := yaml.UnmarshalStrict(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(name), err)
		}
		all = append(all, s)
	}
	return all, nil
}

const introduction = `# Compatibility with Rancher Fleet

Generated from hack/compatibility by hack/generate. Do not edit.

The reference is Rancher Fleet v0.16. Each row has one behaviour of the reference that a user or another program can
see, what this project does, and the tests that prove it. A proof is a package and the name of a test in it; a name
after a slash is a subtest. %s

* **same**: the behaviour is the same. A remark names details that differ.
* **differs**: the behaviour is another one. The remark says how, and links the reason.
* **not there**: this project does not have it. The remark says why.

[Reference behaviour](reference-behaviour.md) lists what the tests assume of the reference, and the statuses field by
field. [Fields of fleet.yaml](fleet-yaml.md), [options](options.md) and [chart values](charts.md) have pages of their
own.
`

// Text returns the text of the page, with links to the decisions in docs/decisions
// below root: "decision 13" in a remark is a link to that decision, which must exist.
func Text(root string) (string, error) {
	subjects, err := Subjects()
	if err != nil {
		return "", err
	}
	decisions, err := decisionsOf(root)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, introduction, counts(subjects))
	for _, s := range subjects {
		fmt.Fprintf(&b, "\n## %s\n\n| id | the reference | here | proof |\n|---|---|---|---|\n", s.Title)
		for _, r := range s.Rows {
			how, err := linked(r.How, decisions)
			if err != nil {
				return "", fmt.Errorf("row %s: %w", r.ID, err)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.ID, cell(r.Reference), answer(r.Ours, how), proof(r))
		}
	}
	return b.String(), nil
}

// decisionsOf returns the files of the decisions by their four digits.
func decisionsOf(root string) (map[string]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, "docs", "decisions"))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, e := range entries {
		if number, _, ok := strings.Cut(e.Name(), "-"); ok {
			files[number] = e.Name()
		}
	}
	return files, nil
}

// counts says how many rows have each answer.
func counts(subjects []Subject) string {
	n := map[Answer]int{}
	for _, s := range subjects {
		for _, r := range s.Rows {
			n[r.Ours]++
		}
	}
	return fmt.Sprintf("Of %d rows %d are the same, %d differ and %d are not there.",
		n[Same]+n[Differs]+n[NotThere], n[Same], n[Differs], n[NotThere])
}

func answer(a Answer, how string) string {
	if how == "" {
		return fmt.Sprintf("**%s**", a)
	}
	return fmt.Sprintf("**%s**: %s", a, cell(how))
}

func proof(r Row) string {
	if len(r.Proof) == 0 {
		if r.Ours == NotThere {
			return "-"
		}
		return "no test"
	}
	var list []string
	for _, p := range r.Proof {
		list = append(list, "`"+p+"`")
	}
	return strings.Join(list, ", ")
}

// cell is a text as it stands in a table: in one line, without bars.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

var decision = regexp.MustCompile(`\bdecision (\d+)`)

// linked makes links of the decisions that a remark names.
func linked(text string, decisions map[string]string) (string, error) {
	var missing error
	text = decision.ReplaceAllStringFunc(text, func(m string) string {
		number := decision.FindStringSubmatch(m)[1]
		file, ok := decisions[strings.Repeat("0", max(0, 4-len(number)))+number]
		if !ok {
			missing = fmt.Errorf("%s does not exist", m)
		}
		return fmt.Sprintf("[%s](decisions/%s)", m, file)
	})
	return text, missing
}
