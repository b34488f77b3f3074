package web

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"
)

// A checksum is what a file must have. The zero checksum is any.
type checksum struct {
	kind string
	want []byte
	hash hash.Hash
}

func parseChecksum(s string) (checksum, error) {
	if s == "" {
		return checksum{}, nil
	}
	kind, digits, _ := strings.Cut(s, ":")
	c := checksum{kind: strings.ToLower(kind)}
	// md5 and sha1 find damage, not malice; who asks for them gets them.
	make, known := map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}[c.kind]
	if !known {
		return checksum{}, permanentf(ReasonInvalidURL, "a checksum has to begin with md5:, sha1:, sha256: or sha512:")
	}
	c.hash = make()
	var err error
	if c.want, err = hex.DecodeString(digits); err != nil || len(c.want) != c.hash.Size() {
		return checksum{}, permanentf(ReasonInvalidURL, "a checksum of kind %s has to have %d hexadecimal digits", c.kind, 2*c.hash.Size())
	}
	return c, nil
}

// errInto marks faults of the writer, which are not the server's.
type errInto struct{ err error }

func (e *errInto) Error() string { return "write what was downloaded: " + e.err.Error() }
func (e *errInto) Unwrap() error { return e.err }

// receive copies the body of an answer.
func (d *download) receive(res *http.Response, out Response, into io.Writer) (Response, error) {
	if res.ContentLength > d.max {
		return out, d.tooLarge(fmt.Sprintf("%d bytes", res.ContentLength))
	}
	d.watch.Reset(d.c.cfg.Limits.Stall)
	wire := &progressReader{from: res.Body, limit: d.max, watch: d.watch, stall: d.c.cfg.Limits.Stall}
	defer func() { d.slow = wire.progress > 0 }()
	body := io.Reader(wire)
	if strings.EqualFold(res.Header.Get("Content-Encoding"), "gzip") && d.Compressed {
		z, err := gzip.NewReader(body)
		if err != nil {
			return out, orFormat(err, "what it sends is not gzip, although it says so")
		}
		body = z
	}
	sum := sha256.New()
	to := io.MultiWriter(into, sum)
	if d.check.hash != nil {
		to = io.MultiWriter(into, sum, d.check.hash)
	}
	n, err := d.copy(to, body)
	out.Bytes = n
	if err != nil {
		return out, err
	}
	out.Digest = hexDigest(sum.Sum(nil))
	return out, d.verify()
}

// copy writes what comes, up to max bytes, and reports how many were written.
func (d *download) copy(to io.Writer, body io.Reader) (written int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if written+int64(n) > d.max || errors.Is(err, errTooMuch) {
			return written, d.tooLarge("more")
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return written, &errInto{err}
		}
		written += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return written, nil
		case err != nil:
			return written, orFormat(err, "what it sends is damaged")
		}
	}
}

// verify compares what came with the checksum that is asked for.
func (d *download) verify() error {
	if d.check.hash == nil {
		return nil
	}
	if got := d.check.hash.Sum(nil); !bytes.Equal(got, d.check.want) {
		return permanentf(ReasonChecksumMismatch, "%s is not what was expected: its %s is %x, not %x; has it been replaced, or is the checksum of another version?",
			withoutQuery(d.url), d.check.kind, got, d.check.want)
	}
	return nil
}

// orFormat says that data is damaged where err is not about the connection.
func orFormat(err error, text string) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return damagedResponse(text)
	}
	return err
}

// damagedResponse is an invalid answer; another try may get a valid one.
type damagedResponse string

func (d damagedResponse) Error() string { return string(d) }

var errTooMuch = errors.New("more bytes than allowed")

// stallBytes is how many bytes of a body have to arrive within Limits.Stall. A server that
// sends fewer does not keep the connection, and the worker that waits, for long.
const stallBytes = 1 << 10

// progressReader counts the bytes that arrive, and extends the time limit of the download
// with every stallBytes of them.
type progressReader struct {
	from     io.Reader
	limit    int64
	watch    *time.Timer
	stall    time.Duration
	progress int // bytes since the time limit was extended
}

func (pr *progressReader) Read(p []byte) (int, error) {
	if pr.limit < 0 {
		return 0, errTooMuch
	}
	if int64(len(p)) > pr.limit+1 {
		p = p[:pr.limit+1]
	}
	n, err := pr.from.Read(p)
	pr.limit -= int64(n)
	if pr.progress += n; pr.progress >= stallBytes {
		pr.progress = 0
		pr.watch.Reset(pr.stall)
	}
	return n, err
}

func (d *download) tooLarge(size string) error {
	return permanentf(ReasonTooLarge, "%s is too large: %s, and %d bytes are allowed", withoutQuery(d.url), size, d.max)
}
