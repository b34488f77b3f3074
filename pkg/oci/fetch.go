package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// errDamaged is returned for bytes that are not the announced ones.
var errDamaged = errors.New("not what was announced")

// manifest reads the manifest that a tag or digest names.
func (s *session) manifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	desc, body, err := s.repo.FetchReference(ctx, reference)
	if err != nil {
		return desc, nil, err
	}
	defer body.Close()
	if desc.Size > metadataBytes {
		return desc, nil, s.tooLarge("manifest", desc.Size, metadataBytes)
	}
	var data bytes.Buffer // grows with what arrives, not with what is announced
	err = copyDescribed(body, desc, &data)
	return desc, data.Bytes(), err
}

// blob copies one blob of at most limit bytes. Only without an error is what
// has been written the blob.
func (s *session) blob(ctx context.Context, desc ocispec.Descriptor, limit int64, into io.Writer) error {
	if desc.Size > limit {
		return s.tooLarge("layer", desc.Size, limit)
	}
	if desc.Size < 0 || desc.Digest.Validate() != nil {
		return errDamaged
	}
	body, err := s.repo.Blobs().Fetch(ctx, desc)
	if err != nil {
		return err
	}
	defer body.Close()
	return copyDescribed(body, desc, into)
}

// copyDescribed copies what desc describes, and not more than one byte beyond is read.
func copyDescribed(from io.Reader, desc ocispec.Descriptor, into io.Writer) error {
	verifier := desc.Digest.Verifier()
	n, err := io.Copy(io.MultiWriter(into, verifier), io.LimitReader(from, desc.Size+1))
	if err != nil {
		return err
	}
	if n != desc.Size || !verifier.Verified() {
		return fmt.Errorf("%w: %d bytes of %d", errDamaged, n, desc.Size)
	}
	return nil
}

func (s *session) tooLarge(part string, got, limit int64) error {
	return permanentf(ReasonTooLarge, "%s of %q in registry %q has %d bytes; at most %d are allowed", part, s.artifact, s.host, got, limit)
}

// decode reads the JSON of a manifest.
func (s *session) decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return permanentf(ReasonNotRegistry, "manifest of %q in registry %q is no manifest", s.artifact, s.host)
	}
	return nil
}

// putBlob stores a blob unless it is there.
func (s *session) putBlob(ctx context.Context, desc ocispec.Descriptor, data []byte) error {
	there, err := s.repo.Blobs().Exists(ctx, desc)
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden {
		there, err = false, nil // it may have the right to push only; pushing shows that
	}
	if err != nil || there {
		return err
	}
	return s.repo.Blobs().Push(ctx, desc, bytes.NewReader(data))
}
