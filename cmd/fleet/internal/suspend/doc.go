// Package suspend holds back what is new and lets it go on, for fleet suspend and fleet
// resume.
package suspend
