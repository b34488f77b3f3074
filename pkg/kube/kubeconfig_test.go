package kube

import (
	"strings"
	"testing"
)

func TestParseKubeconfig(t *testing.T) {
	good, err := Access{URL: "https://manager:6443", Token: "secret-token", Namespace: "a"}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	user := func(fields string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
			"clusters: [{name: c, cluster: {server: https://x}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"users: [{name: u, user: {" + fields + "}}]\n"
	}
	cases := map[string]struct {
		why, text, wantErr string
	}{
		"OwnForm":   {why: "what we write we read", text: string(good)},
		"Embedded":  {why: "a token in the file is fine", text: user("token: secret-token")},
		"Exec":      {why: "would run a program of the Secret's author", text: user("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}"), wantErr: "not allowed"},
		"TokenFile": {why: "would read a file of this machine", text: user("tokenFile: /etc/passwd"), wantErr: "not allowed"},
		"KeyFile":   {why: "would read a file of this machine", text: user("client-key: /etc/passwd"), wantErr: "not allowed"},
		"CAFile":    {why: "would read a file of this machine", text: strings.Replace(user("token: x"), "server: https://x", "server: https://x, certificate-authority: /etc/passwd", 1), wantErr: "not allowed"},
		"Garbage":   {why: "the error must not quote what stands there", text: "secret-token: [", wantErr: "not YAML"},
		"Empty":     {why: "names no cluster", text: "", wantErr: "empty"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := ParseKubeconfig([]byte(c.text))
			switch {
			case c.wantErr == "" && err != nil:
				t.Errorf("%s: %v", c.why, err)
			case c.wantErr == "" && cfg.BearerToken != "secret-token":
				t.Errorf("%s: token lost", c.why)
			case c.wantErr != "" && (err == nil || !strings.Contains(err.Error(), c.wantErr)):
				t.Errorf("%s: want %q, got %v", c.why, c.wantErr, err)
			case err != nil && strings.Contains(err.Error(), "secret-token"):
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

// A kubeconfig in a Secret is foreign input: reading it neither panics nor
// lets a program or a file through.
func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: Config\nusers: [{name: u, user: {exec: {command: sh}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseKubeconfig(data)
		if err == nil && (cfg.ExecProvider != nil || cfg.BearerTokenFile != "" || cfg.CAFile != "" || cfg.KeyFile != "" || cfg.CertFile != "") {
			t.Errorf("a program or file got through: %+v", cfg)
		}
	})
}
