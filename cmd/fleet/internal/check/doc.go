// Package check looks at the whole installation, for fleet check.
package check
