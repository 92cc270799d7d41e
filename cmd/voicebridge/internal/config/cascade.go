package config

import "voicebridge/web/access"

// Cascade is an upstream of one's own: speech recognition, a text model and speech synthesis.
type Cascade struct {
	// The server that writes down what the caller says, by OpenAI's API for transcriptions.
	STT CascadeSTT `yaml:"stt,flow"`
	// The server that speaks, by OpenAI's API for speech.
	TTS CascadeTTS `yaml:"tts,flow"`
	// The model that answers.
	Text CascadeText `yaml:"text,flow"`
	// When the caller's turn is over: pauses are for semantic_vad, and for server_vad without silence_duration_ms.
	Turns CascadeTurns `yaml:"turns,flow"`
}

// CascadeSTT is a server of speech recognition. It gets WAV at 16 kHz.
type CascadeSTT struct {
	// Its base, such as http://127.0.0.1:8000/v1; required.
	URL string `yaml:"url" format:"url"`
	// Empty: the server's.
	Model string `yaml:"model" max:"200"`
	// What callers speak, such as en, unless the call says it. Empty: any.
	Language string `yaml:"language" format:"language"`
	// What the recogniser is told of words to expect, unless the call says it.
	Prompt string `yaml:"prompt" max:"4096"`
	// The variable that holds its key. Empty: none is sent.
	APIKeyEnv string `yaml:"api_key_env" format:"variable"`
	// After url; whisper.cpp has /inference.
	Path string `yaml:"path" default:"/audio/transcriptions" format:"path"`

	Key access.Secret `yaml:"-"` // what the variable holds
}

// CascadeTTS is a server of speech synthesis.
type CascadeTTS struct {
	// Its base, such as http://127.0.0.1:8880/v1; required.
	URL string `yaml:"url" format:"url"`
	// Empty: the server's.
	Model string `yaml:"model" default:"kokoro" max:"200"`
	// Empty: the server's.
	Voice string `yaml:"voice" default:"af_heart" max:"200"`
	// 1 is as usual.
	Speed float64 `yaml:"speed" default:"1" min:"0.25" max:"4"`
	// What it is asked for; what comes decides.
	Format string `yaml:"format" default:"pcm" enum:"pcm,wav"`
	// Samples a second of pcm that does not say it.
	Rate int `yaml:"rate" default:"24000" min:"8000" max:"48000"`
	// The variable that holds its key. Empty: none is sent.
	APIKeyEnv string `yaml:"api_key_env" format:"variable"`
	// After url.
	Path string `yaml:"path" default:"/audio/speech" format:"path"`

	Key access.Secret `yaml:"-"` // what the variable holds
}

// CascadeText is the model that answers.
type CascadeText struct {
	// Empty: the assistant's, else text.provider.
	Provider string `yaml:"provider" enum:",openai,anthropic,google,ollama,simulator"`
	// Empty: the assistant's, else the provider's in text.model.
	Model string `yaml:"model" max:"200"`
}

// CascadeTurns says when a turn begins and ends.
type CascadeTurns struct {
	// What tells speech from noise: silero, a small neural network, or energy, which is loudness alone.
	VAD string `yaml:"vad" default:"silero" enum:"silero,energy"`
	// The shortest pause that ends a turn, after a whole sentence.
	MinPause int `yaml:"min_pause_ms" default:"300" min:"100" max:"10000"`
	// The longest, such as after a comma.
	MaxPause int `yaml:"max_pause_ms" default:"3000" min:"100" max:"30000"`
	// Less speech than this is not written down.
	MinSpeech int `yaml:"min_speech_ms" default:"250" min:"0" max:"5000"`
}
