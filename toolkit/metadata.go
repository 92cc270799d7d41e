package toolkit

import (
	"bytes"
	"encoding/json"
)

// ownMetadata is the name of our own entry in the metadata of a part.
const ownMetadata = "voicebridge"

// wrappedKey holds metadata that is not an object: a UIMessage accepts only objects.
const wrappedKey = "value_"

func wrapMetadata(data json.RawMessage) json.RawMessage {
	if bytes.TrimSpace(data)[0] == '{' {
		return bytes.Clone(data)
	}
	return Encode(map[string]json.RawMessage{wrappedKey: data})
}

// Metadata returns what [Invocation.SetMetadata] attached for the provider, from the fields of a
// part, or nil.
func Metadata(fields json.RawMessage, provider string) json.RawMessage {
	var part struct {
		Call map[string]json.RawMessage `json:"callProviderMetadata"`
	}
	if fields == nil || json.Unmarshal(fields, &part) != nil {
		return nil
	}
	return unwrapMetadata(part.Call[provider])
}

func unwrapMetadata(data json.RawMessage) json.RawMessage {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(data, &wrapped) == nil && len(wrapped) == 1 && wrapped[wrappedKey] != nil {
		return wrapped[wrappedKey]
	}
	return data
}
