// Package cli has what all commands share of the command line: kinds and objects as users
// name them, flags, exit codes and errors.
package cli
