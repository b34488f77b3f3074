//go:build !unix

package reader

import "os"

// locks reports that nobody can say whether a process still lives, so that
// nothing is removed that others have left.
const locks = false

func tryLockFile(*os.File) bool { return true }
