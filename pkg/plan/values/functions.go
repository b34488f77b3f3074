package values

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// allowed are the names of sprig's functions for texts that templates may call.
// A function that sprig adds is not among them until it has a rule: a result
// that is larger than what it gets, or more time, may need one.
var allowed = strings.Fields(`
	abbrev abbrevboth add add1 add1f addf adler32sum ago all any append atoi b32dec b32enc b64dec b64enc base biggest
	camelcase cat ceil chunk clean coalesce compact concat contains date dateInZone dateModify date_in_zone date_modify
	decryptAES deepCopy deepEqual default dict dig dir div divf duration durationRound empty encryptAES ext fail first
	float64 floor fromJson get has hasKey hasPrefix hasSuffix hello htmlDate htmlDateInZone indent initial initials int
	int64 isAbs join kebabcase keys kindIs kindOf last list lower max maxf merge mergeOverwrite min minf mod mul mulf
	mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst mustFromJson mustHas mustInitial mustLast
	mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll
	mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToDate mustToJson mustToPrettyJson
	mustToRawJson mustUniq mustWithout must_date_modify nindent nospace now omit osBase osClean osDir osExt osIsAbs pick
	pluck plural prepend push quote randAlpha randAlphaNum randAscii randBytes randInt randNumeric regexFind regexFindAll
	regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace rest reverse round semver
	semverCompare seq set sha1sum sha256sum sha512sum shuffle slice snakecase sortAlpha split splitList splitn squote sub
	subf substr swapcase ternary title toDate toDecimal toJson toPrettyJson toRawJson toString toStrings trim trimAll
	trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf uniq unixEpoch unset until untilStep untitle upper
	urlJoin urlParse uuidv4 values without wrap wrapWith`)

// Refused are sprig's functions that templates of values may not call, though
// an earlier version had them: each call takes a tenth of a second or more for
// each cluster.
var Refused = strings.Fields(`bcrypt buildCustomCert derivePassword genCA genCAWithKey genPrivateKey genSelfSignedCert
	genSelfSignedCertWithKey genSignedCert genSignedCertWithKey htpasswd`)

// functions are all that a template may call, by name, unmeasured.
var functions = knownFunctions()

func knownFunctions() template.FuncMap {
	all, out := sprig.TxtFuncMap(), template.FuncMap{}
	for _, name := range allowed {
		out[name] = all[name]
	}
	// Those of text/template that make texts, so that they are measured too.
	out["print"], out["printf"], out["println"] = fmt.Sprint, fmt.Sprintf, fmt.Sprintln
	out["html"], out["js"], out["urlquery"] = template.HTMLEscaper, template.JSEscaper, template.URLQueryEscaper
	for _, name := range Refused {
		out[name] = refusedFunction(name)
	}
	return out
}

func refusedFunction(name string) func(...any) (any, error) {
	return func(...any) (any, error) {
		return nil, fmt.Errorf("templates of values may not call %s, which takes long for each cluster: "+
			"call it in a template of the chart, or take the result from a Secret (helm.valuesFrom)", name)
	}
}

// functions are those that a text may call, measured: all whose names stand in
// it. To know all of them takes longer than most templates do.
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
			name := text[start:i]
			if f, ok := functions[name]; ok && out[name] == nil {
				out[name] = m.measured(name, f)
			}
			start = -1
		}
	}
	return out
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// measured is a function with an error as second result, whether f has one or
// not. It fails before f is called with what would make too much, and after.
func (m *meter) measured(name string, f any) any {
	inner := reflect.ValueOf(f)
	t := inner.Type()
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	failure := reflect.TypeFor[error]()
	outer := reflect.FuncOf(in, []reflect.Type{t.Out(0), failure}, t.IsVariadic())
	return reflect.MakeFunc(outer, func(values []reflect.Value) []reflect.Value {
		c := call{meter: m, name: name, args: callArguments(values, t.IsVariadic())}
		err := c.chargeCall()
		var out []reflect.Value
		if err == nil {
			if t.IsVariadic() {
				out = inner.CallSlice(values)
			} else {
				out = inner.Call(values)
			}
			err = c.measureResult(out[0].Interface())
		}
		if err != nil {
			return []reflect.Value{reflect.Zero(t.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		if len(out) == 1 {
			out = append(out, reflect.Zero(failure))
		}
		return out
	}).Interface()
}

func callArguments(values []reflect.Value, variadic bool) []any {
	out := make([]any, 0, len(values))
	for i, v := range values {
		if !variadic || i < len(values)-1 {
			out = append(out, v.Interface())
			continue
		}
		for n := range v.Len() {
			out = append(out, v.Index(n).Interface())
		}
	}
	return out
}

// A call is one of a function, with its arguments.
type call struct {
	*meter
	name string
	args []any
	size int // of the arguments, as far as they are measured
}

// growth is how many bytes a function makes of each byte that it gets, at most,
// if no rule says otherwise: a quoted character is written as \U0010ffff.
const growth = 12

// chargeCall takes the steps of a call, and fails if it would make too much.
func (c *call) chargeCall() error {
	if err := c.addSteps(1 + c.texts()/1000); err != nil {
		return err
	}
	if slices.Contains(parts, c.name) {
		return nil
	}
	if isShallow(c.name) {
		return c.addBytes(c.name, c.holderBytes())
	}
	var err error
	if c.size, err = c.sizeOf(c.name, c.args...); err != nil {
		return err
	}
	bytes := times(c.size, growth)
	if rule, ok := rules[c.name]; ok {
		steps := 0
		if bytes, steps, err = rule(c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := c.addSteps(steps); err != nil {
			return err
		}
	}
	return c.checkRoom(c.name, bytes)
}

// measureResult measures what a call has returned.
func (c *call) measureResult(result any) error {
	if slices.Contains(parts, c.name) {
		return nil
	}
	bytes, err := c.sizeOf(c.name, result)
	if err != nil || isShallow(c.name) {
		return err
	}
	return c.addBytes(c.name, bytes)
}

// texts is how many bytes of text are among the arguments.
func (c *call) texts() (n int) {
	for _, a := range c.args {
		if s, ok := a.(string); ok {
			n += len(s)
		}
	}
	return n
}
