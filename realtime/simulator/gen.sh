#!/bin/sh
# Makes the spoken clips from clips/clips.txt and the user's speech in testdata.
# Needs espeak-ng and ffmpeg with libopus (Debian: apt-get install espeak-ng ffmpeg).
# The output is committed: run this only after a text has changed.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

encode() { # in.wav out.ogg
	ffmpeg -nostdin -v error -y -i "$1" -ar 48000 -ac 1 -c:a libopus -b:a 24k -frame_duration 20 \
		-application voip -fflags +bitexact -flags:a +bitexact -map_metadata -1 "$2"
}

rm -f clips/*.ogg
while IFS="$(printf '\t')" read -r name text; do
	espeak-ng -v en-us+f3 -s 155 -w "$tmp/clip.wav" "$text"
	encode "$tmp/clip.wav" "clips/$name.ogg"
done <clips/clips.txt

# The user: another voice, half a second of silence before and 2.5 s after it, so
# that a browser that loops the file makes one turn after the other.
espeak-ng -v en-us+m3 -s 165 -a 110 -w "$tmp/user.wav" "Hello, can you show me the sales of this year as a chart?"
ffmpeg -nostdin -v error -y -i "$tmp/user.wav" -af "adelay=500:all=1,apad=pad_dur=2.5" -ar 48000 -ac 1 \
	-c:a pcm_s16le -fflags +bitexact -flags:a +bitexact -map_metadata -1 testdata/user.wav
encode testdata/user.wav testdata/user.ogg
