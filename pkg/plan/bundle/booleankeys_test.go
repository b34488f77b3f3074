package bundle

import (
	"regexp"
	"strings"
	"testing"
)

// booleanKey is the regular expression that mayHaveBooleanKeys stands for.
var booleanKey = regexp.MustCompile(`(?mi)(^|[-{,])\s*(y|n|yes|no|on|off)\s*:`)

func TestMayHaveBooleanKeys(t *testing.T) {
	// All texts of up to four of these parts, before and after a line that is no key.
	parts := []string{"", "N", "yeſ", "OFF", "x", ":", " ", "\n", "\t", "\v", "\r", "-", "{", ",", "[", "\xc5"}
	texts := []string{""}
	for range 4 {
		var longer []string
		for _, text := range texts {
			for _, part := range parts {
				longer = append(longer, text+part)
			}
		}
		texts = longer
	}
	texts = append(texts, "y", "Y", "n", "yes", "YES", "no", "on", "On", "off", "true", "false", "~", "- - yes", "{a: 1, no", "\"on\"")
	found := 0
	for _, text := range texts {
		for _, text := range []string{text, text + ":", "a: b\n" + text + ":", "a" + text + ": c"} {
			want := booleanKey.MatchString(text)
			if want {
				found++
			}
			if got := mayHaveBooleanKeys([]byte(text)); got != want {
				t.Fatalf("%q: want %t, got %t", text, want, got)
			}
		}
	}
	if found == 0 {
		t.Error("no text has a key that is a boolean")
	}
}

func FuzzMayHaveBooleanKeys(f *testing.F) {
	for _, text := range []string{"", "on:", "a: {x: y, no : 1}", "- Off: 1", "a:\n  y\n  :", "only: 1", "yeſ:", "x\xff-n:"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := mayHaveBooleanKeys(data), booleanKey.Match(data); got != want {
			t.Errorf("%q: want %t, got %t", data, want, got)
		}
	})
}

func BenchmarkMayHaveBooleanKeys(b *testing.B) {
	data := []byte(strings.Repeat(configMap, 1<<10))
	for name, match := range map[string]func([]byte) bool{"Scan": mayHaveBooleanKeys, "Regexp": booleanKey.Match} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if match(data) {
					b.Fatal("want no key that is a boolean")
				}
			}
		})
	}
}
