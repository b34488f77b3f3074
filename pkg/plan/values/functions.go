package values

import (
	"fmt"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// maxItems is how long a list, or a text, may be that a template asks for by
// number.
const maxItems = 100_000

// maxNumber is how far from 0 such a list may reach.
const maxNumber = 1_000_000_000

// functions are sprig's for texts, without those that reach out of the
// template, and with limits for those that make much of a number: the manager
// renders what anybody with a repository writes.
var functions = limited(sprig.TxtFuncMap())

func limited(all template.FuncMap) template.FuncMap {
	for _, name := range []string{"env", "expandenv", "include", "tpl", "getHostByName"} {
		delete(all, name)
	}
	for _, name := range []string{"randAlphaNum", "randAlpha", "randAscii", "randNumeric"} {
		inner := all[name].(func(int) string)
		all[name] = func(n int) (string, error) {
			if err := amount(name, n); err != nil {
				return "", err
			}
			return inner(n), nil
		}
	}
	for _, name := range []string{"indent", "nindent"} {
		inner := all[name].(func(int, string) string)
		all[name] = func(n int, s string) (string, error) {
			if err := amount(name, n); err != nil {
				return "", err
			}
			return inner(n, s), nil
		}
	}
	repeat := all["repeat"].(func(int, string) string)
	all["repeat"] = func(n int, s string) (string, error) {
		if n < 0 || len(s) > 0 && n > maxRenderedBytes/len(s) {
			return "", fmt.Errorf("repeat: %d times is not possible", n)
		}
		return repeat(n, s), nil
	}
	until := all["until"].(func(int) []int)
	all["until"] = func(n int) ([]int, error) {
		if err := steps("until", 0, n, 1); err != nil {
			return nil, err
		}
		return until(n), nil
	}
	untilStep := all["untilStep"].(func(int, int, int) []int)
	all["untilStep"] = func(start, stop, step int) ([]int, error) {
		if err := steps("untilStep", start, stop, step); err != nil {
			return nil, err
		}
		return untilStep(start, stop, step), nil
	}
	seq := all["seq"].(func(...int) string)
	all["seq"] = func(params ...int) (string, error) {
		if err := sequence(params); err != nil {
			return "", err
		}
		return seq(params...), nil
	}
	return all
}

// sequence checks the arguments of seq: END, START END, or START STEP END.
func sequence(params []int) error {
	switch len(params) {
	case 1:
		return steps("seq", 1, params[0], 1)
	case 2:
		return steps("seq", params[0], params[1], 1)
	case 3:
		return steps("seq", params[0], params[2], params[1])
	}
	return nil
}

// steps fails if going from start to stop takes too many steps.
func steps(function string, start, stop, step int) error {
	for _, n := range []int{start, stop, step} {
		if n > maxNumber || n < -maxNumber {
			return fmt.Errorf("%s: %d is too far from 0", function, n)
		}
	}
	if step == 0 {
		step = 1
	}
	return amount(function, abs(stop-start)/abs(step))
}

func amount(function string, n int) error {
	if n > maxItems {
		return fmt.Errorf("%s: %d is more than %d", function, n, maxItems)
	}
	return nil
}

func abs(n int) int { return max(n, -n) }
