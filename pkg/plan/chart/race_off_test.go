//go:build !race

package chart_test

const raced = false
