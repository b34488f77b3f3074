package epoch

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "0": 0, "1700000000": 1700000000, "-1": -1, "now": -1, "1.5": -1} {
		got, err := Parse(text)
		if (err != nil) != (want < 0) || err == nil && got.Unix() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
