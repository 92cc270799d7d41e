package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/toolkit"
)

// AgentInstructions tells a model about the agent tools. It follows the system prompt
// (TurnRequest.System) of a session that has them.
const AgentInstructions = "You can hand coding work to background agents. Use agent_spawn whenever the user wants " +
	"code to be written, changed, reviewed or looked into; do not write such code yourself. " +
	"Never have a pull request or a branch created unless the user asks for it. " +
	"If the user has not named the repository, ask which one is meant, and have it confirmed, before you spawn an " +
	"agent. Use agent_status, agent_followup, agent_cancel and agent_list for agents that already exist."

const agentPrefix = "agent_"

// AgentTools are the tools by which an app runs coding agents. The app knows them by the names of
// [AppName], which model APIs do not accept.
func AgentTools() []toolkit.Definition {
	define := func(name, description, properties, rules string) toolkit.Definition {
		return toolkit.Definition{Name: agentPrefix + name, Description: description, Parameters: json.RawMessage(
			`{"type":"object","properties":{` + properties + `},` + rules + `,"additionalProperties":false}`)}
	}
	const id = `"id":{"type":"string","minLength":1,"description":"The agent's id"}`
	const pr = `"prUrl":{"type":"string","minLength":1,"description":"The address of a pull request"}`
	return []toolkit.Definition{
		define("spawn", "Starts a coding agent on a repository or a pull request, one of which is required. It "+
			"works in the background.",
			`"prompt":{"type":"string","minLength":1,`+
				`"description":"What the agent is to do, complete and in its own words"},`+
				`"repository":{"type":"string","pattern":"^[^/\\s]+/[^/\\s]+$","description":"owner/repo"},`+
				`"ref":{"type":"string","description":"The branch, tag or commit to begin with"},`+pr+`,`+
				`"model":{"type":"string"},`+
				`"autoCreatePr":{"type":"boolean","default":false,`+
				`"description":"Create a pull request. Only when the user asks for it"},`+
				`"autoBranch":{"type":"boolean","default":false,`+
				`"description":"Create a branch. Only when the user asks for it"},`+
				`"skipReviewerRequest":{"type":"boolean"},`+
				`"branchName":{"type":"string"}`,
			`"required":["prompt"],"anyOf":[{"required":["repository"]},{"required":["prUrl"]}]`),
		define("status", "Reports an agent's progress.", id, `"required":["id"]`),
		define("cancel", "Stops an agent.", id, `"required":["id"]`),
		define("followup", "Gives an agent more to do.", id+`,"prompt":{"type":"string","minLength":1}`,
			`"required":["id","prompt"]`),
		define("list", "Lists the agents.",
			`"limit":{"type":"integer","minimum":1,"maximum":100},"cursor":{"type":"string"},`+pr, `"required":[]`),
	}
}

// AppName returns the name by which an app knows a tool: agent.spawn for agent_spawn. Other names
// are unchanged.
func AppName(tool string) string {
	if name, ok := strings.CutPrefix(tool, agentPrefix); ok &&
		slices.Contains([]string{"spawn", "status", "cancel", "followup", "list"}, name) {
		return "agent." + name
	}
	return tool
}
