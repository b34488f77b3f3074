package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// A label that Kubernetes refuses is an error that names the flag and the part that
// is wrong.
func TestLabelFlag(t *testing.T) {
	cases := map[string]struct {
		args []string
		want map[string]string
		fail string // what the error has
	}{
		"Two":        {args: []string{"-l", "env=prod,example.com/a=b"}, want: map[string]string{"env": "prod", "example.com/a": "b"}},
		"Repeated":   {args: []string{"-l", "env=prod,a=b", "-l", "env=dev"}, want: map[string]string{"env": "dev", "a": "b"}},
		"NoValue":    {args: []string{"-l", "env="}, want: map[string]string{"env": ""}},
		"Nothing":    {args: []string{"-l", ""}},
		"CommaLast":  {args: []string{"-l", "env=prod,"}, fail: `"env=prod," for "-l, --label" flag: nothing stands after the last comma`},
		"CommaFirst": {args: []string{"-l", ",env=prod"}, fail: "nothing stands before the first comma"},
		"CommaTwice": {args: []string{"-l", "env=prod,,a=b"}, fail: "nothing stands between commas 1 and 2"},
		"NoSign":     {args: []string{"-l", "a=b,env"}, fail: `"env" has no =, want KEY=VALUE`},
		"NoKey":      {args: []string{"-l", "=prod"}, fail: `"=prod" has no key, want KEY=VALUE`},
		"Key":        {args: []string{"-l", "a b=c"}, fail: `key "a b": name part must consist of`},
		"Slashes":    {args: []string{"-l", "x/y/z=1"}, fail: `key "x/y/z": a `},
		"Value":      {args: []string{"-l", "a=b,env=-x"}, fail: `value "-x" of "env": a valid label must be`},
		"TwoSigns":   {args: []string{"-l", "env=a=b"}, fail: `value "a=b" of "env": a valid label must be`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got map[string]string
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			LabelsVar(fs, &got, "label", "l", "labels, `k=v,...`")
			err := fs.Parse(c.args)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("want an error with %s, got %v", c.fail, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v\n-want +got\n%s", err, diff)
			}
		})
	}
}
