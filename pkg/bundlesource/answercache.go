package bundlesource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
)

// A claim is one URL as one tenant may ask for it: a digest of the URL and of all that
// the answer may depend on, such as credentials and trust. Two tenants with different
// credentials have different claims to one URL.
type claim string

func claimOf(parts ...any) claim {
	raw, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("reader: claim without JSON form: %v", err)) // strings, bytes and bools
	}
	sum := sha256.Sum256(raw)
	return claim(hex.EncodeToString(sum[:]))
}

// An answerCache remembers what a source has answered to which credentials. All callers
// share the bytes (see store), but a caller gets only bytes that the source gave to the
// caller's own credentials, or confirmed to them by ETag or manifest.
type answerCache struct {
	mu      sync.Mutex
	answers map[claim]answer
	order   []claim // by age
}

// An answer is what a source said last.
type answer struct {
	digest digest
	etag   string
}

// answersKept bounds the answer cache; the oldest go first.
const answersKept = 20_000

func (l *answerCache) lookup(c claim) (answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.answers[c]
	return a, ok
}

func (l *answerCache) store(c claim, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers == nil {
		l.answers = map[claim]answer{}
	}
	if _, known := l.answers[c]; !known {
		if len(l.order) >= answersKept {
			delete(l.answers, l.order[0])
			l.order = l.order[1:]
		}
		l.order = append(l.order, c)
	}
	l.answers[c] = a
}
