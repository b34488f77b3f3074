package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// Charts come from a repository with a password and a private authority, and
// the password goes only where the regular expression allows it.
func TestApplyRemoteChart(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{
		Charts: []webtest.Chart{{Name: "app", Version: "1.2.0", Files: map[string]string{
			"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n",
		}}},
		Path: "/charts", Username: "ci", Password: "correct-horse", TLS: true,
	})
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("app/fleet.yaml", "helm: {repo: '"+s.URL+"', chart: app, version: ^1.0.0}\n")
	write("password", "correct-horse\n")
	write("ca.pem", string(s.CA))
	write("by-path.yaml", "app:\n  username: ci\n  password: correct-horse\n  caBundle: "+base64.StdEncoding.EncodeToString(s.CA)+"\n")
	access := []string{"--username", "ci", "--password-file", "password", "--cacerts-file", "ca.pem"}
	cases := map[string]struct {
		why  string
		args []string
		code int
		says string
		sent bool // the password left the program
	}{
		"Allowed":  {args: append(access, "--helm-repo-url-regex", `https://127\.0\.0\.1`), sent: true},
		"ByPath":   {args: []string{"--helm-credentials-by-path-file", "by-path.yaml", "--helm-repo-url-regex", `https://127\.0\.0\.1`}, sent: true},
		"NoRegex":  {why: "without an expression no host gets the password", args: access, code: 4, says: "note: the credentials for charts are sent nowhere"},
		"NotThis":  {why: "another host is meant", args: append(access, "--helm-repo-url-regex", "https://charts.example"), code: 4, says: "app/fleet.yaml"},
		"NoCA":     {why: "an authority that is not configured is not trusted", args: []string{"--helm-repo-url-regex", `https://127\.0\.0\.1`}, code: 4, says: "app/fleet.yaml"},
		"Insecure": {why: "unless any certificate will do", args: []string{"--helm-insecure-skip-tls", "--username", "ci", "--password-file", "password", "--helm-repo-url-regex", `https://127\.0\.0\.1`}, sent: true},
		"Offline":  {why: "nothing is downloaded", args: append(access, "--helm-repo-url-regex", `https://127\.0\.0\.1`, "--offline"), code: 4, says: "[offline]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			requests, sent := s.Requests(""), len(s.Authorizations())
			out, notes, err := applyDir(t, dir, append([]string{"-o", "-", "--commit", "c1"}, append(c.args, "x", "app")...)...)
			if got := cli.ExitCode(err, false); got != c.code || !strings.Contains(notes, c.says) {
				t.Fatalf("%s: want exit code %d and %q, got %d: %v\n%s", c.why, c.code, c.says, got, err, notes)
			}
			if err == nil && !strings.Contains(out, "/app/templates/cm.yaml") && !strings.Contains(out, "templates/cm.yaml") {
				t.Errorf("the chart's files are missing:\n%s", out)
			}
			if strings.Contains(notes+out, "correct-horse") {
				t.Error("the password is shown")
			}
			if got := len(s.Authorizations()) > sent; got != c.sent {
				t.Errorf("%s: want the password sent: %t, got %t", c.why, c.sent, got)
			}
			if name == "Offline" && s.Requests("") != requests {
				t.Errorf("%d requests were sent", s.Requests("")-requests)
			}
		})
	}
}

// Mistakes in flags and their files are said before anything is read.
func TestApplyRefusesFlags(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cm.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		env  map[string]string
		args []string
		says string
	}{
		"PasswordAlone":   {args: []string{"--password-file", "cm.yaml"}, says: "--password-file goes with --username"},
		"NoPasswordFile":  {args: []string{"--username", "ci", "--password-file", "none"}, says: "none"},
		"BadCA":           {args: []string{"--cacerts-file", "cm.yaml"}, says: "CA bundle"},
		"BadKey":          {args: []string{"--ssh-privatekey-file", "cm.yaml"}, says: "SSH key"},
		"BadByPath":       {args: []string{"--helm-credentials-by-path-file", "cm.yaml"}, says: "secrets-path.yaml"},
		"BadRegex":        {args: []string{"--helm-repo-url-regex", "("}, says: "--helm-repo-url-regex"},
		"BadConcurrency":  {args: []string{"--bundle-creation-max-concurrency", "0"}, says: "want a number from 1"},
		"BadEnvironment":  {env: map[string]string{"FLEET_BUNDLE_CREATION_MAX_CONCURRENCY": "many"}, says: "FLEET_BUNDLE_CREATION_MAX_CONCURRENCY"},
		"BadRetries":      {env: map[string]string{"FLEET_APPLY_CONFLICT_RETRIES": "-1"}, says: "FLEET_APPLY_CONFLICT_RETRIES"},
		"TwoKindsOfScan":  {args: []string{"-b", "x.yaml", "--driven-scan"}, says: "one without the other"},
		"TwoOptionsFiles": {args: []string{"--driven-scan", "a:b:c"}, says: "want BASE or BASE:OPTIONSFILE"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			_, notes, err := applyDir(t, dir, append([]string{"-o", "-", "x"}, c.args...)...)
			if err == nil || cli.ExitCode(err, false) != 1 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %v\n%s", c.says, err, notes)
			}
		})
	}
}

// Programs that ran rancher/fleet's command line read errors as JSON.
func TestReportError(t *testing.T) {
	for want, value := range map[string]string{
		"error: no \"x\"\n": "", "{\"fleetErrorMessage\":\"no \\\"x\\\"\",\"level\":\"fatal\",\"msg\":\"Fleet cli failed\"}\n": "True",
	} {
		var out bytes.Buffer
		client.ReportError(&out, errors.New(`no "x"`), func(string) string { return value })
		if out.String() != want {
			t.Errorf("want %q, got %q", want, out.String())
		}
	}
}
