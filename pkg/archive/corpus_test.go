package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

var update = flag.Bool("update", false, "write testdata again")

// A part is one entry of an archive that a test makes.
type part struct {
	name   string
	body   string
	kind   byte // tar's; 0: a file
	target string
	mode   int64
	pax    map[string]string
}

func file(name, body string) part { return part{name: name, body: body} }

func tarOf(parts ...part) []byte {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, p := range parts {
		h := &tar.Header{Name: p.name, Typeflag: p.kind, Linkname: p.target, Mode: p.mode, Size: int64(len(p.body)), ModTime: time.Unix(0, 0), PAXRecords: p.pax}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if p.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: p.kind, Name: p.name, PAXRecords: p.pax}
		}
		if err := t.WriteHeader(h); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(t, p.body); err != nil {
			panic(err)
		}
	}
	if err := t.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// rawHeader is a header of a tar that no honest writer would write.
func rawHeader(name string, kind byte, size int) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

func rawTar(blocks ...[]byte) []byte {
	var b bytes.Buffer
	for _, block := range blocks {
		b.Write(block)
		if pad := len(block) % 512; pad != 0 {
			b.Write(make([]byte, 512-pad))
		}
	}
	b.Write(make([]byte, 1024))
	return b.Bytes()
}

func paxRecord(key, value string) string {
	for n := 1; ; n++ {
		if s := fmt.Sprintf("%d %s=%s\n", n, key, value); len(s) == n {
			return s
		}
	}
}

