package chart

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of errors, all of them reconcile.Terminal.
const (
	ReasonInvalidSource      = "InvalidSource"      // helm.chart or helm.repo is nothing that can be fetched
	ReasonInvalidVersion     = "InvalidVersion"     // helm.version is neither a version nor a range
	ReasonInvalidIndex       = "InvalidIndex"       // index.yaml is invalid, or an entry is refused
	ReasonChartNotFound      = "ChartNotFound"      // the repository has no such chart
	ReasonVersionNotFound    = "VersionNotFound"    // the chart has no such version
	ReasonInvalidChart       = "InvalidChart"       // Chart.yaml or requirements.yaml cannot be used
	ReasonInvalidCredentials = "InvalidCredentials" // a Secret that cannot be right
	ReasonInvalidRegex       = "InvalidRegex"       // helmRepoURLRegex is none
)

func permanentf(reason, format string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(format, args...))
}

// quotedLine is foreign text as it may stand in a message: one line, short, quoted.
func quotedLine(s string) string {
	const longest = 100
	s = strings.ToValidUTF8(s, "?")
	if len(s) > longest {
		cut := longest
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return fmt.Sprintf("%q", s)
}

// unprintable reports whether s holds what no name, path or URL holds.
func unprintable(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	})
}
