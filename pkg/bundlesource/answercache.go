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

func (ac *answerCache) lookup(c claim) (answer, bool) {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	a, ok := ac.answers[c]
	return a, ok
}

func (ac *answerCache) store(c claim, a answer) {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	if ac.answers == nil {
		ac.answers = map[claim]answer{}
	}
	if _, known := ac.answers[c]; !known {
		if len(ac.order) >= answersKept {
			delete(ac.answers, ac.order[0])
			ac.order = ac.order[1:]
		}
		ac.order = append(ac.order, c)
	}
	ac.answers[c] = a
}
