package realtime

// The types of server events (OpenAPI description, RealtimeServerEvent*).
const (
	TypeError          = "error"
	TypeSessionCreated = "session.created"
	TypeSessionUpdated = "session.updated"

	TypeConversationCreated     = "conversation.created"
	TypeItemAdded               = "conversation.item.added"
	TypeItemDone                = "conversation.item.done"
	TypeItemRetrieved           = "conversation.item.retrieved"
	TypeItemDeleted             = "conversation.item.deleted"
	TypeItemTruncated           = "conversation.item.truncated"
	TypeTranscriptionDelta      = "conversation.item.input_audio_transcription.delta"
	TypeTranscriptionCompleted  = "conversation.item.input_audio_transcription.completed"
	TypeTranscriptionFailed     = "conversation.item.input_audio_transcription.failed"
	TypeInputSpeechStarted      = "input_audio_buffer.speech_started"
	TypeInputSpeechStopped      = "input_audio_buffer.speech_stopped"
	TypeInputCommitted          = "input_audio_buffer.committed"
	TypeInputCleared            = "input_audio_buffer.cleared"
	TypeInputTimeoutTriggered   = "input_audio_buffer.timeout_triggered"
	TypeOutputBufferStarted     = "output_audio_buffer.started"
	TypeOutputBufferStopped     = "output_audio_buffer.stopped"
	TypeOutputBufferCleared     = "output_audio_buffer.cleared"
	TypeResponseCreated         = "response.created"
	TypeResponseDone            = "response.done"
	TypeOutputItemAdded         = "response.output_item.added"
	TypeOutputItemDone          = "response.output_item.done"
	TypeContentPartAdded        = "response.content_part.added"
	TypeContentPartDone         = "response.content_part.done"
	TypeOutputTextDelta         = "response.output_text.delta"
	TypeOutputTextDone          = "response.output_text.done"
	TypeAudioTranscriptDelta    = "response.output_audio_transcript.delta"
	TypeAudioTranscriptDone     = "response.output_audio_transcript.done"
	TypeOutputAudioDelta        = "response.output_audio.delta"
	TypeOutputAudioDone         = "response.output_audio.done"
	TypeFunctionArgumentsDelta  = "response.function_call_arguments.delta"
	TypeFunctionArgumentsDone   = "response.function_call_arguments.done"
	TypeRateLimitsUpdated       = "rate_limits.updated"
	TypeItemCreatedBeta         = "conversation.item.created"       // beta name, still in the schema
	TypeTextDeltaBeta           = "response.text.delta"             // beta name, some servers
	TypeTextDoneBeta            = "response.text.done"              // beta name, some servers
	TypeAudioTranscriptDeltaOld = "response.audio_transcript.delta" // beta name, some servers
	TypeAudioTranscriptDoneOld  = "response.audio_transcript.done"  // beta name, some servers
	TypeOutputAudioDeltaBeta    = "response.audio.delta"            // beta name, some servers
)

// The types of events that no server sends, and no client gets: drivers tell the bridge so what their sessions cannot
// say in the words of this API. A session that is billed by its length tells by TypeSessionUsage how long it was so
// far, in usage, as of a transcription. TypeSessionExpiring says that a session has to be replaced soon. TypeSpeech
// says how a response was spoken: in usage how many characters were, by which model, in spoken_texts what was spoken of
// the items that were not spoken whole, and latency_ms of its stages; or, with item_id, how often its sound was
// resumed.
const (
	TypeSpeech          = "bridge_session.speech"
	TypeSessionUsage    = "bridge_session.usage"
	TypeSessionExpiring = "bridge_session.expiring"
)

// The types of client events (OpenAPI description, RealtimeClientEvent*).
const (
	TypeSessionUpdate     = "session.update"
	TypeItemCreate        = "conversation.item.create"
	TypeItemRetrieve      = "conversation.item.retrieve"
	TypeItemDelete        = "conversation.item.delete"
	TypeItemTruncate      = "conversation.item.truncate"
	TypeResponseCreate    = "response.create"
	TypeResponseCancel    = "response.cancel"
	TypeInputAppend       = "input_audio_buffer.append"
	TypeInputCommit       = "input_audio_buffer.commit"
	TypeInputClear        = "input_audio_buffer.clear"
	TypeOutputBufferClear = "output_audio_buffer.clear"
)
