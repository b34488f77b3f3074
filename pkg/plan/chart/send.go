package chart

import (
	"net/url"
	"regexp"
	"strings"
)

// maxRegexBytes bounds helmRepoURLRegex. Go's expressions take time linear in
// the text, whatever they are; repetitions are bounded by the compiler.
const maxRegexBytes = 4096

// nowhere is a URL that a regular expression matches only if it names no host.
const nowhere = "no-host-of-this-name.invalid"

// Send returns c as it may be used for a URL (or any source that Locate accepts): as it is
// if URLs matches, else without user name, password and key. The options that say how to
// connect to the host stay.
//
// The match begins at the first character. It must go to the end of the host's name at
// least, so that https://charts.example.com does not stand for
// https://charts.example.com.evil.example; user name and password in the URL are not looked
// at, so that they cannot pass for a host. An error is Terminal, InvalidRegex.
func (a Access) Send(c Credentials, rawURL string) (Credentials, error) {
	ok, err := a.matchesURLPattern(rawURL)
	if err != nil || !ok {
		return c.withoutSecrets(), err
	}
	return c, nil
}

// SendOn returns c as it may be used for a URL that a repository names, in its index or as
// a redirect. On the repository's own host, port and scheme it is as Send says for the
// repository. Anywhere else user name, password and key go only if URLs names that place,
// not if URLs matches whatever there is.
func (a Access) SendOn(c Credentials, repoURL, rawURL string) (Credentials, error) {
	if sameOrigin(repoURL, rawURL) {
		return a.Send(c, repoURL)
	}
	if scheme, _, ok := strings.Cut(rawURL, "://"); ok {
		if any, err := a.matchesURLPattern(scheme + "://" + nowhere + "/x/index.yaml"); err != nil || any {
			return c.withoutSecrets(), err
		}
	}
	return a.Send(c, rawURL)
}

func (a Access) matchesURLPattern(rawURL string) (bool, error) {
	if a.URLs == "" {
		return false, nil
	}
	if len(a.URLs) > maxRegexBytes {
		return false, permanentf(ReasonInvalidRegex, "helmRepoURLRegex cannot be used: it is longer than %d bytes", maxRegexBytes)
	}
	re, err := regexp.Compile(`^(?:` + a.URLs + `)`)
	if err != nil {
		return false, permanentf(ReasonInvalidRegex, "helmRepoURLRegex %s cannot be used: %s", quotedLine(a.URLs), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	re.Longest()
	for _, f := range forms(rawURL) {
		if at := re.FindStringIndex(f.text); at != nil && at[1] >= f.host {
			return true, nil
		}
	}
	return false, nil
}

// A form is one way to write a source, and how many bytes of it say where it is.
type form struct {
	text string
	host int
}

// forms are the ways in which a source is compared: as its URL, and as it was
// written. None of them holds a user name or password of a URL.
func forms(source string) []form {
	if len(source) > longestSource || unprintable(source) || strings.Contains(source, `\`) {
		return nil
	}
	prefix := ""
	if forced, rest := cutForced(source); forced != "" {
		prefix, source = forced+"::", rest
	}
	var list []form
	if scp := scpLike.FindStringSubmatchIndex(beforeQuery(source)); scp != nil {
		list = append(list, form{source, scp[5]}, form{"ssh://" + source[:scp[5]] + "/" + strings.TrimPrefix(source[scp[6]:], "/"), len("ssh://") + scp[5]})
	} else if u, err := url.Parse(source); err == nil && u.Scheme != "" && u.Hostname() != "" {
		user := ""
		if u.Scheme == "ssh" && u.User != nil {
			user = url.User(u.User.Username()).String() + "@"
		}
		u.User = nil
		upTo := len(u.Scheme) + len("://") + hostBytes(u)
		list = append(list, form{u.String(), upTo})
		u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
		text := u.String()
		list = append(list, form{text, upTo})
		if user != "" {
			begin := len(u.Scheme) + len("://")
			list = append(list, form{text[:begin] + user + text[begin:], upTo + len(user)})
		}
	} else if l, err := Locate(Request{Chart: source}); err == nil && l.Kind == Git {
		host, _, _ := strings.Cut(source, "/") // github.com/owner/name
		list = append(append(list, form{source, len(host)}), forms(l.URL)...)
	}
	if prefix != "" {
		for _, f := range list {
			list = append(list, form{prefix + f.text, len(prefix) + f.host})
		}
	}
	return list
}

// hostBytes is the length of the host's name as it stands in the URL, without
// the port.
func hostBytes(u *url.URL) int {
	if port := u.Port(); port != "" {
		return len(u.Host) - len(port) - 1
	}
	return len(u.Host)
}

// sameOrigin reports whether two URLs have the same host, port and scheme.
func sameOrigin(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Hostname() != "" &&
		strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(x.Hostname(), y.Hostname()) && portOf(x) == portOf(y)
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443", "ssh": "22"}[strings.ToLower(u.Scheme)]
}
