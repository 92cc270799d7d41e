package chat

// AlignStart gives tests access to alignStart.
var AlignStart = alignStart

// LocalTitle and CleanTitle give tests access to the functions that make titles.
var (
	LocalTitle = localTitle
	CleanTitle = cleanTitle
)
