package deployment

// Reasons of Bundles that the manager does not work out before something is
// there.
const (
	// ReasonNoSource: a Secret or ConfigMap of downstreamResources does not exist.
	ReasonNoSource = "DownstreamResourceMissing"
	// ReasonNoContent: the content that the Bundle names does not exist.
	ReasonNoContent = "ContentMissing"
	// ReasonNoCredential: the Secret that says in which registry the files are does
	// not exist.
	ReasonNoCredential = "OCISecretMissing"
	// ReasonChartPending: the manager has not pulled the chart.
	ReasonChartPending = "ChartNotPulled"
)

// Awaits reports whether a Bundle with that reason is worked out as soon as
// something is there. Until then its observedGeneration stays as it was.
func Awaits(reason string) bool {
	switch reason {
	case ReasonWaitForValues, ReasonNoSource, ReasonNoContent, ReasonNoCredential, ReasonChartPending:
		return true
	}
	return false
}
