//go:build !race

package archive_test

const raced = false
