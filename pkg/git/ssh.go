package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// defaultSSHUser is the user where the URL names none.
const defaultSSHUser = "git"

// maxStderrBytes bounds what is kept of a remote's complaints.
const maxStderrBytes = 4 << 10

// An sshSession runs a service at a remote.
type sshSession struct {
	e       *sourceEntry
	to      service
	client  *ssh.Client
	session *ssh.Session
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *cappedBuffer
	stop    func() bool // ends the watch over the context
}

// dialSSH connects and starts a service. ctx bounds the conversation.
func dialSSH(ctx context.Context, e *sourceEntry, to service) (*sshSession, error) {
	creds := e.src.Credentials
	if len(creds.SSHPrivateKey) == 0 {
		return nil, permanentf(ReasonInvalidCredentials, "git host %q is reached over SSH, which needs a private key (clientSecretName)", e.ep.display())
	}
	signer, err := ssh.ParsePrivateKey(creds.SSHPrivateKey)
	if err != nil {
		return nil, permanentf(ReasonInvalidCredentials, "the SSH private key cannot be read")
	}
	check, algorithms, err := e.hostKeys()
	if err != nil {
		return nil, err
	}
	user := e.ep.user
	if user == "" {
		user = defaultSSHUser
	}
	var offered atomic.Bool
	cfg := &ssh.ClientConfig{
		User:              user,
		HostKeyCallback:   check,
		HostKeyAlgorithms: algorithms,
		ClientVersion:     "SSH-2.0-fleet",
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			offered.Store(true)
			return []ssh.Signer{signer}, nil
		})},
	}
	conn, err := dialer(e.addresses).DialContext(ctx, "tcp", e.ep.address())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, chans, reqs, err := ssh.NewClientConn(conn, e.ep.address(), cfg)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, e.handshakeFault(ctx, err, offered.Load())
	}
	s := &sshSession{e: e, to: to, client: ssh.NewClient(c, chans, reqs), stderr: &cappedBuffer{}, stop: stop}
	if err := s.startCommand(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// handshakeFault distinguishes a refused key from a lost connection: when the key was
// offered and the connection did not break, the key was refused.
func (e *sourceEntry) handshakeFault(ctx context.Context, err error, offered bool) error {
	var netErr net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !offered, errors.As(err, &netErr), errors.Is(err, io.EOF):
		return err
	}
	return permanentf(ReasonAuthenticationRefused, "git host %q refuses the SSH key", e.ep.display())
}

// hostKeys is the check of the remote's host key, and the algorithms of the
// keys that are known, so that the remote shows one of them.
func (e *sourceEntry) hostKeys() (ssh.HostKeyCallback, []string, error) {
	host := e.ep.display()
	refused := permanentf(ReasonHostKeyRefused, "no host key of git host %q is known: add it to known_hosts of the secret", host)
	unknown := func(key ssh.PublicKey) error {
		if e.unknownHost == nil {
			return refused
		}
		e.unknownHost(host, ssh.FingerprintSHA256(key))
		return nil
	}
	if len(e.src.Credentials.KnownHosts) == 0 {
		if e.unknownHost == nil {
			return nil, nil, refused // without a connection
		}
		return func(_ string, _ net.Addr, key ssh.PublicKey) error { return unknown(key) }, nil, nil
	}
	file, err := os.CreateTemp(e.dir, "known_hosts")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errCache, err)
	}
	defer os.Remove(file.Name())
	_, err = file.Write(e.src.Credentials.KnownHosts)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errCache, err)
	}
	known, err := knownhosts.New(file.Name())
	if err != nil {
		return nil, nil, permanentf(ReasonInvalidCredentials, "known_hosts cannot be read")
	}
	check := func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := known(address, remote, key)
		var mismatch *knownhosts.KeyError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
			return unknown(key)
		}
		return permanentf(ReasonHostKeyRefused, "git host %q shows another host key (%s) than the one that is known", host, ssh.FingerprintSHA256(key))
	}
	return check, knownAlgorithms(known, e.ep.address()), nil
}

// knownAlgorithms asks the known hosts for the keys of an address by showing them one
// that no host has.
func knownAlgorithms(known ssh.HostKeyCallback, address string) []string {
	var unknown *knownhosts.KeyError
	if !errors.As(known(address, &net.TCPAddr{}, noKey{}), &unknown) {
		return nil
	}
	var list []string
	for _, k := range unknown.Want {
		algorithms := []string{k.Key.Type()}
		if k.Key.Type() == ssh.KeyAlgoRSA {
			algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range algorithms {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// noKey is a host key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }

func (s *sshSession) startCommand() error {
	session, err := s.client.NewSession()
	if err != nil {
		return err
	}
	s.session = session
	session.Stderr = s.stderr
	if s.stdin, err = session.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = session.StdoutPipe(); err != nil {
		return err
	}
	return session.Start(s.e.ep.command(s.to))
}

func (s *sshSession) advertised(_ context.Context, keep func(name []byte) bool) (*packp.AdvRefs, error) {
	refs, err := decodeRefs(s.stdout, keep)
	if err == nil || !errors.Is(err, packp.ErrEmptyInput) {
		return refs, answered(err)
	}
	// Nothing came: the command's exit says whether it ran at all.
	_ = s.stdin.Close()
	var exit *ssh.ExitError
	err = s.session.Wait()
	if s.to == serviceReceive && errors.As(err, &exit) {
		return nil, permanentf(ReasonPushRefused, "git host %q lets this key not write to %q: it says %s",
			s.e.ep.display(), strings.Trim(s.e.ep.path, "/"), s.e.quote(s.stderr.String()))
	}
	if errors.As(err, &exit) {
		return nil, permanentf(ReasonRepositoryNotFound, "git host %q does not give the repository %q: it says %s",
			s.e.ep.display(), strings.Trim(s.e.ep.path, "/"), s.e.quote(s.stderr.String()))
	}
	return nil, answered(io.ErrUnexpectedEOF)
}

func (s *sshSession) uploadPack(_ context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	if err := req.UploadRequest.Encode(s.stdin); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := req.UploadHaves.Encode(s.stdin, false); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := pktline.NewEncoder(s.stdin).EncodeString("done\n"); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if err := s.stdin.Close(); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	return io.NopCloser(s.stdout), nil
}

func (s *sshSession) receivePack(_ context.Context, req []byte) (io.ReadCloser, error) {
	if _, err := s.stdin.Write(req); err != nil {
		return nil, fmt.Errorf("send commit: %w", err)
	}
	if err := s.stdin.Close(); err != nil {
		return nil, fmt.Errorf("send commit: %w", err)
	}
	return io.NopCloser(s.stdout), nil
}

func (s *sshSession) close() {
	s.stop()
	if s.session != nil {
		_ = s.session.Close()
	}
	_ = s.client.Close()
}

// cappedBuffer keeps the first bytes written to it.
type cappedBuffer struct {
	buf []byte
}

func (c *cappedBuffer) Write(p []byte) (int, error) {
	c.buf = append(c.buf, p[:min(len(p), maxStderrBytes-len(c.buf))]...)
	return len(p), nil
}

func (c *cappedBuffer) String() string { return string(c.buf) }
