package openai

import "voicebridge/llm"

// mistralHost is Mistral's own server, which refuses stream_options; its answers always have a usage.
const mistralHost = "api.mistral.ai"

// images are those that the APIs accept: no animated GIFs; see https://platform.openai.com/docs/guides/images-vision.
var images = llm.ImageLimits{Types: []string{"image/png", "image/jpeg", "image/webp"}}

// models say what OpenAI's models accept, also where gateways have them. Those that think refuse sampling parameters,
// and know the limit of an answer by its new name only: https://platform.openai.com/docs/guides/reasoning. gpt-5.6 and
// its later sisters call functions by Chat Completions only without thinking, also if the request does not ask for it.
var models = []llm.Rule{
	{
		Models:  []string{"gpt-5.[6-9]*", "gpt-5.[1-9][0-9]*"},
		Accepts: llm.Accepts{Images: images, NoTemperature: true, NoTopP: true, NewLimit: true, QuietWithTools: true},
	},
	{
		Models:  []string{"gpt-5*chat*", "gpt-5.[24]", "gpt-5.[24]-20*"},
		Accepts: llm.Accepts{Images: images, NewLimit: true},
	},
	{
		Models:  []string{"o[1-9]*", "gpt-5*", "gpt-6*"},
		Accepts: llm.Accepts{Images: images, NoTemperature: true, NoTopP: true, NewLimit: true},
	},
	{Models: []string{"gpt-3*", "gpt-4*", "chatgpt-4*"}, Accepts: llm.Accepts{Images: images, NoReasoning: true}},
	{Models: []string{"*"}, Accepts: llm.Accepts{Images: images}},
}
