// Package lint checks the files of directories before they are committed, for fleet lint.
package lint
