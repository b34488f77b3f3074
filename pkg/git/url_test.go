package git

import "testing"

// host:path is SSH, as in rancher/fleet. A port in the place of the path is a web
// address whose scheme was forgotten.
func TestURLWithoutScheme(t *testing.T) {
	for raw, want := range map[string]string{
		"git.example.com:org/app":        "",
		"git@git.example.com:org/app":    "",
		"git@git.example.com:2222/app":   "",
		"git.example.com:2024-plans/app": "",
		"127.0.0.1:41019/p.git":          "repository URL has a port and no scheme: did you forget https://? For SSH write ssh://HOST:PORT/PATH or USER@HOST:PATH",
		"git.example.com/org/app":        "repository URL must be https://…, http://…, ssh://… or user@host:path: did you forget https://?",
		"/srv/app":                       "repository URL must be https://…, http://…, ssh://… or user@host:path",
		"./app":                          "repository URL must be https://…, http://…, ssh://… or user@host:path",
		"file:///srv/app":                "repository URL must be https://…, http://…, ssh://… or user@host:path",
	} {
		switch ep, err := parseURL(raw); {
		case want != "":
			wantFault(t, err, ReasonInvalidURL, want)
		case err != nil || ep.scheme != "ssh":
			t.Errorf("%s: want SSH, got %q, %v", raw, ep.scheme, err)
		}
	}
}
