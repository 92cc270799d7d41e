package wire_test

import (
	"encoding/json"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// TestKindsOfWords: that a conversation is too long, or that nothing is left to pay for it, is read from the words of any
// server, wherever they are in its error; other limits are not taken for that.
func TestKindsOfWords(t *testing.T) {
	t.Parallel()
	const long, quota, rate, bad = llm.KindTooLong, llm.KindQuota, llm.KindRate, llm.KindBadRequest
	for _, c := range []struct {
		status int
		words  string
		want   llm.ErrorKind
	}{
		{400, "prompt is too long: 210000 tokens > 200000 maximum", long},
		{400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again", long},
		{400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", long},
		{400, "Unable to submit request because the input token count is 35000 but model only supports up to 32768.", long},
		{400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens.", long},
		{400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", long},
		{422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens and 512 `max_new_tokens`", long},
		{400, "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.", long},
		{400, "Invalid request: Your request exceeded model token limit: 8192", long},
		{400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", long},
		{400, "Input is too long for requested model.", long},
		{400, "invalid params, context window exceeds limit (2013)", long},
		{400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens", long},
		{400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", long},
		{400, "输入内容过长", long},
		{500, "input (5000 tokens) is too large to process. increase the physical batch size (current batch size: 512)", long},
		{500, "Context size has been exceeded.", long},
		{0, "prompt too long; exceeded max context length by 1200 tokens", long},
		{429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 33000. The input or output tokens must be reduced.", long},

		{429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 3000.", rate},
		{429, "Please reduce your request rate.", rate},
		{400, "max_tokens is too large: 20000. This model supports at most 16384 completion tokens, whereas you provided 20000.", bad},
		{400, "max_tokens: 200000 > 8192, which is the maximum allowed number of output tokens for claude-x", bad},
		{400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", bad},
		{400, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 130.", bad},
		{400, "* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name. Must start with a letter " +
			"or an underscore, with a maximum length of 64.", bad},
		{400, "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40.", bad},
		{400, "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64.", bad},
		{400, "Invalid 'messages[0].content': string too long. Expected a string with maximum length 1048576.", long},
		{400, "temperature must be less than 1", bad},
		{404, "The model does not exist", bad},
		{503, "Too many tokens are being processed, limit of the queue exceeded", llm.KindOverloaded},
		{500, "internal error", llm.KindOverloaded},
		{401, "Your token exceeds the maximum age", llm.KindAuth},

		{400, "Your credit balance is too low to access the Anthropic API.", quota},
		{403, "Your team has either used all available credits or reached its monthly spending limit.", quota},
		{403, "This API method requires billing to be enabled.", quota},
		{400, "Access denied, please make sure your account is in good standing. Arrearage", quota},
		{429, "余额不足或无可用资源包,请充值。", quota},
		{0, "Insufficient account balance", quota},
		{429, "You exceeded your current quota, please check your plan and billing details. Please retry in 34s.", rate},
		{403, "Your credentials do not allow this model", llm.KindAuth},
	} {
		quoted, err := json.Marshal(c.words)
		testkit.Must(t, err)
		for _, body := range []string{
			`{"error":{"message":` + string(quoted) + `,"code":"x"}}`, `{"object":"error","message":` + string(quoted) + `}`,
			`[{"error":{"errors":[{"reason":` + string(quoted) + `}]}}]`,
			`{"error":{"message":"Provider returned error","metadata":{"raw":` + string(quoted) + `}}}`, string(quoted),
			`{"detail":[{"loc":["body"],"msg":` + string(quoted) + `,"input":"too many tokens: the credit balance"}]}`,
		} {
			p := wire.ParseProblem([]byte(body))
			p.Status = c.status
			want := c.want
			if c.status == 0 && want == bad {
				want = llm.KindUnavailable
			}
			if e := failures.Problem(p); e.Kind != want {
				t.Errorf("%d %s is %s, want %s", c.status, body, e.Kind, want)
			}
		}
	}
}
