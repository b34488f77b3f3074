package bundle

import "bytes"

// mayHaveBooleanKeys reports whether data may have a key that is a boolean of YAML 1.1
// other than true and false. It gives the same answer as the regular expression
//
//	(?mi)(^|[-{,])\s*(y|n|yes|no|on|off)\s*:
//
// which takes about fourteen times as long: it looks at each byte, this function only at what is
// before each colon. Every manifest is searched.
func mayHaveBooleanKeys(data []byte) bool {
	for end := 0; ; end++ {
		colon := bytes.IndexByte(data[end:], ':')
		if colon < 0 {
			return false
		}
		end += colon
		if endsInBooleanKey(data[:end]) {
			return true
		}
	}
}

// endsInBooleanKey reports whether text ends in a key of mayHaveBooleanKeys, without its colon.
func endsInBooleanKey(text []byte) bool {
	text, _ = trimSpace(text)
	for _, word := range booleanWords {
		if len(text) < len(word) || !bytes.EqualFold(text[len(text)-len(word):], word) {
			continue
		}
		before, line := trimSpace(text[:len(text)-len(word)])
		if line || len(before) == 0 || bytes.IndexByte([]byte("-{,"), before[len(before)-1]) >= 0 {
			return true
		}
	}
	return false
}

// trimSpace cuts what \s of a regular expression matches from the end of text. It reports
// whether a line feed is cut.
func trimSpace(text []byte) (trimmed []byte, line bool) {
	for ; len(text) > 0; text = text[:len(text)-1] {
		switch text[len(text)-1] {
		case '\n':
			line = true
		case ' ', '\t', '\r', '\f':
		default:
			return text, line
		}
	}
	return text, line
}

// booleanWords are the booleans of YAML 1.1 other than true and false. Letters that differ
// in case only are equal, and ſ (U+017F) is a form of s.
var booleanWords = [][]byte{[]byte("y"), []byte("n"), []byte("yes"), []byte("yeſ"), []byte("no"), []byte("on"), []byte("off")}
