package main

import (
	"slices"
	"testing"
)

func TestMappingsOf(t *testing.T) {
	t.Parallel()
	const table = `00400000-01912000 r-xp 00000000 fe:01 1234   /usr/bin/voicebridge
01912000-0317e000 r--p 01512000 fe:01 1234   /usr/bin/voicebridge
0317e000-03322000 rw-p 02d7e000 fe:01 1234   /usr/bin/voicebridge
7f0000000000-7f0000001000 r-xp 00000000 fe:01 99   /usr/lib/libc.so.6
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]
bad
zz-yy r-xp 00000000 fe:01 1234   /usr/bin/voicebridge
00500000-00400000 r-xp 00000000 fe:01 1234   /usr/bin/voicebridge
`
	want := []mapping{{0x400000, 0x1512000}, {0x1912000, 0x186c000}}
	if got := mappingsOf(table, "/usr/bin/voicebridge"); !slices.Equal(got, want) {
		t.Errorf("mappingsOf() = %x, want %x", got, want)
	}
	releaseMemory() // and the program still works
}
