package values

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
)

// TestEveryFunction: each of sprig's functions is allowed, refused, or reaches
// out of the template.
func TestEveryFunction(t *testing.T) {
	var missing []string
	for name := range sprig.TxtFuncMap() {
		if !slices.Contains(allowed, name) && !slices.Contains(Refused, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if diff := cmp.Diff([]string{"env", "expandenv", "getHostByName"}, missing); diff != "" {
		t.Errorf("a function without a decision: -want +got\n%s", diff)
	}
	for _, list := range [][]string{parts, holders} {
		for _, name := range list {
			if !slices.Contains(allowed, name) {
				t.Errorf("%s is not allowed", name)
			}
		}
	}
}

// TestRefused: a function that takes long is named, with what to do instead.
func TestRefused(t *testing.T) {
	for _, name := range Refused {
		_, err := newMeter(full).renderText("x", "${ "+name+` "a" }`, nil)
		if err == nil || !strings.Contains(err.Error(), "may not call "+name) || !strings.Contains(err.Error(), "helm.valuesFrom") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var changing = []string{"randAlpha", "randAlphaNum", "randAscii", "randNumeric", "randBytes", "randInt", "shuffle", "uuidv4", "encryptAES", "now", "ago", "keys", "values"}

// arguments that a parameter of each kind is tried with.
var tried = map[reflect.Kind][]string{
	reflect.String: {`"a-b"`, `"A b,c\n<d> \"e\""`, `""`, `"12"`, `"[1,{\"a\":null}]"`, `"2006-01-02"`},
	reflect.Int:    {"0", "1", "3", "-2"}, reflect.Bool: {"true", "false"}, reflect.Float64: {"0.5"},
	reflect.Struct: {"$.t"}, reflect.Map: {`$.m`, `(dict)`, `(dict "a" 1 "n" (dict "b" 2))`},
	reflect.Interface: {`"x,y"`, "3", "2.5", "nil", "$.m", "$.l", "$.null", `(list 1 "b" nil)`, "(now | date \"2006\")", `$.t`, "true"},
}

// TestSameResults: every function, measured, returns what it does unmeasured,
// and so do texts that are printed.
func TestSameResults(t *testing.T) {
	texts := []string{
		"${ .null }", "${ .m }", "${ .l }", "${ .t }", "${ .t.Format `2006` }", "${ `2006` | .t.Format }", "${ with .t.Format `2006` }${ . }${ end }", "${ .m.n.b | print }",
		"${ if and .null .m }a${ else if or .null .m }b${ else }c${ end }", "${ range $i, $x := .l }${ $i }${ $x }${ else }none${ end }", "${ range 3 }${ . }${ end }",
		"${ define `x` }<${ . }>${ end }${ template `x` .m }${ block `y` 1 }${ . }${ end }", "${ range .l }${ continue }${ break }${ end }x", "${ $x := 1 }${ $x = 2 }${ $x }",
		"a ${- /* ${ } ` */ -} b ${- print `}` -} c", "${ len .l }${ index .l 1 }${ slice `abc` 1 2 }${ eq 1 1 2 }${ not .null }", "${ .none }", "${ nil }", "${ `a` | printf `%s` }", "${ (semver `1.2.3`).Major }",
	}
	for name, f := range functions {
		if slices.Contains(Refused, name) || slices.Contains(changing, name) {
			continue
		}
		ft := reflect.TypeOf(f)
		for n := range 24 {
			var args []string
			for i := range ft.NumIn() {
				in, more := ft.In(i), 1
				if ft.IsVariadic() && i == ft.NumIn()-1 {
					in, more = in.Elem(), n%4
				}
				for range more {
					all := tried[in.Kind()]
					args = append(args, all[(n+i*7+len(args)*5)%len(all)])
				}
			}
			texts = append(texts, "${ "+name+" "+strings.Join(args, " ")+" }")
		}
	}
	data := map[string]any{
		"m": map[string]any{"a": "b", "n": map[string]any{"b": 2.0}}, "l": []any{"x", 1.0, nil}, "null": nil, "t": time.Unix(0, 0).UTC(),
	}
	for _, text := range texts {
		want, wantErr := unmeasured(text, data)
		got, err := newMeter(full).execute("x", text, data)
		if wantErr != nil {
			want = ""
		}
		if err != nil {
			got = ""
		}
		if got != want || errorText(err) != errorText(wantErr) {
			t.Errorf("%s\nwant %q %v\ngot  %q %v", text, want, wantErr, got, err)
		}
	}
}

func errorText(err error) string { return fmt.Sprint(err) }

func unmeasured(text string, data any) (string, error) {
	t, err := template.New("x").Funcs(sprig.TxtFuncMap()).Option("missingkey=error").Delims("${", "}").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = t.Execute(&out, data)
	return out.String(), err
}
