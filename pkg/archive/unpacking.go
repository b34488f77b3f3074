package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An archiveEntry is what an archive names.
type archiveEntry struct {
	name   string
	size   int64 // as the archive says; -1: not said
	mode   fs.FileMode
	target string // of a link
}

// A nameKey is a name without regard to upper and lower case, in little memory.
type nameKey [16]byte

// seenEntry is the entry that has a name.
type seenEntry struct {
	exact nameKey
	kind  byte // 'f'ile, 'd'irectory, 'l'ink
}

// unpacking is one archive on its way into a directory.
type unpacking struct {
	ctx     context.Context
	root    *os.Root
	limits  Limits
	packed  int64
	left    int64 // bytes that may still be written
	byRatio bool  // left comes from the size of the archive
	stats   Stats
	names   map[nameKey]seenEntry
	links   []archiveEntry
	buf     []byte
}

// drive is how Windows begins an absolute path.
var drive = regexp.MustCompile(`^[A-Za-z]:`)

func quote(name string) string {
	if len(name) > 100 {
		name = strings.ToValidUTF8(name[:100], "") + "…"
	}
	return fmt.Sprintf("%q", name)
}

// cleanName returns a name as it may be written, without the slashes and dots that do
// nothing; "." is the directory itself.
func (u *unpacking) cleanName(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", permanentf(ReasonUnsafeArchive, "the archive holds a name that %s: %s", why, quote(name))
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > u.limits.PathBytes:
		return "", permanentf(ReasonTooLarge, "the archive holds a name of %d bytes; %d are allowed", len(name), u.limits.PathBytes)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }):
		return bad("holds control characters or is no UTF-8")
	case strings.HasPrefix(name, "/") || drive.MatchString(name):
		return bad("is an absolute path")
	case strings.Contains(name, `\`):
		return bad("holds a backslash")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return bad("leads out of the directory")
		case len(part) > 255:
			return "", permanentf(ReasonTooLarge, "the archive holds a name of %d bytes between two slashes; 255 are allowed", len(part))
		}
	}
	name = path.Clean(name)
	if depth := strings.Count(name, "/") + 1; depth > u.limits.Depth {
		return "", permanentf(ReasonTooLarge, "the archive holds a name that is %d directories deep; %d are allowed", depth, u.limits.Depth)
	}
	return name, nil
}

func keyOf(s string) nameKey {
	sum := sha256.Sum256([]byte(s))
	return nameKey(sum[:16])
}

// claim takes a name, and those of the directories above it, for an entry. Two entries
// of one name, or of names that differ only in upper and lower case, are refused: which
// one remains would depend on the program that unpacks them.
func (u *unpacking) claim(name string, kind byte) error {
	for i := 0; i < len(name); i++ {
		if name[i] != '/' {
			continue
		}
		if err := u.claimOne(name[:i], 'd'); err != nil {
			return err
		}
	}
	return u.claimOne(name, kind)
}

func (u *unpacking) claimOne(name string, kind byte) error {
	key, exact := keyOf(strings.ToLower(name)), keyOf(name)
	was, found := u.names[key]
	switch {
	case !found:
		if len(u.names) >= u.limits.Files {
			return permanentf(ReasonTooLarge, "the archive holds more than %d files and directories", u.limits.Files)
		}
		u.names[key] = seenEntry{exact, kind}
		return nil
	case was.exact != exact:
		return permanentf(ReasonUnsafeArchive, "the archive holds two names that differ only in upper and lower case: %s", quote(name))
	case was.kind == 'd' && kind == 'd':
		return nil
	case was.kind == 'l' || kind == 'l':
		return permanentf(ReasonUnsafeArchive, "the archive holds a link and something else of its name, or below it: %s", quote(name))
	}
	return permanentf(ReasonUnsafeArchive, "the archive holds a name twice: %s", quote(name))
}

func (u *unpacking) countEntry() error {
	if u.stats.Files++; u.stats.Files > u.limits.Files {
		return permanentf(ReasonTooLarge, "the archive holds more than %d files and directories", u.limits.Files)
	}
	return u.ctx.Err()
}

func (u *unpacking) directory(e archiveEntry) error {
	name, err := u.cleanName(e.name)
	if err != nil || name == "." {
		return err
	}
	if err := u.countEntry(); err != nil {
		return err
	}
	if err := u.claim(name, 'd'); err != nil {
		return err
	}
	return u.root.MkdirAll(name, 0o755)
}

// file writes one file. It refuses a file before it creates it.
func (u *unpacking) file(e archiveEntry, body io.Reader) error {
	name, err := u.cleanName(e.name)
	if err != nil {
		return err
	}
	if name == "." || strings.HasSuffix(e.name, "/") {
		return permanentf(ReasonUnsafeArchive, "the archive holds a file with the name of a directory: %s", quote(e.name))
	}
	if err := u.countEntry(); err != nil {
		return err
	}
	if e.size > u.limits.FileBytes || e.size > u.left {
		return u.tooLarge(name)
	}
	if err := u.claim(name, 'f'); err != nil {
		return err
	}
	if dir := path.Dir(name); dir != "." {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o644)
	if e.mode&0o111 != 0 {
		mode = 0o755
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = u.copy(out, body, name)
	if closing := out.Close(); err == nil {
		err = closing
	}
	return err
}

func (u *unpacking) tooLarge(name string) error {
	switch {
	case u.limits.FileBytes < u.left:
		return permanentf(ReasonTooLarge, "the archive holds a file of more than %d bytes: %s", u.limits.FileBytes, quote(name))
	case u.byRatio:
		return permanentf(ReasonTooLarge, "the archive is a bomb: it unpacks to more than %d times its size (at %s)", u.limits.Ratio, quote(name))
	}
	return permanentf(ReasonTooLarge, "the archive unpacks to more than %d bytes (at %s)", u.limits.Bytes, quote(name))
}

// copy writes a file as long as limits allow. It distinguishes faults of the archive
// from faults of the disk.
func (u *unpacking) copy(out io.Writer, body io.Reader, name string) error {
	if u.buf == nil {
		u.buf = make([]byte, 64<<10)
	}
	for size := int64(0); ; {
		n, err := body.Read(u.buf)
		if size += int64(n); size > u.limits.FileBytes || int64(n) > u.left {
			return u.tooLarge(name)
		}
		if _, err := out.Write(u.buf[:n]); err != nil {
			return err
		}
		u.left -= int64(n)
		u.stats.Bytes += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return damagedError(err)
		}
	}
}

// noteLink notes a symbolic link. Links are made last: nothing is ever written
// through one.
func (u *unpacking) noteLink(e archiveEntry) error {
	name, err := u.cleanName(e.name)
	if err != nil {
		return err
	}
	if err := u.countEntry(); err != nil {
		return err
	}
	bad := func(why string) error {
		return permanentf(ReasonUnsafeArchive, "the archive holds a link that %s: %s", why, quote(name))
	}
	switch {
	case name == ".":
		return bad("is the directory itself")
	case len(u.links) >= maxLinks:
		return permanentf(ReasonTooLarge, "the archive holds more than %d links", maxLinks)
	case e.target == "" || len(e.target) > u.limits.PathBytes:
		return bad("leads nowhere, or by too long a way")
	case strings.HasPrefix(e.target, "/") || drive.MatchString(e.target):
		return bad("leads to an absolute path")
	case strings.Contains(e.target, `\`) || !utf8.ValidString(e.target) || strings.ContainsFunc(e.target, unicode.IsControl):
		return bad("leads to a name with a backslash or control characters")
	}
	if err := u.claim(name, 'l'); err != nil {
		return err
	}
	u.links = append(u.links, archiveEntry{name: name, target: e.target})
	return nil
}

// makeLinks makes the links, if all of them stay inside, regardless of other links that
// they pass.
func (u *unpacking) makeLinks() error {
	targets := make(map[string]string, len(u.links))
	for _, l := range u.links {
		targets[l.name] = l.target
	}
	for _, l := range u.links {
		if why := followLink(targets, l.name); why != "" {
			return permanentf(ReasonUnsafeArchive, "the archive holds a link that %s: %s", why, quote(l.name))
		}
	}
	for _, l := range u.links {
		if dir := path.Dir(l.name); dir != "." {
			if err := u.root.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	return nil
}

// maxHops is how many links a system follows before it gives up.
const maxHops = 40

// followLink goes where a link leads, and says what is wrong with that.
func followLink(targets map[string]string, name string) string {
	var at []string
	todo := strings.Split(name, "/")
	for hops := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return "leads out of the directory"
			}
			at = at[:len(at)-1]
			continue
		}
		at = append(at, part)
		target, isLink := targets[strings.Join(at, "/")]
		if !isLink {
			continue
		}
		if hops++; hops > maxHops {
			return "leads in a circle, or over too many others"
		}
		at = at[:len(at)-1]
		todo = append(strings.Split(target, "/"), todo...)
	}
	return ""
}
