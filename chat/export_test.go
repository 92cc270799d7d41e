package chat

// Anchored lets tests reach anchored.
var Anchored = anchored

// LocalTitle and CleanTitle let tests reach the makers of titles.
var (
	LocalTitle = localTitle
	CleanTitle = cleanTitle
)
