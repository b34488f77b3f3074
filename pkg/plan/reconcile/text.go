package reconcile

// Texts of git hosts that cannot be connected to because their URL is likely to be
// wrong. A message that is about such a host ends with one of them.
const (
	TextNoAddress = "no address is known for this name"
	TextNoTLS     = "it does not speak TLS on this port"
)
