package registration

// KeyAdoptFrom is the key of an agent's ConfigMap that names the namespace of the
// agent which was there before: what that one has deployed is taken over. It is
// a key beside "config", so that a change starts no agent again.
const KeyAdoptFrom = "adoptFrom"
