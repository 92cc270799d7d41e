package config

import "voicebridge/toolkit/webhook"

// Hooks are where events are posted.
type Hooks struct {
	// Addresses that get the events of all owners, signed as Standard Webhooks says; owners add their own by the API. Entries look
	// like this:
	//
	//	{url: "https://example.org/hook", events: ["call.*"], secret_env: HOOK_SECRET}
	Endpoints []Endpoint `yaml:"endpoints"`
	// Hosts, as host or host:port, that hooks may call although they are private, or by http. All others must be public and
	// have https.
	Allow []string `yaml:"allow" min:"1" max:"300"`
}

// Endpoint is a hook of the operator.
type Endpoint struct {
	// Where events are posted.
	URL string `yaml:"url" min:"1" max:"2048"`
	// Types of events, or patterns such as `call.*`; `*` means all.
	Events []string `yaml:"events" min:"1" max:"60"`
	// The variable that holds the secret: whsec_ and 24 to 64 bytes in base64.
	SecretEnv string `yaml:"secret_env" min:"1" format:"variable"`

	// Secret is what the variable holds.
	Secret webhook.Secret `yaml:"-"`
}
