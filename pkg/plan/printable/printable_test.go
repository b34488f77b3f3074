package printable

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	cases := map[string]struct{ in, text, line string }{
		"Plain":     {"web 1.0: réady ✓ 日本　語 👍", "web 1.0: réady ✓ 日本　語 👍", "web 1.0: réady ✓ 日本　語 👍"},
		"Newline":   {"a\n\tb", "a\n\tb", `a\n\tb`},
		"Colour":    {"\x1b[31mred", `\u001b[31mred`, `\u001b[31mred`},
		"Clipboard": {"\x1b]52;c;aGk=\a", `\u001b]52;c;aGk=\u0007`, `\u001b]52;c;aGk=\u0007`},
		"Return":    {"Ready\rStuck", `Ready\rStuck`, `Ready\rStuck`},
		"C1":        {"\u009b31m\u0085", `\u009b31m\u0085`, `\u009b31m\u0085`},
		"RawC1":     {"a\x9b31m", `a\x9b31m`, `a\x9b31m`},
		"Delete":    {"a\x7fb\x00", `a\u007fb\u0000`, `a\u007fb\u0000`},
		"Bidi":      {"a\u202eb\u2066c\u200fd", `a\u202eb\u2066c\u200fd`, `a\u202eb\u2066c\u200fd`},
		"ZeroWidth": {"pro\u200bd\ufeff\u00ad", `pro\u200bd\ufeff\u00ad`, `pro\u200bd\ufeff\u00ad`},
		"Separator": {"a\u2028b\u2029c", `a\u2028b\u2029c`, `a\u2028b\u2029c`},
		"Tag":       {"a\U000e0041", `a\udb40\udc41`, `a\udb40\udc41`},
		"Surrogate": {"a\xed\xa0\x80", `a\xed\xa0\x80`, `a\xed\xa0\x80`},
		"Cut":       {"a\xe2\x80", `a\xe2\x80`, `a\xe2\x80`},
		"Replaced":  {"a\ufffdb", "a\ufffdb", "a\ufffdb"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Text(c.in); got != c.text {
				t.Errorf("Text: want %q, got %q", c.text, got)
			}
			if got := Line(c.in); got != c.line {
				t.Errorf("Line: want %q, got %q", c.line, got)
			}
		})
	}
}

// What is written in pieces is written as if at once.
func TestWriter(t *testing.T) {
	for _, text := range []string{"réady ✓ 👍\n", "a\u202e\u009b\x9b\xe2\x80\n", "\xc2", "x\xf0\x9f\n"} {
		for _, size := range []int{1, 2, 3, len(text)} {
			var out strings.Builder
			w := NewWriter(&out)
			for i := 0; i < len(text); i += size {
				piece := text[i:min(i+size, len(text))]
				if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Fatalf("%q: %d, %v", piece, n, err)
				}
			}
			_, _ = w.Write([]byte("."))
			if want := Text(text + "."); out.String() != want {
				t.Errorf("%q in pieces of %d: want %q, got %q", text, size, want, out.String())
			}
		}
	}
	if _, err := NewWriter(failing{}).Write([]byte("a")); err == nil {
		t.Error("want the error of the writer below")
	}
}

func TestFprintf(t *testing.T) {
	type word string
	var out strings.Builder
	Fprintf(&out, "%s|%-3s|%v|%d|%v|%v\n", "a\nb", word("c\t"), errors.New("d\x1b"), 5, []string{"kept"}, nil)
	if want := `a\nb|c\t|d\u001b|5|[kept]|<nil>` + "\n"; out.String() != want {
		t.Errorf("want %q, got %q", want, out.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no") }

// Escapes within a JSON document change no value.
func TestTextOfJSON(t *testing.T) {
	in := map[string]string{"a": "x\x1b[0m\u202e\u200b\u2028\u009b\x7f\U000e0041\n"}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	if err := json.Unmarshal([]byte(Text(string(data))), &out); err != nil || out["a"] != in["a"] {
		t.Errorf("%v: want %q, got %q", err, in["a"], out["a"])
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2Jb", "\u202e", "\xc2", "\u009b", "a\r\nb", "\U000e0041", "\xed\xa0\x80"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, size int) {
		text, line := Text(s), Line(s)
		for _, got := range []string{text, line} {
			if !utf8.ValidString(got) {
				t.Fatalf("%q: no UTF-8: %q", s, got)
			}
			for _, r := range got {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
					t.Fatalf("%q: %U in %q", s, r, got)
				}
			}
			if Text(got) != got {
				t.Fatalf("%q: a second time it is different: %q", got, Text(got))
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Fatalf("%q: more than one line: %q", s, line)
		}
		if size = size%7 + 1; size < 1 {
			size = 1
		}
		var out strings.Builder
		w := NewWriter(&out)
		for i := 0; i < len(s); i += size {
			_, _ = w.Write([]byte(s[i:min(i+size, len(s))]))
		}
		_, _ = w.Write([]byte("."))
		if out.String() != Text(s+".") {
			t.Fatalf("%q in pieces of %d: %q", s, size, out.String())
		}
	})
}
