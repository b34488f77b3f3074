package values_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// Calls of functions that make much of little; %v is replaced by expressions.
var calls = strings.Split(`concat %v %v; join %v %v; toJson %v; toPrettyJson %v; b64enc %v; list %v %v; append %v %v; prepend %v %v; dict "a" %v "b" %v; set $d "k" %v;
	set $d %v $d; merge $d (dict "a" %v); mergeOverwrite $d (dict "a" %v "b" $d); regexReplaceAll "a*b|." (print %v) %v;
	regexReplaceAll ".+" (print %v) "$0$0$0"; regexFindAll "(a|b)*c|." (print %v) -1; regexSplit "" (print %v) -1; html %v %v; js %v;
	urlquery %v; repeat %n (print %v); indent %n (print %v); nindent %n (print %v); printf "%s%[1]q%d" %v %v;
	printf "%1000000000d%999999d" %n %n; printf "%*v" %n %v; until %n; untilStep 0 %n 1; seq 0 1 %n; splitList "" (print %v);
	split "," (print %v); print %v %v; println %v; cat %v %v; quote %v %v; squote %v; replace "a" %v (print %v); wrapWith 1 %v (print %v);
	uniq %v; without %v %v; chunk 1 %v; deepCopy %v; fromJson (toJson %v); fromJson (print %v); sortAlpha %v; toStrings %v; pluck "a" $d $d;
	values $d; keys $d; pick $d "a"; omit $d "a"; deepEqual %v %v; has %v %v; now.Format (print %v); dateModify (print %v) now;
	semver (print %v); randAlphaNum %n; sha512sum (print %v); b64dec (print %v); snakecase (print %v); default %v %v; ternary %v %v true;
	coalesce %v; first %v; rest %v; reverse %v; trunc %n (print %v); shuffle (print %v); mulf %n %n; add %n %n; tuple %v %v %v`, ";")

// A composer makes up templates.
type composer struct {
	*rand.Rand
	left int // calls
}

func (c *composer) expression() string {
	if c.left--; c.left < 0 || c.IntN(3) == 0 {
		return []string{"$x", "$y", "$d", ".", "1", `"a"`, `"<,b\n"`, "$.ClusterValues", "$l"}[c.IntN(9)]
	}
	text := strings.TrimSpace(calls[c.IntN(len(calls))])
	for strings.Contains(text, "%v") || strings.Contains(text, "%n") {
		text = strings.Replace(text, "%n", []string{"2", "3", "50", "1000", "100000", "1000000000", "-1", "$n"}[c.IntN(8)], 1)
		if before, after, ok := strings.Cut(text, "%v"); ok {
			text = before + "(" + c.expression() + ")" + after
		}
	}
	return text
}

func (c *composer) body(depth int) string {
	var b strings.Builder
	for range 1 + c.IntN(3) {
		inner := ""
		if depth < 3 {
			inner = c.body(depth + 1)
		}
		switch c.IntN(8) {
		case 0, 1:
			fmt.Fprintf(&b, "${ $x = %s }", c.expression())
		case 2:
			fmt.Fprintf(&b, "${ $y = %s }", c.expression())
		case 3:
			fmt.Fprintf(&b, "${ %s }", c.expression())
		case 4:
			fmt.Fprintf(&b, "${ range %s }%s${ else }%s${ end }", []string{"until 60", "1000000000000", "until 100000", "$x", "$d"}[c.IntN(5)], inner, inner)
		case 5:
			fmt.Fprintf(&b, "${ with %s }%s${ end }", c.expression(), inner)
		case 6:
			fmt.Fprintf(&b, "${ template \"t%d\" %s }", c.IntN(2), c.expression())
		case 7:
			fmt.Fprintf(&b, "${ if %s }%s${ else }%s${ end }", c.expression(), inner, inner)
		}
	}
	return b.String()
}

const variables = "${ $x := `ab` }${ $y := list 1 `a` }${ $l := until 100 }${ $n := 7 }${ $d := dict `a` $l }"

// FuzzLimits composes templates of what templates may call, and holds them to
// the memory and the time that one rendering may take.
func FuzzLimits(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		c := composer{Rand: rand.New(rand.NewPCG(seed, seed)), left: 60}
		text := fmt.Sprintf("${ define \"t0\" }%s%s${ end }${ define \"t1\" }%s%s${ end }%s%s", variables, c.body(1), variables, c.body(2), variables, c.body(0))
		o := fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: map[string]string{"x": text}}}
		var err error
		begun := time.Now()
		most := peak(func() { _, err = values.Render(o, east, nil) })
		if most > 96<<20 { // with what is not collected yet
			t.Errorf("%d MiB for %s", most>>20, text)
		}
		if took := time.Since(begun); took > 10*time.Second { // twice a second, on a machine that does much else
			t.Errorf("%s for %s", took, text)
		}
		if errors.Is(err, values.ErrLimit) && strings.Contains(err.Error(), "fleetStep") {
			t.Errorf("%v for %s", err, text)
		}
	})
}
