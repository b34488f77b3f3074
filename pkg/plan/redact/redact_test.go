package redact

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	values := map[string]any{
		"password": "canary-5f2d!", "short": "abc", "name": "web", "flag": "true", "pin": float64(12345678), "port": float64(8080),
		"nested": map[string]any{"list": []any{"in a list", map[string]any{"url": "postgres"}}},
		"key":    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----\n",
		"public": "prod",
	}
	r := New([]string{"prod"}, values, nil)
	cases := map[string]struct{ why, in, want string }{
		"Plain":     {"an API server repeats a value", `metadata.labels: Invalid value: "canary-5f2d!": a label`, `metadata.labels: Invalid value: "***": a label`},
		"Base64":    {"a Secret holds it encoded", "data: " + base64.StdEncoding.EncodeToString([]byte("canary-5f2d!")), "data: ***"},
		"Embedded":  {"punctuation separates", "http://user:canary-5f2d!@host", "http://user:***@host"},
		"InList":    {"lists too", "got in a list here", "got *** here"},
		"Number":    {"long numbers", "pin 12345678", "pin ***"},
		"Port":      {"short ones are ports", "port 8080 is taken", "port 8080 is taken"},
		"Short":     {"words of three letters stay", "abc web true", "abc web true"},
		"Kept":      {"names that are known anyway", "Deployment prod/web", "Deployment prod/web"},
		"PartOfOne": {"part of another word", "postgresql and postgres", "postgresql and ***"},
		"LongPart":  {"a template glues something to a secret", "got xcanary-5f2d!y", "got x***y"},
		"Quoted":    {"a value of several lines, quoted", `Invalid value: "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----\n"`, `Invalid value: "***"`},
		"Collapsed": {"or in one line", "-----BEGIN KEY----- MIIEvQIBADANBgkqhkiG9w0 -----END KEY-----", "***"},
		"Line":      {"or only one of its lines", "near MIIEvQIBADANBgkqhkiG9w0", "near ***"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := r.Text(c.in); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
	if got := (Redactor{}).Text("canary-5f2d!"); got != "canary-5f2d!" {
		t.Errorf("the zero Redactor changed %q", got)
	}
}

// FuzzText hides a value by itself in any text.
func FuzzText(f *testing.F) {
	f.Add("canary-5f2d!", "before ", " after")
	f.Add("日本語の秘密", "(", ")")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(strings.TrimSpace(secret)) < shortest || strings.Contains(Hidden, secret) {
			return
		}
		r := New(nil, map[string]any{"v": secret})
		if secret == "true" || secret == "false" || secret == "null" {
			return
		}
		got := r.Text(before + " " + secret + " " + after)
		if strings.Contains(got, " "+secret+" ") && !strings.Contains(Hidden, secret) {
			t.Errorf("%q still shows %q", got, secret)
		}
	})
}
