package position

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// JSONMistake returns what is wrong with a file for which it cannot be parsed as JSON, and
// where, from 1; text is empty where nothing is.
func JSONMistake(data []byte) (line, column int, text string) {
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if err == nil {
		return 0, 0, ""
	}
	at, text := 0, err.Error()
	var wrong *json.SyntaxError
	if errors.As(err, &wrong) {
		at = max(0, int(wrong.Offset)-1)
	}
	before := bytes.TrimRight(data[:min(at, len(data))], " \t\r\n")
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		at, text = 0, "the file is empty"
	case strings.HasPrefix(text, "unexpected end"):
		at, text = len(bytes.TrimRight(data, " \t\r\n")), "it ends before a quote or a bracket is closed"
	case bytes.HasSuffix(before, []byte(",")) && (data[at] == '}' || data[at] == ']'):
		text = "a comma may not stand before " + string(data[at])
	case data[at] == '/':
		text = "comments are not possible"
	}
	before = data[:at]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n'), text
}
