package spelling

import (
	"slices"
	"strings"
	"unicode"
)

// shortWord is how long a word may be at most for only swapped letters to be a slip:
// api and app are two words, wbe and web are one.
const shortWord = 3

// SingleTypo returns the one known name that differs from name by a single slip of the keyboard,
// or "" where there is none, or more than one, or where name itself is known. It is
// stricter than Nearest: for names that may well be meant as they are. A slip is another
// case, another separator, or one letter added, dropped, changed or swapped with its
// neighbor; not the first letter of a word, no digit, and in words of up to three letters
// only a swap.
func SingleTypo(name string, known []string) string {
	found := ""
	for _, k := range slices.Compact(slices.Sorted(slices.Values(known))) {
		switch {
		case k == name:
			return ""
		case !isSingleTypo(name, k):
		case found != "":
			return ""
		default:
			found = k
		}
	}
	return found
}

// isSingleTypo reports whether two different names are one slip apart.
func isSingleTypo(a, b string) bool {
	x, y := pathWords(a+"."), pathWords(b+".") // the dot: names have no end to cut off
	if joined := strings.Join(x, ""); joined == strings.Join(y, "") {
		return joined != ""
	}
	if len(x) != len(y) {
		return false
	}
	slips := 0
	for i := range x {
		if x[i] == y[i] {
			continue
		}
		if slips++; slips > 1 || !slippedWord(x[i], y[i]) {
			return false
		}
	}
	return slips == 1
}

// slippedWord is slipped for one word in lower case.
func slippedWord(a, b string) bool {
	switch {
	case digits(a) != digits(b), editDistance(a, b) != 1, []rune(a)[0] != []rune(b)[0]:
		return false
	case min(len(a), len(b)) > shortWord:
		return true
	}
	return len(a) == len(b) && sortedLetters(a) == sortedLetters(b)
}

func digits(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, word)
}

func sortedLetters(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}
