package redact

import "regexp"

var (
	// urlCredentials are user and password in a URL.
	urlCredentials = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/"'<>]+@`)
	// otherCredentials are private keys in PEM, tokens of Kubernetes and other JWTs, and headers with a token.
	otherCredentials = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
		`|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|(?i:\bBearer )[\w.~+/=-]{8,}`)
)

// LeftOut stands where a credential was.
const LeftOut = "(left out)"

// Credentials returns a text without what is recognized as a credential: user and password in
// URLs, private keys and tokens.
func Credentials(text string) string {
	return otherCredentials.ReplaceAllLiteralString(urlCredentials.ReplaceAllString(text, "${1}"+LeftOut+"@"), LeftOut)
}
