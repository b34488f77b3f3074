// Package get shows objects of Fleet in tables and documents, for fleet get.
package get
