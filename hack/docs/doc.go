// Package docs holds the tests that keep README and docs true: what they say
// works is what the code does, and their links lead somewhere. That their
// commands work is tested by integrationtests.
package docs
