// Package wait waits until something is Ready, for fleet wait.
package wait