func gz(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

func zst(data []byte) []byte {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

func xzOf(data []byte, check byte) []byte {
	var b bytes.Buffer
	z, err := xz.WriterConfig{CheckSum: check, BlockSize: 1 << 16, NoCheckSum: check == 0}.NewWriter(&b)
	if err != nil {
		panic(err)
	}
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// xzGreedy is the beginning of a .xz whose block asks for a dictionary.
func xzGreedy(property byte) []byte {
	var b bytes.Buffer
	b.Write([]byte{0xFD, '7', 'z', 'X', 'Z', 0, 0, 1})
	_ = binary.Write(&b, binary.LittleEndian, crc32.ChecksumIEEE([]byte{0, 1}))
	block := []byte{2, 0, 0x21, 1, property, 0, 0, 0}
	b.Write(block)
	_ = binary.Write(&b, binary.LittleEndian, crc32.ChecksumIEEE(block))
	b.Write(bytes.Repeat([]byte{1, 0, 0, 'x'}, 100))
	return b.Bytes()
}

// bz2 is the tar.bz2 of sound(); the standard library writes no bzip2. It comes
// from testdata/sound.tar.bz2, which TestCorpusOfBzip2 explains.
func bz2(t testing.TB) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", "sound.tar.bz2"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func zipOf(parts ...part) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, p := range parts {
		h := &zip.FileHeader{Name: p.name, Method: zip.Deflate}
		switch {
		case p.kind == tar.TypeSymlink:
			h.SetMode(os.ModeSymlink | 0o777)
			p.body = p.target
		case p.kind == tar.TypeFifo:
			h.SetMode(os.ModeNamedPipe | 0o644)
		case p.kind == tar.TypeChar:
			h.SetMode(os.ModeDevice | os.ModeCharDevice | 0o644)
		case strings.HasSuffix(p.name, "/"):
			h.SetMode(os.ModeDir | 0o755)
		case p.mode != 0:
			h.SetMode(os.FileMode(p.mode))
		default:
			h.SetMode(0o644)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(w, p.body)
	}
	_ = z.Close()
	return b.Bytes()
}

// sound is a chart as people pack them, with all that is allowed.
func sound() []part {
	return []part{
		{name: "pax_global_header", kind: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "0123456789abcdef"}},
		{name: "./", kind: tar.TypeDir, mode: 0o755},
		{name: "app/", kind: tar.TypeDir, mode: 0o700},
		file("app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 1.0.0\n"),
		file("./app/templates/deployment.yaml", "kind: Deployment\n"),
		{name: "app/hook.sh", body: "#!/bin/sh\n", mode: 0o6755},
		{name: "app/README", kind: tar.TypeSymlink, target: "docs/../docs/README.md"},
		file("app/docs/README.md", strings.Repeat("read me\n", 5000)),
		{name: "app/docs/", kind: tar.TypeDir, mode: 0o755},
		{name: "app/templates/chart.yaml", kind: tar.TypeSymlink, target: "../Chart.yaml"},
	}
}

// soundTree is the tree that sound unpacks to.
var soundTree = map[string]string{
	"app":                           "directory",
	"app/Chart.yaml":                "-rw-r--r-- 40",
	"app/templates":                 "directory",
	"app/templates/deployment.yaml": "-rw-r--r-- 17",
	"app/hook.sh":                   "-rwxr-xr-x 10",
	"app/README":                    "-> docs/../docs/README.md",
	"app/docs":                      "directory",
	"app/docs/README.md":            "-rw-r--r-- 40000",
	"app/templates/chart.yaml":      "-> ../Chart.yaml",
}

// An evil archive, and why it has to be refused.
type evil struct {
	format string
	data   []byte
	limits string // "small" for tests of limits
	reason string
	text   string // part of the error
}

func evils() map[string]evil {
	symlink := func(name, target string) part { return part{name: name, kind: tar.TypeSymlink, target: target} }
	chain := []part{}
	for i := range 50 {
		chain = append(chain, symlink(fmt.Sprint("l", i), fmt.Sprint("l", i+1)))
	}
	all := map[string]evil{
		"dotdot":            {data: tarOf(file("../escaped", "x")), text: "leads out"},
		"dotdot-inside":     {data: tarOf(file("a/../../escaped", "x")), text: "leads out"},
		"dotdot-harmless":   {data: tarOf(file("a/../b", "x")), text: "leads out"},
		"absolute":          {data: tarOf(file("/tmp/escaped", "x")), text: "absolute"},
		"drive":             {data: tarOf(file("C:/escaped", "x")), text: "absolute"},
		"backslash":         {data: tarOf(file(`a\..\..\escaped`, "x")), text: "backslash"},
		"control":           {data: tarOf(file("a\x1b[2Jb", "x")), text: "control"},
		"bidirectional":     {data: tarOf(file("a\u202eb", "x")), text: "control"},
		"no-utf8":           {data: rawTar(rawHeader("a\xff", '0', 0)), text: "control"},
		"link-out":          {data: tarOf(symlink("a", "../escaped")), text: "leads out"},
		"link-absolute":     {data: tarOf(symlink("a", "/etc/passwd")), text: "absolute"},
		"link-itself":       {data: tarOf(symlink("a", "a")), text: "circle"},
		"link-circle":       {data: tarOf(symlink("a", "b"), symlink("b", "a")), text: "circle"},
		"link-long-chain":   {data: tarOf(chain...), text: "circle"},
		"link-chain-out":    {data: tarOf(symlink("d/e/up", "../.."), symlink("out", "d/e/up/../escaped")), text: "leads out"},
		"link-then-below":   {data: tarOf(symlink("a", "b"), file("a/x", "x")), text: "link"},
		"below-then-link":   {data: tarOf(file("a/x", "x"), symlink("a", "b")), text: "link"},
		"link-then-file":    {data: tarOf(symlink("a", "b"), file("a", "x")), text: "link"},
		"hard-link":         {data: tarOf(file("a", "x"), part{name: "b", kind: tar.TypeLink, target: "a"}), text: "hard link"},
		"hard-link-out":     {data: tarOf(part{name: "b", kind: tar.TypeLink, target: "/etc/passwd"}), text: "hard link"},
		"device":            {data: tarOf(part{name: "null", kind: tar.TypeChar}), text: "device"},
		"block-device":      {data: tarOf(part{name: "sda", kind: tar.TypeBlock}), text: "device"},
		"fifo":              {data: tarOf(part{name: "p", kind: tar.TypeFifo}), text: "named pipe"},
		"sparse-gnu":        {data: rawTar(rawHeader("s", 'S', 0)), reason: "any", text: ""},
		"sparse-pax":        {data: rawTar(rawHeader("PaxHeaders/s", 'x', len(sparsePAX)), []byte(sparsePAX), rawHeader("s", '0', 0)), text: "sparse"},
		"unknown-kind":      {data: rawTar(rawHeader("odd", 'Z', 0)), text: "neither"},
		"twice":             {data: tarOf(file("a", "1"), file("a", "2")), text: "twice"},
		"twice-dot":         {data: tarOf(file("a", "1"), file("./a", "2")), text: "twice"},
		"file-is-directory": {data: tarOf(file("a", "1"), file("a/b", "2")), text: "twice"},
		"case":              {data: tarOf(file("Chart.yaml", "1"), file("chart.yaml", "2")), text: "upper and lower"},
		"case-directory":    {data: tarOf(file("Templates/a", "1"), file("templates/b", "2")), text: "upper and lower"},
		"empty-name":        {data: rawTar(rawHeader("", '0', 0)), text: "empty"},
		"truncated":         {format: "tgz", data: gz(tarOf(file("a", strings.Repeat("abcdefg", 1000))))[:60], reason: "InvalidArchive", text: "cannot be read"},
		"bad-checksum":      {format: "tgz", data: flip(gz(tarOf(file("a", "x"))), -6), reason: "InvalidArchive", text: "checksum"},
		"no-archive":        {format: "tgz", data: []byte("<html>not found</html>"), reason: "InvalidArchive", text: "cannot be read"},
		"bad-xz-checksum":   {format: "xz", data: flip(xzOf([]byte("x"), 4), -25), reason: "InvalidArchive", text: "corrupt"},
		"bad-xz-index":      {format: "xz", data: flip(xzOf([]byte("x"), 4), -13), reason: "InvalidArchive", text: "corrupt"},
		"greedy-xz":         {format: "xz", data: xzGreedy(39), reason: "TooLarge", text: "memory"},
		"zip-dotdot":        {format: "zip", data: zipOf(file("../escaped", "x")), text: "leads out"},
		"zip-absolute":      {format: "zip", data: zipOf(file("/tmp/escaped", "x")), text: "absolute"},
		"zip-backslash":     {format: "zip", data: zipOf(file(`..\escaped`, "x")), text: "backslash"},
		"zip-link-out":      {format: "zip", data: zipOf(symlink("a", "../escaped")), text: "leads out"},
		"zip-link-absolute": {format: "zip", data: zipOf(symlink("a", "/etc/passwd")), text: "absolute"},
		"zip-fifo":          {format: "zip", data: zipOf(part{name: "p", kind: tar.TypeFifo}), text: "named pipe"},
		"zip-device":        {format: "zip", data: zipOf(part{name: "p", kind: tar.TypeChar}), text: "named pipe"},
		"zip-twice":         {format: "zip", data: zipOf(file("a", "1"), file("a", "2")), text: "twice"},
		"zip-case":          {format: "zip", data: zipOf(file("a", "1"), file("A", "2")), text: "upper and lower"},
		"zip-no-zip":        {format: "zip", data: []byte("PK no"), reason: "InvalidArchive", text: "cannot be read"},
		"zip-before":        {format: "zip", data: zipBefore(), reason: "InvalidArchive", text: "cannot be read"},
		"too-many":          {limits: "small", data: tarOf(file("1", ""), file("2", ""), file("3", ""), file("4", ""), file("5", "")), reason: "TooLarge", text: "more than 4"},
		"too-many-above":    {limits: "small", data: tarOf(file("1/2/3/4/5", "")), reason: "TooLarge", text: "directories"},
		"too-deep":          {limits: "small", data: tarOf(file("1/1/1/1/1/1/1", "")), reason: "TooLarge", text: "deep"},
		"too-long":          {limits: "small", data: tarOf(file(strings.Repeat("a/", 30)+"b", "")), reason: "TooLarge", text: "bytes"},
		"long-element":      {data: tarOf(file(strings.Repeat("a", 256), "")), reason: "TooLarge", text: "between two slashes"},
		"too-large":         {limits: "small", data: tarOf(file("a", strings.Repeat("x", 60)), file("b", strings.Repeat("x", 60))), reason: "TooLarge", text: "unpacks to more than 100"},
		"file-too-large":    {limits: "small", data: tarOf(file("a", strings.Repeat("x", 71))), reason: "TooLarge", text: "file of more than 70"},
		"single-too-large":  {limits: "small", format: "gz", data: gz(make([]byte, 71)), reason: "TooLarge", text: "file of more than 70"},
		"zip-too-many":      {limits: "small", format: "zip", data: zipOf(file("1", ""), file("2", ""), file("3", ""), file("4", ""), file("5", "")), reason: "TooLarge", text: "more than 4"},
	}
	return complete(all)
}

// bombs are evil and large; they are not in the corpus.
func bombs() map[string]evil {
	return complete(map[string]evil{
		"bomb-gz":     {format: "tgz", data: gz(tarOf(file("a", strings.Repeat("\x00", 24<<20)))), reason: "TooLarge", text: "bomb"},
		"bomb-single": {format: "gz", data: gz(make([]byte, 24<<20)), reason: "TooLarge", text: "bomb"},
		"bomb-zst":    {format: "tar.zst", data: zst(tarOf(file("a", strings.Repeat("\x00", 24<<20)))), reason: "TooLarge", text: "bomb"},
		"bomb-zip":    {format: "zip", data: zipOf(file("a", strings.Repeat("\x00", 24<<20))), reason: "TooLarge", text: "bomb"},
	})
}

func complete(all map[string]evil) map[string]evil {
	for name, e := range all {
		if e.format == "" {
			e.format = "tar"
		}
		if e.reason == "" {
			e.reason = "UnsafeArchive"
		}
		all[name] = e
	}
	return all
}

// sparsePAX says of a file of no bytes that it has 1 TiB, as GNU tar does.
var sparsePAX = paxRecord("GNU.sparse.size", "1099511627776") + paxRecord("GNU.sparse.numblocks", "1") + paxRecord("GNU.sparse.map", "0,0")

// zipBefore is a zip whose file stands before the beginning of the archive.
func zipBefore() []byte {
	data := zipOf(file("a", "x"))
	binary.LittleEndian.PutUint32(data[len(data)-6:], 1<<20) // where the list of files begins
	return data
}

// flip changes one byte, counted from the end if below 0.
func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 0xFF
	return data
}

// The corpus in testdata is what this file makes: it is there for people, and
// for other programs.
func TestCorpus(t *testing.T) {
	for name, e := range evils() {
		at := filepath.Join("testdata", "evil", name+"."+e.format)
		if *update {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, e.data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		// How compressed bytes look is up to the version of Go.
		if got, err := os.ReadFile(at); err != nil || len(got) == 0 || e.format == "tar" && !bytes.Equal(got, e.data) {
			t.Errorf("%s: run the test with -update (%v)", at, err)
		}
	}
}
