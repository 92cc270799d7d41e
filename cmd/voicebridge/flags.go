package main

// settingFlags are the flags that are settings, each with the key that it sets.
type settingFlags struct {
	Listen         *string  `help:"Address of the page and the API." placeholder:"HOST:PORT"`
	Database       *string  `help:"sqlite:PATH or postgres://…" placeholder:"URL"`
	Upstream       *string  `help:"openai or simulator." placeholder:"NAME"`
	OpenAIBaseURL  *string  `name:"openai-base-url" help:"Base URL of the Realtime API." placeholder:"URL"`
	Model          *string  `help:"Realtime model." placeholder:"NAME"`
	Voice          *string  `help:"Voice of the assistant." placeholder:"NAME"`
	AllowedOrigins []string `help:"Origins whose pages may use the API." placeholder:"ORIGIN"`
	UDPPort        *int     `name:"udp-port" help:"One UDP port for all media; 0 is any." placeholder:"PORT"`
	PublicIPs      []string `name:"public-ips" help:"Addresses that browsers reach this machine by." placeholder:"IP"`
	MCPConfig      *string  `name:"mcp-config" help:"File with MCP servers (mcp.json if it exists)." placeholder:"FILE"`
}

func (s *settingFlags) settings() map[string]any {
	out := map[string]any{}
	set(out, "listen", s.Listen)
	set(out, "database_url", s.Database)
	set(out, "upstream", s.Upstream)
	set(out, "openai_base_url", s.OpenAIBaseURL)
	set(out, "realtime.model", s.Model)
	set(out, "realtime.voice", s.Voice)
	set(out, "udp_port", s.UDPPort)
	set(out, "mcp_config", s.MCPConfig)
	if len(s.AllowedOrigins) > 0 {
		out["allowed_origins"] = s.AllowedOrigins
	}
	if len(s.PublicIPs) > 0 {
		out["public_ips"] = s.PublicIPs
	}
	return out
}
