//go:build !race

package reader_test

const raced = false
