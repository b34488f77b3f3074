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

// IgnoreGone returns nil for an object that is not there, and any other error as it is.
func IgnoreGone(err error) error {
	if IsGone(err) {
		return nil
	}
	return err
}

// IsConflict reports whether a write was refused because the object has changed
// since it was read.
func IsConflict(err error) bool { return apierrors.IsConflict(err) }

// IsExists reports whether a create was refused because the name is taken.
func IsExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// IsForbidden reports whether the API server refused the rights, not the person.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }

// IsUnauthorized reports whether the API server does not know the credential. A denial
// by admission says nothing of the credential, also where its code is 401.
func IsUnauthorized(err error) bool { return apierrors.IsUnauthorized(err) && !IsDenied(err) }

// IsDenied reports whether an admission webhook or a ValidatingAdmissionPolicy has denied
// a write. Both choose the code of their denial, and Rancher's webhook takes 401.
func IsDenied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && DeniedMessage(status.Status().Message)
}

// DeniedMessage reports whether a message of an API server is about a denial by
// admission. Only the text that the API server puts before the words of a webhook or a
// policy identifies a denial.
func DeniedMessage(message string) bool {
	for _, by := range [][2]string{{"admission webhook ", "denied the request"}, {"ValidatingAdmissionPolicy '", " denied request: "}} {
		if _, after, ok := strings.Cut(message, by[0]); ok && strings.Contains(after, by[1]) {
			return true
		}
	}
	return false
}

// DeniedAnswer reports whether an answer is about a denial by admission. The answer can be
// read afterwards as if nothing had been read.
func DeniedAnswer(resp *http.Response) bool { return DeniedMessage(string(beginningOf(resp))) }

// IsInvalid reports whether the API server refused the content of an object.
func IsInvalid(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }

// IsTerminating reports whether a create was refused because its namespace is
// being deleted.
func IsTerminating(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating")
}

// IsAway reports whether the API server could not be asked at all: no
// connection, refused credentials, or a server that is not able to answer.
// Nothing follows from such an error about what exists. A server whose admission
// denies a write has answered.
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

// IsBusy reports whether the API server asked for fewer requests.
func IsBusy(err error) bool { return apierrors.IsTooManyRequests(err) }

// IsOverloaded reports whether the API server asked for fewer requests, or did
// not answer in time.
func IsOverloaded(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// wrap names what was tried and turns 404 into ErrGone. The cause stays in
// the chain.
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
