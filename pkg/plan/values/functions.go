package values

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxItems is how long a list, or a text, may be that a template asks for by
// number.
const maxItems = 100_000

// maxNumber is how far from 0 such a list may reach.
const maxNumber = 1_000_000_000

// functions are sprig's for texts, without those that reach out of the
// template. The manager renders what anybody with a repository writes, so those
// that make much of a number, or take long, are replaced by those of a meter.
var functions = without(sprig.TxtFuncMap(), "env", "expandenv", "include", "tpl", "getHostByName")

func init() { // those of text/template that make texts of texts, so that they are measured too
	functions["print"], functions["printf"], functions["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
}

// slow are the functions that take a hundredth of a second or more.
var slow = []string{
	"bcrypt", "derivePassword", "genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey",
	"genSignedCert", "genSignedCertWithKey", "htpasswd",
}

func without(all template.FuncMap, names ...string) template.FuncMap {
	for _, name := range names {
		delete(all, name)
	}
	return all
}

// functions are those that a text may call: all whose names stand in it, the ones
// that are measured by this meter. To know all of them takes longer than most
// templates do.
func (m *meter) functions(text string) template.FuncMap {
	out := template.FuncMap{}
	start := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && inWord(text[i]) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			if f, ok := functions[text[start:i]]; ok {
				out[text[start:i]] = f
			}
			start = -1
		}
	}
	for name := range out {
		if f := m.replacement(name); f != nil {
			out[name] = f
		}
	}
	return out
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// replacement is a function as it is measured, nil for one that need not be.
func (m *meter) replacement(name string) any {
	if slices.Contains(slow, name) {
		return m.measured(functions[name])
	}
	switch inner := functions[name].(type) {
	case func(int) string: // randAlpha and the like
		return func(n int) (string, error) { return checked(m.amount(name, n), func() string { return inner(n) }) }
	case func(int) (string, error): // randBytes
		return func(n int) (string, error) {
			if err := m.amount(name, n); err != nil {
				return "", err
			}
			return inner(n)
		}
	case func(int) []int: // until
		return func(n int) ([]int, error) { return checked(m.steps(name, 0, n, 1), func() []int { return inner(n) }) }
	case func(int, int, int) []int: // untilStep
		return func(start, stop, step int) ([]int, error) {
			return checked(m.steps(name, start, stop, step), func() []int { return inner(start, stop, step) })
		}
	case func(...int) string: // seq
		return func(params ...int) (string, error) {
			return checked(m.sequence(params), func() string { return inner(params...) })
		}
	}
	return m.growing(name)
}

// growing is a function that makes larger texts of texts, as it is measured; nil
// for another.
func (m *meter) growing(name string) any {
	switch inner := functions[name].(type) {
	case func(int, string) string: // others of this kind make nothing of their number
		switch name {
		case "repeat":
			return func(n int, s string) (string, error) {
				return checked(m.makes(name, n, len(s)), func() string { return inner(n, s) })
			}
		case "indent", "nindent":
			return func(n int, s string) (string, error) {
				return checked(m.makes(name, n, strings.Count(s, "\n")+1), func() string { return inner(n, s) })
			}
		}
	case func(...any) string: // print, println, cat
		return func(args ...any) (string, error) {
			return checked(m.makes(name, 1, textIn(args)), func() string { return inner(args...) })
		}
	case func(string, ...any) string: // printf
		return func(format string, args ...any) (string, error) {
			verbs := max(1, strings.Count(format, "%"))
			return checked(m.makes(name, verbs, textIn(args)), func() string { return inner(format, args...) })
		}
	case func(string, string, string) string: // replace
		return func(old, text, s string) (string, error) {
			return checked(m.makes(name, strings.Count(s, old), len(text)), func() string { return inner(old, text, s) })
		}
	}
	return nil
}

// checked calls f unless there is an error.
func checked[T any](err error, f func() T) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return f(), nil
}

// makes fails if n times so many bytes are too many.
func (m *meter) makes(function string, n, bytes int) error {
	if n < 0 || bytes > 0 && n > maxRenderedBytes/bytes {
		return fmt.Errorf("%s: %d times %d bytes are not possible", function, n, bytes)
	}
	return m.spend(n * bytes / bytesPerStep)
}

// textIn is how many bytes of text are among arguments.
func textIn(args []any) int {
	n := 0
	for _, a := range args {
		if s, ok := a.(string); ok {
			n += len(s)
		}
	}
	return n
}

// measured is a slow function that may be called a few times only. It has an
// error as second result, whether f has one or not.
func (m *meter) measured(f any) any {
	inner := reflect.ValueOf(f)
	t := inner.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	failure := reflect.TypeFor[error]()
	outer := reflect.FuncOf(in, []reflect.Type{t.Out(0), failure}, t.IsVariadic())
	return reflect.MakeFunc(outer, func(args []reflect.Value) []reflect.Value {
		if err := m.spend(slowSteps); err != nil {
			return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		out := inner.Call(args)
		if len(out) == 1 {
			out = append(out, reflect.Zero(failure))
		}
		return out
	}).Interface()
}

// sequence checks the arguments of seq: END, START END, or START STEP END.
func (m *meter) sequence(params []int) error {
	switch len(params) {
	case 1:
		return m.steps("seq", 1, params[0], 1)
	case 2:
		return m.steps("seq", params[0], params[1], 1)
	case 3:
		return m.steps("seq", params[0], params[2], params[1])
	}
	return nil
}

// steps fails if going from start to stop takes too many steps.
func (m *meter) steps(function string, start, stop, step int) error {
	for _, n := range []int{start, stop, step} {
		if n > maxNumber || n < -maxNumber {
			return fmt.Errorf("%s: %d is too far from 0", function, n)
		}
	}
	if step == 0 {
		step = 1
	}
	return m.amount(function, abs(stop-start)/abs(step))
}

func (m *meter) amount(function string, n int) error {
	if n > maxItems {
		return fmt.Errorf("%s: %d is more than %d", function, n, maxItems)
	}
	return m.spend(max(n, 0) / bytesPerStep)
}

func abs(n int) int { return max(n, -n) }
