package kube

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ErrGone says that an object is not there (any more).
var ErrGone = errors.New("not found")

// IgnoreGone returns nil for the error of a missing object, and any other error
// unchanged.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

// IsConflict reports whether a write was refused because the object has changed
// since it was read.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsExists reports whether a create was refused because an object of the name exists.
func IsExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// IsForbidden reports whether the API server refused a request for missing rights
// (403).
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// IsUnauthorized reports whether the API server does not accept the credential (401). A
// denial by admission with code 401 is not about the credential.
func IsUnauthorized(err error) bool { return apierrors.IsUnauthorized(err) && !IsDenied(err) }

// IsDenied reports whether an admission webhook or a ValidatingAdmissionPolicy has
// denied a write. Both choose the code of their denial; Rancher's webhook uses 401.
func IsDenied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && DeniedMessage(status.Status().Message)
}

// DeniedMessage reports whether a message of an API server is about a denial by
// admission. The text that the API server puts before the text of the webhook or policy
// identifies it.
func DeniedMessage(message string) bool {
	for _, by := range [][2]string{{"admission webhook ", "denied the request"}, {"ValidatingAdmissionPolicy '", " denied request: "}} {
		if _, after, ok := strings.Cut(message, by[0]); ok && strings.Contains(after, by[1]) {
			return true
		}
	}
	return false
}

// DeniedAnswer reports whether an answer is about a denial by admission. The body of
// the answer can still be read completely.
func DeniedAnswer(resp *http.Response) bool { return DeniedMessage(string(peekBody(resp))) }

// IsInvalid reports whether the API server refused the content of an object.
func IsInvalid(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// IsTerminating reports whether a create was refused because its namespace is
// being deleted.
func IsTerminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// IsAway reports whether the API server has not answered the question of a request:
// there is no connection, the credentials are refused, or the server is not able to
// answer. Such an error says nothing about which objects exist. A server whose
// admission denies a write has answered.
func IsAway(err error) bool {
	if IsDenied(err) {
		return false
	}
	var netErr net.Error
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) ||
		errors.As(err, &netErr) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err)
}

// IsBusy reports whether the API server asked for fewer requests (429).
func IsBusy(err error) bool { return apierrors.IsTooManyRequests(err) }

// IsOverloaded reports whether the API server asked for fewer requests, or did not
// answer in time.
func IsOverloaded(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// wrap adds the request to an error and turns 404 into ErrGone. The cause stays in the
// chain.
func wrap(verb, kind string, key Key, err error) error {
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("%s %s %q", verb, strings.ToLower(kind), key.String())
	if apierrors.IsNotFound(err) && !IsTerminating(err) {
		return fmt.Errorf("%s: %w: %w", what, ErrGone, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// IsGone reports whether an error is ErrGone.
func IsGone(err error) bool { return errors.Is(err, ErrGone) }
