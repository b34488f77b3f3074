package values_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
	"github.com/fleetworkspace/fleet/test/raced"
)

// doubling is a template that makes a variable twice as large, sixty times.
func doubling(first, again string) string {
	return fmt.Sprintf("${ $x := %s }${ range until 60 }${ $x = %s }${ end }${ $x }", first, again)
}

// greedy are templates that take all memory, or time without end, where nothing
// stops them.
var greedy = map[string]string{
	"Concat":          doubling(`list 1`, `concat $x $x`),
	"ConcatUnused":    `${ $x := list 1 }${ range until 60 }${ $x = concat $x $x }${ end }`,
	"Join":            doubling(`"aaaa"`, `join $x (list 1 2 3)`),
	"JoinList":        doubling(`list "aaaa"`, `list (join "," (concat $x $x))`),
	"ToJson":          doubling(`"<"`, `toJson $x`),
	"ToPrettyJson":    doubling(`list`, `list $x (toPrettyJson $x)`),
	"B64":             doubling(`"aaaa"`, `b64enc $x | b64enc | b64enc`),
	"Nested":          doubling(`list 1`, `list $x $x`),
	"NestedTuple":     doubling(`list 1`, `tuple $x $x`),
	"NestedDict":      doubling(`dict`, `dict "a" $x "b" $x`),
	"Append":          doubling(`list 1`, `append $x $x`),
	"Prepend":         doubling(`list 1`, `mustPrepend $x $x`),
	"Set":             doubling(`dict`, `set (dict "b" $x) "a" $x`),
	"Merge":           doubling(`dict "x" 1`, `merge (dict "a" $x) (dict "b" $x)`),
	"SelfContaining":  `${ $d := dict }${ $_ := set $d "d" $d }${ $d }`,
	"SelfMerged":      `${ $d := dict "x" 1 }${ $_ := mergeOverwrite $d (dict "d" $d) }${ toJson $d }`,
	"SelfContained":   `${ $a := dict }${ $b := dict "a" $a }${ $_ := set $a "b" $b }${ deepCopy $b }`,
	"SharedLater":     `${ $a := dict }${ $b := dict "x" $a "y" $a "z" $a }${ $_ := set $a "k" (repeat 6000000 "x") }${ $b }`,
	"RegexReplace":    doubling(`"a"`, `regexReplaceAll "." $x "aaaaaaaa"`),
	"RegexGroups":     doubling(`"a"`, `regexReplaceAll ".+" $x "${0}${0}${0}${0}"`),
	"RegexFindAll":    `${ range until 1000 }${ $x := repeat 300000 "a" | splitList "" }${ $y := regexFindAll "." (repeat 300000 "a") -1 }${ end }`,
	"RegexStates":     `${ regexMatch (repeat 12 "[ab]{500}") "a" }`,
	"RegexSquare":     `${ range until 1000 }${ $x := regexFindAll "a*b|a" (repeat 100000 "a") -1 }${ end }`,
	"Quote":           doubling(`"\x00"`, `quote $x $x`),
	"Html":            doubling(`"<"`, `html $x $x`),
	"Js":              doubling(`"<"`, `js $x $x`),
	"UrlQuery":        doubling(`"<"`, `urlquery $x $x`),
	"Printf":          doubling(`"a"`, `printf "%s%[1]s%[1]s" $x`),
	"PrintfWidth":     `${ printf "%1000000000d" 1 }${ range until 100 }${ $x := printf "%1000000d%999999d" 1 2 }${ end }`,
	"PrintfStar":      `${ range until 100 }${ $x := printf "%*d%[1]*d" 999999 2 }${ end }`,
	"Print":           doubling(`"a"`, `print $x $x`),
	"PrintMaps":       doubling(`dict "a" "b"`, `dict (print $x) (println $x)`),
	"Wrap":            doubling(`"aaaaaaaa"`, `wrapWith 1 $x $x`),
	"Replace":         doubling(`"aa"`, `replace "a" $x $x`),
	"Repeat":          doubling(`"aa"`, `repeat 1000 $x`),
	"Indent":          doubling("\"a\\n\\n\"", `$x | nindent 1000`),
	"Split":           `${ range until 100 }${ $x := split "" (repeat 1000000 "a") }${ end }`,
	"SplitList":       `${ range until 100 }${ $x := splitList "" (repeat 1000000 "a") }${ end }`,
	"FromJson":        `${ range until 100 }${ $x := fromJson (printf "[%s[]]" (repeat 1000000 "[],")) }${ end }`,
	"Chunk":           `${ range until 100 }${ $x := chunk 1 (until 100000) }${ end }`,
	"Variables":       strings.Repeat("${ $x := repeat 1000000 `a` }", 100),
	"ManyVariables":   strings.Repeat("${ $x := 1 }", 2000),
	"Method":          strings.Repeat("${ $x := now.Format (repeat 100000 `Monday`) }", 100),
	"RangeNumber":     `${ range 1000000000000 }${ end }`,
	"RangeNumberElse": `${ range 1000000000000 }${ else }x${ end }`,
	"RangeContinue":   `${ range 1000000000000 }${ continue }${ end }`,
	"RangeNested":     `${ range 1000 }${ range 1000 }${ range 1000 }${ end }${ end }${ end }`,
	"Recursion":       `${ define "x" }${ template "x" . }${ end }${ template "x" . }`,
	"RecursionWide":   `${ define "x" }${ if lt . 50 }${ template "x" (add1 .) }${ template "x" (add1 .) }${ end }${ end }${ template "x" 1 }`,
	"RecursionDeep":   `${ define "x" }` + strings.Repeat("${ if true }", 90) + `${ template "x" . }` + strings.Repeat("${ end }", 90) + `${ end }${ template "x" . }`,
	"Blocks":          strings.Repeat("${ if 1 }", 4000) + strings.Repeat("${ end }", 4000),
	"ElseIf":          "${ if 0 }" + strings.Repeat("${ else if 0 }", 4000) + "${ end }",
	"Parentheses":     "${ " + strings.Repeat("(", 9000) + "1" + strings.Repeat(")", 9000) + " }",
	"Actions":         strings.Repeat("${.}", 200_000),
	"Code":            "${ list " + strings.Repeat("1 ", 400_000) + "}",
	"Uniq":            `${ $l := until 100000 }${ uniq $l }`,
	"Without":         `${ $l := until 100000 }${ range until 1000 }${ $x := without $l 1000000 }${ end }`,
	"DeepEqual":       `${ $l := until 100000 }${ range until 1000 }${ $x := deepEqual $l (until 100000) }${ end }`,
	"Random":          `${ range until 1000 }${ randAlphaNum 100000 }${ end }`,
	"Decimals":        "${ mulf " + strings.Repeat("1e300 ", 9000) + "}",
	"Text":            `${ range until 100000 }aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa${ end }`,
	"YAMLValues":      `${ "[" }${ range until 100000 }1,${ end }${ "1]" }`,
	"YAMLMaps":        `${ "[" }${ repeat 300000 "{}," }${ "1]" }`,
	"YAMLAliases":     `${ print "[&a " (repeat 100000 "x") ", " (repeat 10000 "*a, ") "1]" }`,
	"YAMLLaughs":      `${ print "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c], &e [*d,*d,*d,*d,*d,*d,*d,*d], [*e,*e,*e,*e,*e,*e,*e,*e]]" }`,
	"Keys":            "many", // see greedyOptions
}

