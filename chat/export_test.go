package chat

import (
	"strconv"

	"voicebridge/persistence"
)

// AlignStart gives tests access to alignStart.
var AlignStart = alignStart

// LocalTitle and CleanTitle give tests access to the functions that make titles.
var (
	LocalTitle = localTitle
	CleanTitle = cleanTitle
)

// KeepConverted keeps converted images of the given sizes, in bytes, named by their numbers, and returns which are still
// there.
func KeepConverted(sizes ...int) (left []string) {
	var f fitted
	for n, size := range sizes {
		f.keep(fittedImage{fittedName{id: strconv.Itoa(n)}, persistence.Image{Data: make([]byte, size)}})
	}
	for _, k := range f.kept {
		left = append(left, k.id)
	}
	return left
}
