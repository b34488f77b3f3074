package kubetest

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// init removes the handler by which client-go's informers log at most one error in a
// millisecond. It remembers the time of the last error of the process: in a bubble of
// testing/synctest, whose time begins in the year 2000, an informer would sleep for
// decades after its first error.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }
