//go:build !race

package fleetyaml

const raced = false
