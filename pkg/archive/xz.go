package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// xzReader reads the .xz format (https://tukaani.org/xz/xz-file-format.txt),
// with the one filter LZMA2. The container is read here and not by the library:
// that allocates what a block's header asks for, which is up to 4 GiB.
type xzReader struct {
	in     *counted
	block  io.Reader // of the present block; nil between blocks
	inside bool      // of a stream
	check  byte      // how blocks are checked
	sum    hash.Hash
	err    error
}

// counted counts the bytes that are read, and never reads ahead.
type counted struct {
	in *bufio.Reader
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

var (
	errXZ     = errors.New("it is not what the xz format says")
	xzMagic   = []byte{0xFD, '7', 'z', 'X', 'Z', 0}
	xzFooter  = []byte("YZ")
	xzChecks  = map[byte]int{0: 0, 1: 4, 4: 8, 10: 32}
	xzCRC64   = crc64.MakeTable(crc64.ECMA)
	lzma2Only = byte(0x21)
)

func (x *xzReader) Read(p []byte) (int, error) {
	for x.err == nil {
		if x.block == nil {
			if x.err = x.next(); x.err != nil {
				break
			}
			continue
		}
		n, err := x.block.Read(p)
		if x.sum != nil {
			_, _ = x.sum.Write(p[:n])
		}
		switch {
		case errors.Is(err, io.EOF):
			x.err = x.endOfBlock()
		case err != nil:
			x.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, x.err
}

// next goes on to the next block; io.EOF after the last one.
func (x *xzReader) next() error {
	if !x.inside {
		return x.streamHeader()
	}
	x.in.n = 0
	size, err := x.in.ReadByte()
	if err != nil {
		return short(err)
	}
	if size == 0 {
		x.inside = false
		return x.index()
	}
	header := make([]byte, (int(size)+1)*4)
	header[0] = size
	if _, err := io.ReadFull(x.in, header[1:]); err != nil {
		return short(err)
	}
	dictionary, err := blockDictionary(header)
	if err != nil {
		return err
	}
	x.in.n = 0
	x.block, err = lzma.Reader2Config{DictCap: dictionary}.NewReader2(x.in)
	x.sum = newCheck(x.check)
	return err
}

func newCheck(kind byte) hash.Hash {
	switch kind {
	case 1:
		return crc32.NewIEEE()
	case 4:
		return crc64.New(xzCRC64)
	case 10:
		return sha256.New()
	}
	return nil
}

// streamHeader reads what a stream begins with; streams may follow each other,
// with zeros between them.
func (x *xzReader) streamHeader() error {
	first := x.in.n == 0
	header := make([]byte, 12)
	for {
		n, err := io.ReadFull(x.in, header[:4])
		if n == 0 && errors.Is(err, io.EOF) && !first {
			return io.EOF
		}
		if err != nil {
			return short(err)
		}
		if first || !bytes.Equal(header[:4], make([]byte, 4)) {
			break
		}
	}
	if _, err := io.ReadFull(x.in, header[4:]); err != nil {
		return short(err)
	}
	x.check = header[7]
	_, known := xzChecks[x.check]
	if !bytes.Equal(header[:6], xzMagic) || header[6] != 0 || !known || binary.LittleEndian.Uint32(header[8:]) != crc32.ChecksumIEEE(header[6:8]) {
		return errXZ
	}
	x.inside = true
	return nil
}

// blockDictionary is the memory that a block's header asks for.
func blockDictionary(header []byte) (int, error) {
	end := len(header) - 4
	flags := header[1]
	if binary.LittleEndian.Uint32(header[end:]) != crc32.ChecksumIEEE(header[:end]) || flags&0x3C != 0 {
		return 0, errXZ
	}
	rest := header[2:end]
	for _, bit := range []byte{0x40, 0x80} { // sizes, which are not needed
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, errXZ
		}
		rest = rest[n:]
	}
	if flags&0x03 != 0 || len(rest) < 3 || rest[0] != lzma2Only || rest[1] != 1 {
		return 0, errors.New("it uses a filter of xz other than LZMA2")
	}
	dictionary, err := lzma.DecodeDictCap(rest[2])
	if err != nil {
		return 0, errXZ
	}
	if dictionary > maxWindow {
		return 0, permanentf(ReasonTooLarge, "the archive needs %d MiB of memory to unpack; %d are allowed (xz -9 needs 64)", dictionary>>20, maxWindow>>20)
	}
	return int(max(dictionary, lzma.MinDictCap)), nil
}

// endOfBlock reads the padding and the check of a block.
func (x *xzReader) endOfBlock() error {
	x.block = nil
	if err := x.padding(); err != nil {
		return err
	}
	want := make([]byte, xzChecks[x.check])
	if _, err := io.ReadFull(x.in, want); err != nil {
		return short(err)
	}
	if x.sum == nil {
		return nil
	}
	got := x.sum.Sum(nil)
	if x.check != 10 { // CRCs are written little-endian
		for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
			got[i], got[j] = got[j], got[i]
		}
	}
	if !bytes.Equal(got, want) {
		return errors.New("its checksum is wrong")
	}
	return nil
}

func (x *xzReader) padding() error {
	for x.in.n%4 != 0 {
		if b, err := x.in.ReadByte(); err != nil || b != 0 {
			return errXZ
		}
	}
	return nil
}

// index reads over the list of blocks and the end of the stream.
func (x *xzReader) index() error {
	records, err := binary.ReadUvarint(x.in)
	if err != nil {
		return errXZ
	}
	for range 2 * min(records, 1<<40) {
		if _, err := binary.ReadUvarint(x.in); err != nil {
			return errXZ
		}
	}
	if err := x.padding(); err != nil {
		return err
	}
	rest := make([]byte, 4+12) // its checksum and the footer
	if _, err := io.ReadFull(x.in, rest); err != nil {
		return short(err)
	}
	if !bytes.Equal(rest[14:], xzFooter) {
		return errXZ
	}
	x.in.n = 1 // a stream has been read
	return nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
