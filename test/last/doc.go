// Package last is the last that "go test ./..." reports. It says which tests
// were skipped, because go test prints nothing of packages that pass, and a
// skipped test must not look like a passed one.
package last
