package credential

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"strings"
	"time"
)

// A Validity is when a token was issued and when it ends. The zero Span is that of a token
// without an end.
type Validity struct {
	Issued, Expires time.Time
}

// SpanOf reads the span of a token of an account, without judging the token: the claims iat
// and exp of RFC 7519. It is zero for a text that is no such token.
func SpanOf(token string) Validity {
	c := claimsOf(token)
	if c.Expires == 0 {
		return Validity{}
	}
	return Validity{Issued: time.Unix(c.Issued, 0), Expires: time.Unix(c.Expires, 0)}
}

// SubjectOf reads the account that a token is for, without judging the token:
// "system:serviceaccount:<namespace>:<name>". It is empty for a text that is no such token.
func SubjectOf(token string) string { return claimsOf(token).Subject }

type claims struct {
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
	Subject string `json:"sub"`
}

func claimsOf(token string) claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}
	}
	var c claims
	if json.Unmarshal(text, &c) != nil {
		return claims{}
	}
	return c
}

// Endless reports whether the token has no end.
func (v Validity) Endless() bool { return v.Expires.IsZero() }

// Parts of a token's life after which its agent gets another one: between the first and the
// second, each agent at a time of its own. The rest is the overlap, in which the manager
// may be away without any harm.
const (
	renewFrom = 0.5
	renewTo   = 0.6
)

// Renew reports whether an agent gets another token now. identity is the agent's;
// next is when it is connected again, at the latest.
func (v Validity) Renew(identity string, now, next time.Time) bool {
	if v.Endless() {
		return false
	}
	at := timeAtShare(v.Issued, v.Expires, renewFrom+(renewTo-renewFrom)*hashShare(identity))
	return !now.Before(at) || !next.Before(v.Expires)
}

// hashShare is a number from 0 to 1 that belongs to one of many.
func hashShare(identity string) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(identity)) // never fails
	return float64(h.Sum32()%1000) / 1000
}
