// Package credential decides which credential an agent uses with its manager: one that
// lasts until it is revoked, or tokens that end and that the agent renews itself. It
// also decides how an agent changes from one to the other while both work.
//
// The manager offers, the agent takes. An Offer is in an annotation of the Cluster,
// which the agent reads in the answer to a check-in. It holds no secret: the agent
// fetches the token with its present credential, tries it, and reports with its next
// check-in that it uses it. Only then does the manager revoke the earlier credential.
package credential
