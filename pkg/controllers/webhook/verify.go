package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// byHMAC verifies the HMAC-SHA256 of a body, in hexadecimal digits behind prefix in a
// header, with a key of a Secret.
func byHMAC(header, prefix, key string) func(http.Header, []byte, map[string][]byte) bool {
	return func(h http.Header, body []byte, keys map[string][]byte) bool {
		given, err := hex.DecodeString(strings.TrimPrefix(h.Get(header), prefix))
		mac := hmac.New(sha256.New, keys[key])
		mac.Write(body)
		return hmac.Equal(given, mac.Sum(nil)) && err == nil
	}
}

// byToken compares a header with a key of a Secret.
func byToken(header, key string) func(http.Header, []byte, map[string][]byte) bool {
	return func(h http.Header, _ []byte, keys map[string][]byte) bool {
		return same(h.Get(header), keys[key])
	}
}

// byBasicAuth compares the user name and the password of a request with those of a Secret.
func byBasicAuth(h http.Header, _ []byte, keys map[string][]byte) bool {
	user, password, ok := (&http.Request{Header: h}).BasicAuth()
	sameUser, samePassword := same(user, keys["azure-username"]), same(password, keys["azure-password"])
	return ok && sameUser && samePassword
}

// same compares two texts in a time that depends on neither.
func same(given string, want []byte) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256(want)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
