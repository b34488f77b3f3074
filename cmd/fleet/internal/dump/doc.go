// Package dump writes an archive for support, for fleet dump: the objects of Fleet, the workloads of the
// manager, events, logs and metrics. No data of a Secret is ever part of it. What cannot be read is named in
// the archive and does not end the dump.
package dump
