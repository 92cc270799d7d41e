package ws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/coder/websocket"

	"voicebridge/realtime"
)

// maxRead is the largest event that is read: 15 MiB of base64, as much as OpenAI takes itself, and what is around it.
const maxRead = 16 << 20

// socket is a WebSocket that carries text.
type socket interface {
	Read(ctx context.Context) ([]byte, error)
	Write(ctx context.Context, data []byte) error
	Ping(ctx context.Context) error
	// Close says goodbye, CloseNow does not.
	Close() error
	CloseNow() error
}

// plain is a socket of the library.
type plain struct{ *websocket.Conn }

func (s plain) Read(ctx context.Context) ([]byte, error) {
	_, data, err := s.Conn.Read(ctx)
	return data, err
}

func (s plain) Write(ctx context.Context, data []byte) error {
	return s.Conn.Write(ctx, websocket.MessageText, data)
}

func (s plain) Close() error { return s.Conn.Close(websocket.StatusNormalClosure, "") }

// connect opens a socket. Errors: *realtime.APIError when the upstream refused.
func connect(ctx context.Context, address string, header http.Header, protocols []string, key string, client *http.Client) (socket, error) {
	own := http.Client{}
	if client != nil {
		own = *client
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key is for this address
	conn, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{                            //nolint:bodyclose // of a socket
		HTTPClient: &own, HTTPHeader: header, Subprotocols: protocols, CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		conn.SetReadLimit(maxRead)
		return plain{conn}, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to upstream: %w", context.Cause(ctx))
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode >= 300:
		return nil, fmt.Errorf("connect to upstream: %w", realtime.ReadAPIError(res, key))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address may hold a key
	}
	return nil, fmt.Errorf("connect to upstream: %w", err)
}
