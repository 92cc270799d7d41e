package chat

// AlignStart lets tests reach alignStart.
var AlignStart = alignStart

// LocalTitle and CleanTitle let tests reach the makers of titles.
var (
	LocalTitle = localTitle
	CleanTitle = cleanTitle
)
