// Package layers holds the tests that keep imports pointing down, programs small and names
// plain.
package layers
