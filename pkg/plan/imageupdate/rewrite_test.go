package imageupdate

import (
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// found is what the scans of these tests have found.
var found = Values{
	"web": {Scan: "a", Image: "docker.io/lib/nginx:1.10", Tag: "1.10", Name: "docker.io/lib/nginx", Digest: "sha256:abc"},
	"old": {Scan: "b", Image: "old:2", Tag: "v2"},
}

func TestRewriteFile(t *testing.T) {
	const m = `# {"$imagescan": "web"}`
	cases := map[string]struct {
		why        string
		text, want string // no want: the file stays
		err        string
	}{
		"Image":         {text: "image: nginx:1 " + m + "\n", want: "image: docker.io/lib/nginx:1.10 " + m + "\n"},
		"Tag":           {why: "1.10 without quotes would be the number 1.1", text: "tag: v1 # {\"$imagescan\": \"web:tag\"}\n", want: "tag: \"1.10\" # {\"$imagescan\": \"web:tag\"}\n"},
		"NumberBefore":  {why: "a number with the same digits is not the tag", text: "tag: 1.10 # {\"$imagescan\": \"web:tag\"}\n", want: "tag: \"1.10\" # {\"$imagescan\": \"web:tag\"}\n"},
		"TextTag":       {text: "tag: v1 # {\"$imagescan\": \"old:tag\"}\n", want: "tag: v2 # {\"$imagescan\": \"old:tag\"}\n"},
		"Name":          {text: "n: x # {\"$imagescan\": \"web:name\"}\n", want: "n: docker.io/lib/nginx # {\"$imagescan\": \"web:name\"}\n"},
		"Digest":        {text: "n: x # {\"$imagescan\": \"web:digest\"}\n", want: "n: docker.io/lib/nginx:1.10@sha256:abc # {\"$imagescan\": \"web:digest\"}\n"},
		"NoDigest":      {text: "n: x # {\"$imagescan\": \"old:digest\"}\n"},
		"UnknownName":   {text: "n: x # {\"$imagescan\": \"other\"}\n"},
		"UnknownPart":   {text: "n: x # {\"$imagescan\": \"web:size\"}\n"},
		"Same":          {text: "image: docker.io/lib/nginx:1.10 " + m + "\n"},
		"NoMarker":      {text: "a: : : b\n"},
		"DoubleQuotes":  {text: "image:   \"nginx:1\"   " + m + "\n", want: "image:   \"docker.io/lib/nginx:1.10\"   " + m + "\n"},
		"SingleQuotes":  {text: "- 'it''s' " + m + "\n", want: "- 'docker.io/lib/nginx:1.10' " + m + "\n"},
		"Escapes":       {text: `a: "x\"y" ` + m + "\n", want: `a: "docker.io/lib/nginx:1.10" ` + m + "\n"},
		"NoLineEnd":     {text: "image: nginx:1 " + m, want: "image: docker.io/lib/nginx:1.10 " + m},
		"CRLF":          {text: "a: b\r\nimage: nginx:1 " + m + "\r\nc: d\r\n", want: "a: b\r\nimage: docker.io/lib/nginx:1.10 " + m + "\r\nc: d\r\n"},
		"BOM":           {text: "\uFEFFimage: nginx:1 " + m + "\n", want: "\uFEFFimage: docker.io/lib/nginx:1.10 " + m + "\n"},
		"Wide":          {why: "columns are characters", text: "ключ: {ü: ä, b: nginx:1, " + m + "\n  c: d}\n", want: "ключ: {ü: ä, b: docker.io/lib/nginx:1.10, " + m + "\n  c: d}\n"},
		"TabBefore":     {text: "image: nginx:1\t" + m + "\n", want: "image: docker.io/lib/nginx:1.10\t" + m + "\n"},
		"OddSpaces":     {text: "a:\n    - b:   nginx:1 " + m + "  \n\n\n    -   c : d # e\n", want: "a:\n    - b:   docker.io/lib/nginx:1.10 " + m + "  \n\n\n    -   c : d # e\n"},
		"Flow":          {text: "a: [x, nginx:1 " + m + "\n  ]\n", want: "a: [x, docker.io/lib/nginx:1.10 " + m + "\n  ]\n"},
		"FlowMap":       {why: "the comment is at the map, not at a value", text: "a: {image: nginx:1} " + m + "\n"},
		"Documents":     {text: "a: nginx:1 # none\n---\nb: nginx:1 " + m + "\n...\n---\n# c\nd: &x !!str nginx:1 " + m + "\ne: *x\n", want: "a: nginx:1 # none\n---\nb: docker.io/lib/nginx:1.10 " + m + "\n...\n---\n# c\nd: &x !!str docker.io/lib/nginx:1.10 " + m + "\ne: *x\n"},
		"Alias":         {why: "an alias is no value of its own", text: "a: &x nginx:1\nb: *x " + m + "\n"},
		"SameKeyTwice":  {text: "a: x " + m + "\na: y " + m + "\n", want: "a: docker.io/lib/nginx:1.10 " + m + "\na: docker.io/lib/nginx:1.10 " + m + "\n"},
		"InText":        {why: "a marker within a text is no comment", text: "a: |\n  image: nginx:1 " + m + "\nb: \"x " + strings.ReplaceAll(m, `"`, `\"`) + "\"\n"},
		"Block":         {text: "a: | " + m + "\n  text\n", err: "line 1: the marked value takes several lines"},
		"SeveralLines":  {text: "a: nginx\n  and more " + m + "\n", err: "line 1: the marked value takes several lines"},
		"QuotedLines":   {text: "a: \"nginx\n  and more\" " + m + "\n", err: "line 1: the marked value cannot be told from what is around it"},
		"NoYAML":        {text: "{{- if .Values.x }}\nb: nginx:1 " + m + "\n", err: "it is not YAML"},
		"Tabs":          {text: "a:\n\tb: nginx:1 " + m + "\n", err: "it is not YAML"},
		"UTF16":         {text: "a: \xff\xfe " + m + "\n", err: "it is not UTF-8"},
		"Large":         {text: "a: nginx:1 " + m + "\n" + strings.Repeat("#", maxFileBytes), err: "it is larger than 1024 KiB, or has more than 100000 values"},
		"ManyValues":    {text: "a: nginx:1 " + m + "\nb: [" + strings.Repeat("a,", maxFileTokens) + "]\n", err: "it is larger than 1024 KiB, or has more than 100000 values"},
		"OtherComment":  {text: "a: nginx:1 # see {\"$imagescan\": \"web\"}\n"},
		"MoreKeys":      {text: "a: nginx:1 # {\"$imagescan\": \"web\", \"x\": \"y\"}\n"},
		"ManySpaces":    {text: "a: nginx:1 #   {  \"$imagescan\" :\"web\" }\n", want: "a: docker.io/lib/nginx:1.10 #   {  \"$imagescan\" :\"web\" }\n"},
		"Key":           {why: "a key is no value", text: "? nginx:1 " + m + "\n: b\n"},
		"CommentAbove":  {text: m + "\na: nginx:1\n"},
		"HashInValue":   {text: "a: nginx#1 " + m + "\n", want: "a: docker.io/lib/nginx:1.10 " + m + "\n"},
		"TwoMarkers":    {text: "a: x " + m + "\nb: y # {\"$imagescan\": \"old\"}\n", want: "a: docker.io/lib/nginx:1.10 " + m + "\nb: old:2 # {\"$imagescan\": \"old\"}\n"},
		"OddLineBreaks": {text: "a: \u2028 b\nc: nginx:1 " + m + "\n", want: "a: \u2028 b\nc: docker.io/lib/nginx:1.10 " + m + "\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, changes, err := RewriteFile([]byte(c.text), found)
			want := c.want
			if want == "" {
				want = c.text
			}
			if text := errorText(err); text != c.err {
				t.Errorf("error %q, want %q", text, c.err)
			}
			if string(got) != want || (len(changes) > 0) != (c.want != "") {
				t.Errorf("%s\n got %q (%d changes)\nwant %q", c.why, got, len(changes), want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzRewriteFile checks with the lines of the text alone that nothing but values with a
// marker behind them changes, and that a second run changes nothing.
func FuzzRewriteFile(f *testing.F) {
	for _, seed := range []string{
		"image: nginx:1 # {\"$imagescan\": \"web\"}\n", "a: [x, nginx:1, # {\"$imagescan\": \"web:tag\"}\n  ]\n",
		"a: &x !!str 'n' # {\"$imagescan\": \"web:digest\"}\r\nb: *x\r\n---\n- \"a\" #{\"$imagescan\":\"old\"}",
		"\uFEFFa: |\n  x # {\"$imagescan\": \"web\"}\nb: >- # {\"$imagescan\": \"web\"}\n  y\n", "- - - x # {\"$imagescan\": \"web\"}\n  - {b: 1} # {\"$imagescan\": \"web\"}",
	} {
		f.Add([]byte(seed))
	}
	lines := regexp.MustCompile("\r\n|\n|\r|\u0085|\u2028|\u2029")
	f.Fuzz(func(t *testing.T, text []byte) {
		got, changes, err := RewriteFile(text, found)
		if len(changes) == 0 || err != nil {
			if string(got) != string(text) {
				t.Fatalf("%q became %q without a change", text, got)
			}
			return
		}
		before, after := lines.Split(string(text), -1), lines.Split(string(got), -1)
		if len(before) != len(after) {
			t.Fatalf("%q has other lines in %q", text, got)
		}
		for i, old := range before {
			if old == after[i] {
				continue
			}
			at := strings.LastIndex(old, "#")
			if at < 0 || !strings.Contains(old[at:], "$imagescan") || !strings.HasSuffix(after[i], old[at:]) {
				t.Fatalf("line %q became %q", old, after[i])
			}
		}
		if again, more, err := RewriteFile(got, found); err != nil || len(more) > 0 || string(again) != string(got) {
			t.Fatalf("%q became %q, and then %q, %v", text, got, again, err)
		}
	})
}

func TestRewriteTree(t *testing.T) {
	marked := &fstest.MapFile{Data: []byte("a: x # {\"$imagescan\": \"web\"}\n"), Mode: 0o644}
	tree := fstest.MapFS{
		"a/x.yaml": marked, "a/deep/y.yml": marked, "b/x.yaml": marked, "b/x.json": marked, "b/broken.yaml": {Data: []byte("a: { # {\"$imagescan\": \"web\"}\n")},
		".git/x.yaml": marked, "c/.git/x.yaml": marked, "c/z.yaml": {Data: []byte("a: x\n")},
		"link": {Data: []byte("a"), Mode: fs.ModeSymlink | 0o777}, "c/link.yaml": {Data: []byte("../a/x.yaml"), Mode: fs.ModeSymlink | 0o777},
	}
	cases := map[string]struct {
		spec  fleet.GitRepoSpec
		files string
		left  int
		err   string
	}{
		"All":      {files: "a/deep/y.yml a/x.yaml b/x.yaml", left: 1},
		"One":      {spec: fleet.GitRepoSpec{Paths: []string{"a/deep"}}, files: "a/deep/y.yml"},
		"Twice":    {spec: fleet.GitRepoSpec{Paths: []string{"a/deep", "a", "/a"}}, files: "a/deep/y.yml a/x.yaml"},
		"Glob":     {spec: fleet.GitRepoSpec{Paths: []string{"*/deep", "b"}}, files: "a/deep/y.yml b/x.yaml", left: 1},
		"Git":      {spec: fleet.GitRepoSpec{Paths: []string{".git", "c/.git"}}},
		"Link":     {spec: fleet.GitRepoSpec{Paths: []string{"link", "lin*", "link/deep"}}},
		"Missing":  {spec: fleet.GitRepoSpec{Paths: []string{"none"}}},
		"Bundles":  {spec: fleet.GitRepoSpec{Bundles: []fleet.BundlePath{{Base: "a"}}, Paths: []string{"b"}}, files: "a/deep/y.yml a/x.yaml"},
		"Outside":  {spec: fleet.GitRepoSpec{Paths: []string{"a", "../x"}}, err: `path "../x" resolves outside the repository root`},
		"Outside2": {spec: fleet.GitRepoSpec{Paths: []string{"/a/../../x"}}, err: `path "/a/../../x" resolves outside the repository root`},
		"Pattern":  {spec: fleet.GitRepoSpec{Paths: []string{"[a"}}, err: `path "[a" is not a valid pattern`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := RewriteTree(tree, c.spec, found)
			if errorText(err) != c.err || err != nil && !reconcile.IsTerminal(err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if files := strings.Join(slices.Sorted(maps.Keys(got.Files)), " "); files != c.files || len(got.Left) != c.left {
				t.Errorf("files %q, want %q; left %q", files, c.files, got.Left)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	changes := []Change{{Path: "a.yaml", Line: 3, Old: "x:1", New: "x:2"}, {Path: "b.yaml", Line: 1, Old: "y", New: "z"}}
	cases := map[string]struct{ template, want, err string }{
		"Default":   {want: DefaultMessage},
		"Constant":  {template: "chore: images", want: "chore: images"},
		"Fields":    {template: "{{.GitRepo}}/{{.Branch}}: {{.Total}}{{range .Changes}}\n{{$.Namespace}} {{.Path}}:{{.Line}} {{.Old}}->{{.New}}{{end}}", want: "apps/main: 2\nteam a.yaml:3 x:1->x:2\nteam b.yaml:1 y->z"},
		"Broken":    {template: "{{", err: "messageTemplate: template: message:1: unclosed action"},
		"Function":  {template: `{{printf "%1000000000d" 1}}`, err: "is not available"},
		"Recursion": {template: `{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`, err: "is not available"},
		"Number":    {template: `{{range 1000000000}}{{end}}`, err: "a loop over a number"},
		"Total":     {template: `{{range .Total}}{{end}}`, err: "range can't iterate over 2"},
		"Loops":     {template: `{{range .Changes}}{{range $.Changes}}{{range $.Changes}}{{end}}{{end}}{{end}}`, err: "more than 2 loops"},
		"NoField":   {template: `{{.Secret}}`, err: "can't evaluate field Secret"},
		"Long":      {template: "{{range .Changes}}{{range $.Changes}}" + strings.Repeat("x", 5000) + "{{end}}{{end}}", err: "it writes more than 16 KiB"},
		"Nothing":   {template: "{{with .Branch}}{{end}}", err: "it writes nothing"},
		"Huge":      {template: strings.Repeat("x", maxTemplateBytes+1), err: "it is longer than 8 KiB"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			repo := &fleet.GitRepo{Spec: fleet.GitRepoSpec{ImageScanCommit: &fleet.CommitSpec{MessageTemplate: c.template}}}
			repo.Namespace, repo.Name = "team", "apps"
			got, err := Message(repo, "main", changes)
			if got != c.want || !strings.Contains(errorText(err), c.err) || (err != nil) != (c.err != "") {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
