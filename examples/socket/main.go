// Command socket talks to voicebridge without WebRTC, as a server, a telephone module or a device does: it says what is
// in a WAV file, prints both sides, and writes the answer to another file.
//
//	go run ./examples/socket -say question.wav -answer answer.wav
//
// The file has 24,000 samples a second of 16 bits, mono: ffmpeg -i anything -ar 24000 -ac 1 question.wav
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

func main() {
	server := flag.String("server", "ws://127.0.0.1:8080/v1/realtime", "address of voicebridge; ?thread_id=… goes on with a thread")
	token := flag.String("token", "", "a token, where voicebridge asks for one")
	say := flag.String("say", "question.wav", "what to say")
	answer := flag.String("answer", "answer.wav", "where to write the answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := call(ctx, *server, *token, *say, *answer, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "socket:", err)
		os.Exit(1)
	}
}

// event holds what this client reads of an event.
type event struct {
	Type       string `json:"type"`
	Delta      string `json:"delta"` // words, or sound in base64
	Transcript string `json:"transcript"`
	Reason     string `json:"reason"`
}

type object = map[string]any

// call makes one call, says what is in a file, writes what it hears to another one, and hangs up.
func call(ctx context.Context, server, token, say, answer string, out io.Writer) error {
	question, err := read(say)
	if err != nil {
		return err
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	conn, response, err := websocket.Dial(ctx, server, &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // of a socket
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(4 << 20)
	fmt.Fprintln(out, "(thread "+response.Header.Get("X-Thread-Id")+")")
	// A microphone sends as it hears; a file may be sent at once. Silence at its end ends the turn.
	question = append(question, make([]byte, 2*48_000)...)
	for part := range slices.Chunk(question, 48_000) {
		if err := wsjson.Write(ctx, conn, object{"type": "input_audio_buffer.append", "audio": part}); err != nil {
			return err
		}
	}
	var heard []byte
	for done := false; !done; {
		var e event
		if err := wsjson.Read(ctx, conn, &e); err != nil {
			return err
		}
		switch e.Type {
		case "conversation.item.input_audio_transcription.completed":
			fmt.Fprintln(out, "You: "+e.Transcript)
		case "response.output_audio_transcript.done":
			fmt.Fprintln(out, "It: "+e.Transcript)
		case "response.output_audio.delta":
			sound, err := base64.StdEncoding.DecodeString(e.Delta)
			if err != nil {
				return err
			}
			heard = append(heard, sound...)
		case "response.done":
			done = len(heard) > 0
		case "bridge.ended":
			return errors.New("the call ended: " + e.Reason)
		}
	}
	return errors.Join(os.WriteFile(answer, wav(heard), 0o600), conn.Close(websocket.StatusNormalClosure, ""))
}

// read returns the samples of a WAV file.
func read(name string) ([]byte, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	format := []byte{1, 0, 1, 0, 0xc0, 0x5d, 0, 0} // PCM, mono, 24,000 samples a second
	at := bytes.Index(file, []byte("data"))
	if len(file) < 44 || at < 0 || len(file) < at+8 || !bytes.Equal(file[20:28], format) || binary.LittleEndian.Uint16(file[34:]) != 16 {
		return nil, fmt.Errorf("%s is no WAV file with 24,000 samples a second of 16 bits, mono", name)
	}
	return file[at+8:], nil
}

// wav returns a WAV file with samples.
func wav(samples []byte) []byte {
	var file bytes.Buffer
	for _, part := range []any{
		[]byte("RIFF"), uint32(36 + len(samples)), []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(24_000), uint32(48_000), uint16(2), uint16(16),
		[]byte("data"), uint32(len(samples)), samples,
	} {
		_ = binary.Write(&file, binary.LittleEndian, part) // a buffer takes everything
	}
	return file.Bytes()
}
