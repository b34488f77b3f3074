package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// The list of what is in an image, in SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/):
// its files with their digests, and the modules that its programs say they were
// linked from.

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Files         []spdxFile         `json:"files"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Version       string         `json:"versionInfo,omitempty"`
	Download      string         `json:"downloadLocation"`
	FilesAnalyzed bool           `json:"filesAnalyzed"`
	SourceInfo    string         `json:"sourceInfo,omitempty"`
	References    []spdxExternal `json:"externalRefs,omitempty"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxFile struct {
	ID        string         `json:"SPDXID"`
	Name      string         `json:"fileName"`
	Checksums []spdxChecksum `json:"checksums"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const (
	spdxRoot  = "SPDXRef-DOCUMENT"
	spdxImage = "SPDXRef-Image"
	noAnswer  = "NOASSERTION"
)

// billOfMaterials lists what the files of an image are made of.
func billOfMaterials(r recipe, files []file, o options) ([]byte, error) {
	d := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: spdxRoot, Name: r.name + "-" + o.version,
		Creation:      spdxCreation{Created: o.epoch.Format(time.RFC3339), Creators: []string{"Tool: fleet-hack-image"}},
		Packages:      []spdxPackage{{ID: spdxImage, Name: r.name, Version: o.version, Download: noAnswer}},
		Relationships: []spdxRelationship{{spdxRoot, "DESCRIBES", spdxImage}},
	}
	all := sha256.New()
	modules := map[string]spdxPackage{}
	for _, f := range files {
		if strings.HasSuffix(f.path, "/") {
			continue
		}
		sum := sha256.Sum256(f.data)
		all.Write(sum[:])
		entry := spdxFile{
			ID: spdxID("File", f.path), Name: "./" + f.path,
			Checksums: []spdxChecksum{{"SHA256", hex.EncodeToString(sum[:])}},
		}
		d.Files = append(d.Files, entry)
		d.Relationships = append(d.Relationships, spdxRelationship{spdxImage, "CONTAINS", entry.ID})
		if path.Dir(f.path) != "usr/bin" {
			continue
		}
		linked, err := linkedModules(f.data)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", path.Base(f.path), err)
		}
		for _, m := range linked {
			modules[m.ID] = m
			d.Relationships = append(d.Relationships, spdxRelationship{entry.ID, "DEPENDS_ON", m.ID})
		}
	}
	for _, m := range modules {
		d.Packages = append(d.Packages, m)
	}
	slices.SortFunc(d.Packages[1:], func(a, b spdxPackage) int { return strings.Compare(a.ID, b.ID) })
	d.Namespace = fmt.Sprintf("https://github.com/fleetworkspace/fleet/sbom/%s/%s/%x", r.name, o.version, all.Sum(nil))
	text, err := json.MarshalIndent(d, "", " ")
	return append(text, '\n'), err
}

// linkedModules are the modules that a program was linked from, Go's own
// library included.
func linkedModules(program []byte) ([]spdxPackage, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("read what it was built from: %w", err)
	}
	out := []spdxPackage{modulePackage(debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, modulePackage(*m))
	}
	return out, nil
}

func modulePackage(m debug.Module) spdxPackage {
	p := spdxPackage{
		ID: spdxID("Module", m.Path+"-"+m.Version), Name: m.Path, Version: m.Version, Download: noAnswer,
		References: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
	if m.Sum != "" {
		p.SourceInfo = "go.sum " + m.Sum
	}
	return p
}

var spdxForbidden = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdxID is an identifier that SPDX allows: letters, digits, dots and dashes.
func spdxID(kind, name string) string {
	return "SPDXRef-" + kind + "-" + spdxForbidden.ReplaceAllString(name, "-")
}
