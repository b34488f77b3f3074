// Package credential has the decisions about the credential of an agent, which
// pkg/agentmanagement/registration (the offer) and pkg/agent/credential (the renewal) apply.
// A credential lasts until it is revoked, or consists of tokens that end and that the
// agent renews. It changes from one to another while both work.
//
// The manager offers, the agent takes. An Offer is in an annotation of the Cluster,
// which the agent reads in the answer to a check-in. It holds no secret: the agent
// fetches the token with its present credential, tries it, and reports with its next
// check-in that it uses it. Only then does the manager revoke the earlier credential.
package credential
