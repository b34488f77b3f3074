package client

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/printable"
)

// ReportError writes the error that ends a command. It is one line, and a second one if
// the user lacks a right that can be granted. With FLEET_JSON_OUTPUT=true it is one
// line of JSON with the key fleetErrorMessage, for programs that ran rancher/fleet's
// command line. Text of a server in it is escaped for terminals.
func ReportError(w io.Writer, err error, env func(string) string) {
	w = printable.NewWriter(w)
	if !strings.EqualFold(env("FLEET_JSON_OUTPUT"), "true") {
		fmt.Fprintf(w, "error: %s\n", ErrorText(err))
		if right := MissingRight(err); right != "" {
			fmt.Fprintln(w, right)
		}
		return
	}
	line, _ := json.Marshal(map[string]string{ // a map of texts always has a JSON
		"fleetErrorMessage": err.Error(), "level": "fatal", "msg": "Fleet cli failed",
	})
	fmt.Fprintf(w, "%s\n", line)
}

// ErrorText is the text of an error in which only joined errors have several lines:
// each original error stays in one, because a server may have written it.
func ErrorText(err error) string {
	text := err.Error()
	var parts []error
	switch e := err.(type) { //nolint:errorlint // each error of the chain is looked at
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	case interface{ Unwrap() error }:
		parts = append(parts, e.Unwrap())
	}
	var out strings.Builder
	for _, part := range parts {
		if part == nil {
			continue
		}
		before, after, found := strings.Cut(text, part.Error())
		if !found {
			break
		}
		if before != "\n" { // of errors.Join
			before = printable.Line(before)
		}
		out.WriteString(before + ErrorText(part))
		text = after
	}
	return out.String() + printable.Line(text)
}
