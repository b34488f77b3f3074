// Package credential decides which credential an agent uses with its manager:
// one that lasts until it is revoked, or tokens that end and that the agent
// renews itself; and how it changes from one to another while both work.
//
// The manager offers, the agent takes. An Offer stands in an annotation of the
// Cluster, which the agent reads in the answer to a check-in. It holds no
// secret: the agent fetches the token with the credential that it has, tries it,
// and says with its next check-in that it uses it. Only then the manager takes
// the one before back.
package credential
