// Package printer prints the answers of the command line: tables that fit a terminal,
// paragraphs, colours, and documents as JSON, YAML or by jsonpath.
package printer
