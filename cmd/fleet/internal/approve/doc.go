// Package approve shows and approves deletions that wait for a person, for fleet approve.
package approve
