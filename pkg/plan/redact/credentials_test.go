package redact

import "testing"

// Credentials in URLs are left out, the rest of a text stays.
func TestCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"fetch https://ana:secret@git.example/a: no":                              "fetch https://(left out)@git.example/a: no",
		"https://token@git.example":                                               "https://(left out)@git.example",
		"https://ana:p@ss@git.example/x@y":                                        "https://(left out)@git.example/x@y",
		"https://git.example/a@v1, mail ana@x.example":                            "https://git.example/a@v1, mail ana@x.example",
		"git@git.example:a.git":                                                   "git@git.example:a.git",
		"Authorization: Bearer abcdefgh12345, next":                               "Authorization: (left out), next",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2ln end":                  "token (left out) end",
		"a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b": "a (left out) b",
		"-----BEGIN PRIVATE KEY-----\nMII":                                        "(left out)",
	} {
		if got := Credentials(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}
