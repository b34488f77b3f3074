package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// tellError writes the error that ends a command: one line, or with
// FLEET_JSON_OUTPUT=true one line of JSON with the key fleetErrorMessage, as
// programs that ran the reference's command line read it.
func tellError(w io.Writer, err error, env func(string) string) {
	if !strings.EqualFold(env("FLEET_JSON_OUTPUT"), "true") {
		fmt.Fprintf(w, "error: %v\n", err)
		return
	}
	line, _ := json.Marshal(map[string]string{ // a map of texts always has a JSON
		"fleetErrorMessage": err.Error(), "level": "fatal", "msg": "Fleet cli failed",
	})
	fmt.Fprintf(w, "%s\n", line)
}
