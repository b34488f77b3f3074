package main

import (
	"path/filepath"

	"github.com/fleetworkspace/fleet/hack/compatibility"
)

// compatibilityTable writes the table that compares this project with the
// reference, from the rows in hack/compatibility.
func compatibilityTable(root string) error {
	text, err := compatibility.Text(root)
	if err != nil {
		return err
	}
	return write(filepath.Join(root, compatibility.Page), []byte(text))
}