func greedyOptions(name string) fleet.BundleDeploymentOptions {
	templates := map[string]string{"x": greedy[name]}
	if name == "Keys" {
		for i := range 1000 {
			templates[fmt.Sprint("k", i)] = `${ repeat 1000000 "a" }`
		}
	}
	return fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: templates}}
}

// TestRenderLimits: a template that needs more memory or time than one may have
// ends, and the message says where it was and how much that is.
func TestRenderLimits(t *testing.T) {
	for name := range greedy {
		t.Run(name, func(t *testing.T) {
			_, err := values.Render(greedyOptions(name), east, nil)
			var p *reconcile.Terminal
			if !errors.As(err, &p) || p.Reason != values.ReasonTemplate || !errors.Is(err, values.ErrLimit) {
				t.Fatalf("got %v, want ErrLimit", err)
			}
			for _, part := range []string{`cluster "east"`, "templateValues.", "16 MiB", "1 second", "simpler"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
			for _, part := range []string{"fleetStep", "fleetPrinted", "error calling", "\n"} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("%q is in: %v", part, err)
				}
			}
		})
	}
}

// TestLimitSaysWhere: the message names the field of values as a whole, and the
// line of a text.
func TestLimitSaysWhere(t *testing.T) {
	attack := "${ $x := list 1 }${ range until 60 }${ $x = concat $x $x }${ end }"
	for name, c := range map[string]struct {
		helm *fleet.HelmOptions
		want string
	}{
		"Values":         {helm(m{"first": "x", "second": m{"deep": []any{attack}}, "third": "${ .ClusterName }"}), ": values.second: concat makes too much"},
		"TemplateValues": {&fleet.HelmOptions{TemplateValues: map[string]string{"key": "a: 1\nb: " + attack + "\nc: 1"}}, ": templateValues.key, line 2: concat makes too much"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := values.Render(fleet.BundleDeploymentOptions{Helm: c.helm}, east, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

const childOf = "FLEET_TEST_GREEDY"

// TestRenderStaysSmall: a process that may have no more than 2 GiB of addresses, of
// which Go reserves 650 MiB when it starts, renders each greedy template twice at
// once, and lives.
func TestRenderStaysSmall(t *testing.T) {
	if os.Getenv(childOf) != "" {
		renderAll(t)
		return
	}
	if raced.Enabled {
		t.Skip("the race detector reserves more addresses than that")
	}
	shell, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no limit of memory for a process on this system")
	}
	child := exec.CommandContext(t.Context(), shell, "-c", `ulimit -v 2097152 && exec "$0" -test.run '^TestRenderStaysSmall$'`, os.Args[0])
	child.Env = append(os.Environ(), childOf+"=1", "GOGC=100") // as where nothing is set
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out[:min(len(out), 2000)])
	}
}

func renderAll(t *testing.T) {
	for name := range greedy {
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := values.Render(greedyOptions(name), east, nil)
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; !errors.Is(err, values.ErrLimit) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// peak is how much memory is in use at most while f runs, above what was before.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // GOGC must not change what is measured
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		highest := before.HeapAlloc
		for {
			select {
			case <-stop:
				most <- highest
				return
			case <-tick.C:
				runtime.ReadMemStats(&now)
				highest = max(highest, now.HeapAlloc)
			}
		}
	}()
	f()
	close(stop)
	return <-most - before.HeapAlloc
}
