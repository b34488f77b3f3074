// Package raced reports whether the race detector is on. It allocates on its own
// account and slows everything by several times, so a test that counts bytes
// says nothing under it, and one that repeats itself repeats itself less often.
package raced
