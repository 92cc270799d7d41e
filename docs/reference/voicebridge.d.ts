// What the HTTP API takes and answers with. Made by make gen; /openapi.json of a running server says more.

/** Nothing, as the carrier was told by its API */
export type CarrierReply = Record<string, unknown>;

export type ID = string;

/** A message in the form of the Vercel AI SDK's UIMessage. */
export interface Message {
  id: string;
  role: 'system' | 'user' | 'assistant';
  parts: MessagePart[];
  metadata: {
    /** keys: what a caller has typed on a telephone; api: a text of the system or the assistant that a server put into a call */ source?: 'voice' | 'text' | 'keys' | 'api';
    status?: 'in_progress' | 'completed' | 'interrupted' | 'failed';
    call_id?: string;
    model?: string;
    voice?: string;
    created_at?: string;
    usage?: Record<string, unknown>;
    /** Of a typed answer first_token and total, since the turn began. Of an answer in a call, since the user stopped speaking: commit (the upstream has taken the speech), response (it has begun to answer), first_audio (it has begun to speak), first_packet (the caller was sent the first sound). */ latency_ms?: Record<string, number>;
    /** The part of an interrupted answer that was played */ heard_text?: string;
    audio_end_ms?: number;
    /** Where its sound is in the recording of its call, in milliseconds */ audio?: {
      start_ms: number;
      end_ms: number;
    };
    /** The upstream's id of its item */ item_id?: string;
    /** true if models no longer read the message: its turn failed, another answer has replaced it, or the user went back to what was said before it */ discarded?: boolean;
    /** true if a server has deleted it from its call: models no longer read it */ deleted?: boolean;
    /** The id by which useChat sent the message that the user had edited */ sent_as?: string;
    /** What made a typed answer */ provider?: string;
    /** Why a typed answer ended, or what cut a spoken one short. length: the token limit did; filter: the provider's content filter */ finish_reason?: 'stop' | 'tool_calls' | 'length' | 'filter' | 'tool_rounds' | 'interrupted' | 'error';
    /** Why a typed answer failed: kind and message */ error?: Record<string, unknown>;
    /** true if the server wrote the text, to say what went wrong */ notice?: boolean;
    /** The id of the tool call that the message answers */ asked_by?: string;
    /** The id of the message that a typed answer answers */ answers?: string;
    /** true if the provider has refused to answer: later requests leave out the answer and its question */ refused?: boolean;
    /** What models read before the user's words, such as the date */ context?: string;
    /** The id that the message had in the queue */ queue_id?: string;
    /** From the queue */ client_id?: string;
    /** From the queue */ idempotency_key?: string;
    /** From the queue */ image_ids?: string[];
    seq?: number;
  };
}

/** A part of a message, in the form of the AI SDK's UIMessage; type says what else it has. What a client sent of yet another type is given back as it came. */
export type MessagePart = TextPart | ReasoningPart | FilePart | StepStartPart | ToolPart | DynamicToolPart | SourceURLPart | SourceDocumentPart | DataPart;

export interface TextPart {
  type: 'text';
  text: string;
}

/** What the model thought before it spoke */
export interface ReasoningPart {
  type: 'reasoning';
  text: string;
}

/** An image, or a sound that a tool returned */
export interface FilePart {
  type: 'file';
  mediaType: string;
  /** Its address for whoever may read the thread */ url: string;
  filename?: string;
}

/** Here the model began to answer, or to go on after the results of tools */
export interface StepStartPart {
  type: 'step-start';
}

/** A call of one of the server's own tools. Its name follows tool- in type */
export interface ToolPart {
  type: `tool-${string}`;
  toolCallId: string;
  state: ToolRunState;
  /** The arguments, with secrets masked: any JSON */ input?: unknown;
  /** The result, with secrets masked: any JSON, once it is done */ output?: unknown;
  /** Why it failed */ errorText?: string;
  /** That the user allowed it */ approval?: {
    id: string;
    approved: boolean;
    reason?: string;
  };
  /** What providers need to be sent again. voicebridge.sign_in is the MCP server to which the user has to sign in first */ callProviderMetadata?: Record<string, unknown>;
}

/** A call of a tool of an MCP server or of a client */
export interface DynamicToolPart {
  type: 'dynamic-tool';
  toolName: string;
  toolCallId: string;
  state: ToolRunState;
  /** The arguments, with secrets masked: any JSON */ input?: unknown;
  /** The result, with secrets masked: any JSON, once it is done */ output?: unknown;
  /** Why it failed */ errorText?: string;
  /** That the user allowed it */ approval?: {
    id: string;
    approved: boolean;
    reason?: string;
  };
  /** What providers need to be sent again. voicebridge.sign_in is the MCP server to which the user has to sign in first */ callProviderMetadata?: Record<string, unknown>;
}

/** A page to which a client referred */
export interface SourceURLPart {
  type: 'source-url';
  sourceId: string;
  url: string;
  title?: string;
}

/** A document to which a client referred */
export interface SourceDocumentPart {
  type: 'source-document';
  sourceId: string;
  mediaType: string;
  title: string;
  filename?: string;
}

/** Running, done or failed */
export type ToolRunState = 'input-available' | 'output-available' | 'output-error';

/** Data of a client's, whose name follows data- in type */
export interface DataPart {
  type: `data-${string}`;
  id?: string;
  /** Any JSON */ data: unknown;
}

/** What a socket tells. `message {message}` is a message as it is saved, new or changed; `message_delta {id, text}` is what was added to the text of a message in progress since the socket last told of that message. `waiting {server, message}` says which MCP server a turn waits for. The events about tools are those of the data channel. */
export interface Event {
  type: string;
  data: Record<string, unknown>;
  /** On events that can be replayed */ seq?: number;
}

/** A message on /conductor, in either direction. At most 1 MiB from the app. */
export interface Envelope {
  id: string;
  type: 'transcript.final' | 'tool.result' | 'interrupt' | 'assistant.speech.partial' | 'assistant.speech.final' | 'tool.call' | 'error';
  sessionId: ID;
  timestamp: string;
  payload: Record<string, unknown>;
}

/** One text or a list of at most 50 */
export type Texts = string | string[];

export interface Peaks {
  per_second: number;
  user: number[];
  assistant: number[];
}

export interface RecordingState {
  state: string;
}

export interface ClientSecret {
  value: `ek_${string}`;
  /** Unix seconds */ expires_at: number;
  session: Record<string, unknown>;
  thread_id: string | null;
}

export interface ThreadPage {
  threads: ListedThread[];
  /** Null on the last page */ next_cursor: string | null;
}

export interface MessagePage {
  messages: Message[];
  /** Null after an empty page */ next_after: number | null;
}

export interface SaidInCall {
  call_id: string;
  user_message: Message;
}

export interface Image {
  image_id: string;
  media_type: string;
  width: number;
  height: number;
  url: string;
}

export interface ThreadExport {
  thread: Thread;
  messages: Message[];
}

export interface PageSession {
  owner: string;
  expires_at: string;
}

export interface ServerConfig {
  /** What calls talk to */ upstream: string;
  /** What the user should know about it */ upstream_note: string;
  version: string;
  model: string;
  voice: string;
  /** How a call notices that the user has spoken, as in the Realtime API; null: push to talk */ turn_detection: Record<string, unknown> | null;
  /** Whether users must sign in */ authentication: boolean;
  /** Whether calls may be recorded */ recording: boolean;
  /** Whether an upstream is a cascade, of which GET /api/models says what it consists of */ cascade?: boolean;
  /** Who the user is */ owner: string;
  ice_servers: {
    urls: string[];
    username?: string;
    credential?: string;
  }[];
}

export interface AssistantPage {
  assistants: Assistant[];
  /** Null on the last page */ next_cursor: string | null;
}

export interface ToolList {
  tools: Tool[];
  /** The MCP servers, if any are configured */ servers?: ToolServer[];
}

export interface MCPServerList {
  servers: MCPServer[];
}

export interface MCPSignIn {
  authorize_url: string;
}

export interface MCPSignedIn {
  server: string;
  state: 'connected';
}

export interface ModelList {
  models: Model[];
}

export interface UsageReport {
  from: string;
  to: string;
  usage: UsageRow[];
  total: Usage;
}

export interface CallList {
  calls: CallReport[];
}

/** The properties of Assistant, and its secret */
export interface CreatedAssistant {
  id: string;
  /** whsec_ and Base64 */ secret: string;
}

export interface Interruption {
  /** Whether there was a turn to stop */ interrupted: boolean;
}

export interface Success {
  success: boolean;
}

export interface Share {
  /** The path of the link; null if there is none */ url: string | null;
}

export interface ShareLink {
  /** The path of the link */ url: string;
}

export interface HookList {
  hooks: Hook[];
}

export interface DeliveryList {
  deliveries: Delivery[];
}

export interface Health {
  status: string;
}

/** This document */
export type OpenAPIDocument = Record<string, unknown>;

/** What a client sends in a call, or on the thread's socket, when it was told bridge.tool.approval_required */
export interface BridgeToolAnswer {
  type: 'bridge.tool.approve' | 'bridge.tool.deny';
  /** Of the client's choice; an error names it */ event_id?: string;
  tool_call_id: string;
  nonce: string;
}

/** What a client sends in a call to stop a tool that runs */
export interface BridgeToolCancel {
  type: 'bridge.tool.cancel';
  /** Of the client's choice; an error names it */ event_id?: string;
  tool_call_id: string;
}

/** What is posted to a hook. docs/hooks.md says what is promised of it */
export type HookEvent = HookCallStarted | HookCallRinging | HookCallAnswered | HookCallEnded | HookCallExtracted | HookMessageCompleted | HookToolCompleted | HookApprovalRequired | HookTurnFinished | HookBudgetWarning | HookRecordingReady | HookTest;

export interface HookCallStarted {
  type: 'call.started';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    assistant_id: string | null;
    upstream: string;
  };
}

export interface HookCallRinging {
  type: 'call.ringing';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    assistant_id: string | null;
    line: string;
    /** The number that is called */ to: string;
  };
}

export interface HookCallAnswered {
  type: 'call.answered';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    assistant_id: string | null;
    line: string;
    /** The number that is called */ to: string;
  };
}

export interface HookCallEnded {
  type: 'call.ended';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    end_reason: string;
    duration_seconds: number;
    turns: number;
    usage: {
      input_tokens: number;
      output_tokens: number;
      /** Part of the input tokens */ cached_tokens: number;
      total_tokens: number;
    };
    /** Null if no price is known */ cost_usd: number | null;
    assistant_id: string | null;
    variables: Record<string, string>;
    /** Whether it was recorded; recording.ready follows then */ recording: boolean;
    /** Of a call out that nobody has answered */ line?: string;
    /** The number of such a call */ to?: string;
  };
}

export interface HookCallExtracted {
  type: 'call.extracted';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    summary: string;
    /** Fits the assistant's schema */ extracted: Record<string, unknown>;
  };
}

export interface HookMessageCompleted {
  type: 'message.completed';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    message: Message;
  };
}

export interface HookToolCompleted {
  type: 'tool.completed';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    tool_call_id: string;
    name: string;
    executor: string;
    status: 'done' | 'failed' | 'cancelled';
    duration_ms: number | null;
  };
}

export interface HookApprovalRequired {
  type: 'approval.required';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    tool_call_id: string;
    name: string;
    executor: string;
    /** The arguments, with secrets masked: any JSON */ input: unknown;
    /** True if input is a string with the beginning of the arguments only */ input_clipped?: boolean;
    /** Must be sent back with the answer */ nonce: string;
    expires_at: string;
  };
}

export interface HookTurnFinished {
  type: 'turn.finished';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    /** Of the answer */ message_id: string | null;
    status: string;
    usage: Record<string, unknown> | null;
  };
}

export interface HookBudgetWarning {
  type: 'budget.warning';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    scope: 'call' | 'owner_day';
    spent_usd: number;
    limit_usd: number;
  };
}

export interface HookRecordingReady {
  type: 'recording.ready';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: ID;
    call_id: string;
    duration_seconds: number;
  };
}

export interface HookTest {
  type: 'hook.test';
  /** When it happened */ timestamp: string;
  data: {
    owner: string;
    thread_id: null;
  };
}

/** A named set of what is otherwise the server's settings */
export interface Assistant {
  created_at?: string;
  /** For people who choose one */ description?: string;
  /** Whether the model may end calls, by the tool end_call: what it is saying is heard to its end */ end_call?: boolean;
  /** A JSON schema of an object: what the text model is to find in a call once it has ended */ extract?: Record<string, unknown>;
  /** What is said in a call while a tool takes long */ fillers?: {
    /** Once for each wait, unless something was said since the tool was called; 0: never */ after_seconds?: number;
    /** Said word for word, one after the other; an empty list: what the model likes */ lines?: string[];
  };
  /** What the model says first in a call on an empty thread. Variables are replaced */ greeting?: string;
  /** How much of a thread models see. Those of a shared assistant only lower the server's for others who use it */ history?: {
    /** How many tokens of them */ max_tokens?: number;
    /** Of a typed turn */ max_tool_rounds?: number;
    /** How many turns a typed one sees */ max_turns?: number;
    /** How many messages a new call gets */ replay_messages?: number;
    /** How many tokens are left out at a time */ trim_chunk_tokens?: number;
  };
  /** Tools that the server runs by a request to an address */ http_tools?: {
    /** What the model is told of it */ description?: string;
    /** POST if it is missing */ method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    /** What the model calls it */ name: string;
    /** The JSON schema of its arguments */ parameters?: Record<string, unknown>;
    /** As for all tools if it is missing */ timeout_seconds?: number;
    /** Gets the arguments as a JSON body, or as a query by GET */ url: string;
  }[];
  /** Made from the name if it is not given, and fixed from then on */ id?: string;
  /** What the model is told, in place of the server's text. {{date}}, {{time}}, {{user}} and the names of variables in double braces are replaced */ instructions?: string;
  /** What speech must have to interrupt an answer in a call */ interruption?: {
    /** How long it must be */ min_seconds?: number;
    /** How many words it must have */ min_words?: number;
    /** The answer goes on if no word has come so long after it */ resume_seconds?: number;
  };
  /** Names and words that the transcription of calls is to know, each of up to 64 characters; an empty list: none */ keyterms?: string[];
  /** Of calls. Those of an owner's assistant only tighten the server's */ limits?: {
    /** What a call may cost, in US dollars; 0: no limit */ call_usd?: number;
    /** A call ends after this long without speech, answers or tools; 0: never */ idle_minutes?: number;
    /** The longest call; 0: no limit */ max_minutes?: number;
  };
  /** Whether the keys that callers press on a telephone are told to the model alone, and saved as DTMF: **** */ mask_keys?: boolean;
  /** The MCP servers whose tools it has; an empty list: none */ mcp_servers?: string[];
  /** What people call it */ name: string;
  /** It is the operator's or another owner's */ read_only?: boolean;
  /** Whether calls are recorded, where the server permits it; not those of others who use it */ recording?: boolean;
  /** What is said, to its end, before anything of a call is recorded. Variables are replaced */ recording_notice?: string;
  /** How many days a thread is kept after its last change; 0: forever. That of an owner's assistant only shortens the server's, in the owner's own threads */ retention_days?: number;
  /** Whether other owners may use it, and see it */ shared?: boolean;
  /** Of typed messages */ text?: {
    /** Of an answer */ max_tokens?: number;
    /** The model */ model?: string;
    /** One of the server's providers */ provider?: string;
    /** Sent only to models that take it */ temperature?: number;
  };
  /** Names of tools, and patterns such as files__* */ tools?: {
    /** Only these of the server's; an empty list: none */ allow?: string[];
    /** Only with the user's approval, besides those that the server names */ approve?: string[];
    /** Never these, also of clients, besides those that the server denies */ deny?: string[];
  };
  /** Whom the model may connect the caller of a telephone call with, by names that it reads, with the tool transfer_call; not with those of another owner's assistant */ transfers?: Record<string, {
    /** Such as +493012345678; of an owner's assistant one that may be dialled */ number: string;
    /** Said before, word for word; empty: what the model likes */ says?: string;
  }>;
  updated_at?: string;
  /** Names and default texts. A thread may have other values */ variables?: Record<string, string>;
  /** Of calls */ voice?: {
    /** Of the transcription, such as en */ language?: string;
    /** The model */ model?: string;
    /** How fast it speaks; 1 is as usual */ speed?: number;
    /** Transcribes what the caller says */ transcription_model?: string;
    /** What decides that the caller's turn is over */ turn_detection?: {
      /** Whether the model answers by itself */ create_response?: boolean;
      /** semantic_vad: low, medium, high, auto */ eagerness?: string;
      /** server_vad */ idle_timeout_ms?: number;
      /** Whether speech interrupts an answer */ interrupt_response?: boolean;
      /** server_vad */ prefix_padding_ms?: number;
      /** server_vad */ silence_duration_ms?: number;
      /** server_vad, 0 to 1 */ threshold?: number;
      /** server_vad, semantic_vad, none: push to talk */ type?: string;
    };
    /** The name of one of the server's upstreams */ upstream?: string;
    /** A name, or the id of a custom voice */ voice?: string;
  };
}

export interface Thread {
  id: ID;
  title: string;
  created_at: string;
  updated_at: string;
  /** The assistant that answers; missing for the server's settings */ assistant_id?: string;
  /** Values of its variables */ variables?: Record<string, string>;
  /** Set by a reset: messages whose seq is below it are no longer read by models */ reset_seq?: number;
}

export interface ListedThread {
  id: ID;
  title: string;
  created_at: string;
  updated_at: string;
  /** The assistant that answers; missing for the server's settings */ assistant_id?: string;
  /** Values of its variables */ variables?: Record<string, string>;
  /** Set by a reset: messages whose seq is below it are no longer read by models */ reset_seq?: number;
  /** The sentence with the words, in the result of a search, where one of the best messages is of this thread */ match?: string;
}

export interface CallReport {
  call_id: string;
  upstream: string;
  model: string;
  voice: string;
  assistant_id?: string;
  /** The number of who is not the assistant, in a call by telephone */ caller?: string;
  started_at: string;
  /** When the caller was first heard */ ready_at: string | null;
  ended_at: string | null;
  end_reason?: string;
  turns: number;
  interruptions: number;
  /** What its models have cost, in US dollars; null while no price is known */ cost_usd: number | null;
  /** Missing if nobody reads the call after its end */ extraction?: 'waiting' | 'running' | 'done' | 'failed';
  /** Why nothing was found */ extraction_error?: string;
  /** One paragraph */ summary?: string;
  /** Fits the assistant's schema */ extracted?: Record<string, unknown>;
}

export interface Dialled {
  call_id: string;
  thread_id: string;
  state: 'queued';
}

export interface CallState {
  call_id: string;
  thread_id: string;
  /** Empty if it is none by telephone */ direction: '' | 'inbound' | 'outbound';
  line: string;
  /** The number of who is not the assistant */ number: string;
  state: 'queued' | 'ringing' | 'answered' | 'ended';
  /** Why it has ended: as of calls, or busy, no_answer, failed, machine */ end_reason: string | null;
  created_at: string;
  ended_at: string | null;
}

export interface HookChange {
  url?: string;
  /** Types, or patterns such as call.* and *: call.started, call.ringing, call.answered, call.ended, call.extracted, message.completed, tool.completed, approval.required, turn.finished, budget.warning, recording.ready */ events?: string[];
  enabled?: boolean;
}

export interface Hook {
  id: string;
  url: string;
  events: string[];
  enabled: boolean;
  /** "gone" if the receiver answered 410, which switched it off */ off_reason?: string;
  created_at: string;
}

export interface CreatedHook {
  id: string;
  url: string;
  events: string[];
  enabled: boolean;
  /** "gone" if the receiver answered 410, which switched it off */ off_reason?: string;
  created_at: string;
  /** "whsec_" and 32 bytes in base64, which no other answer shows */ secret: string;
}

export interface Delivery {
  /** The webhook-id, the same in each attempt */ id: string;
  type: string;
  state: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** The status of the last answer; null without one */ last_status: number | null;
  /** Why there was no answer */ last_error?: string;
  created_at: string;
  /** When it is sent again; null if there is no further attempt */ next_at: string | null;
}

export interface QueuedMessage {
  id: string;
  message: string;
  queued_at: string;
  /** Two or three words; empty until there is one */ title: string;
  state: 'queued' | 'sending' | 'answering' | 'sent';
  image_ids?: string[];
  client_id?: string;
  idempotency_key?: string;
  scheduled_at?: string;
  attempts?: number;
  /** Why the last attempt failed */ error?: string;
  /** When it will be tried again */ not_before?: string;
}

export interface Queue {
  messages: QueuedMessage[];
  count: number;
  /** Why the queue is paused; null if it is not */ paused: {
    /** One of auth, quota, too_long, bad_request, unavailable, and too_long_for_call, which ends with the call */ reason: string;
    message: string;
    since: string;
  } | null;
}

export interface Usage {
  responses: number;
  input_tokens: number;
  output_tokens: number;
  /** Part of the input tokens */ cached_tokens: number;
  /** The sum of the known costs; null if none is known */ cost_usd: number | null;
  /** How many responses were given, or used tokens, and have no known cost */ unpriced_responses: number;
}

export interface UsageRow {
  thread_id: ID;
  title: string;
  /** One of UTC */ day: string;
  responses: number;
  input_tokens: number;
  output_tokens: number;
  /** Part of the input tokens */ cached_tokens: number;
  /** The sum of the known costs; null if none is known */ cost_usd: number | null;
  /** How many responses were given, or used tokens, and have no known cost */ unpriced_responses: number;
}

export interface Model {
  /** The name by which a text session chooses it, or the name of the upstream of calls */ provider: string;
  model: string;
  kind: 'text' | 'realtime';
  /** Whether it is the default of its kind */ default: boolean;
  /** The voice of a realtime model */ voice?: string;
  /** Those that it may have besides, as far as its server lists them */ voices?: string[];
  /** Writes down what the caller of a realtime model says */ transcription_model?: string;
  /** Means that Model is one for text, between one that listens and one that speaks */ cascade?: boolean;
  /** Means that an assistant's model for text takes its place */ assistant_text?: boolean;
}

export interface Tool {
  name: string;
  description: string;
  /** A JSON Schema */ parameters: Record<string, unknown>;
  executor: 'client' | 'app' | 'mcp';
  /** The MCP server */ server?: string;
  /** "held" for a tool that is new or has changed since its server was first seen, otherwise missing */ state?: 'held';
  /** Of a held tool whether calls have its old definition, with approval for each use, or do not have it */ offered?: boolean;
  /** Why it is held */ why?: string;
}

export interface ToolServer {
  name: string;
  connected: boolean;
  /** How many it offers */ tools: number;
  /** Why it is not connected */ error?: string;
}

export interface MCPServer {
  name: string;
  type: 'stdio' | 'http' | 'sse';
  /** "oauth" if each owner signs in to it */ auth?: 'oauth';
  /** Whether each owner has a process of it */ per_owner: boolean;
  /** "idle" if it is started when it is needed, and "sign_in" if the caller has to sign in first */ state: 'connected' | 'connecting' | 'idle' | 'sign_in' | 'failed';
  /** Why it has failed */ reason?: string;
  /** How many tools it offers */ tools: number;
}

export interface Turn {
  turn_id: string;
  /** The answer */ message: Message;
  /** What it answers */ user_message?: Message;
  finish_reason: 'stop' | 'tool_calls' | 'length' | 'filter' | 'tool_rounds' | 'interrupted';
}

export interface ToolDefinition {
  /** Unique in a session: [A-Za-z0-9_-], at most 64 characters */ name: string;
  description?: string;
  /** A JSON Schema of type object */ parameters?: Record<string, unknown>;
}

export interface SessionCall {
  id: string;
  name: string;
  /** JSON, as the model wrote it */ arguments: string;
}

export interface TextSession {
  id: ID;
  title: string;
  provider: string;
  model: string;
  tools: ToolDefinition[];
  defaults: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  messages: {
    role: 'system' | 'user' | 'assistant' | 'tool';
    content: string;
    tool_call_id?: string;
    tool_calls?: SessionCall[];
  }[];
}

export interface SessionAnswer {
  success: boolean;
  result?: {
    text: string;
    toolCalls: SessionCall[];
    usage: {
      inputTokens: number;
      outputTokens: number;
      cachedTokens: number;
      totalTokens: number;
    };
  };
  session?: TextSession;
}

export interface Error {
  /** A code */ error: string;
  message: string;
  /** The part of the request at fault */ param?: string;
  /** False on text sessions, and missing on others */ success?: boolean;
}

export interface RealtimeError {
  error: {
    type: string;
    code: string;
    message: string;
    param: string | null;
  };
}

export type EndReason = 'hangup' | 'caller_hangup' | 'no_speech' | 'assistant' | 'transferred' | 'machine' | 'browser_closed' | 'browser_lost' | 'never_connected' | 'taken_over' | 'upstream_lost' | 'upstream_not_ready' | 'session_rejected' | 'session_expired' | 'upstream_error' | 'storage_failed' | 'browser_stalled' | 'shutdown' | 'internal_error' | 'max_duration' | 'idle' | 'budget' | 'upstream_closed' | 'planned';

export interface BridgeReadyEvent {
  type: 'bridge.ready';
  call_id: string;
  thread_id: string;
  /** How many messages of the thread were replayed to the model */ replayed: number;
  /** True if the model can be shown images */ images?: boolean;
  /** True if the model listens and speaks at once: turn detection, push to talk and speed do not apply */ duplex?: boolean;
  /** Which answers */ upstream?: string;
  /** Its voice */ voice?: string;
}

export interface BridgeMessageEvent {
  type: 'bridge.message';
  /** As the API gives it */ message: Message;
}

export interface BridgeEndedEvent {
  type: 'bridge.ended' | 'bridge.upstream.lost';
  /** Why */ reason: EndReason;
  /** What the upstream said of it, if it ended the call */ detail?: string;
}

export interface BridgeBudgetEvent {
  type: 'bridge.budget.warning';
  /** Call, or owner_day: everything the owner has spent today (UTC) */ scope: string;
  /** So far, in US dollars */ spent_usd: number;
  /** The limit at which calls end */ limit_usd: number;
}

export interface BridgeStorageEvent {
  type: 'bridge.storage.delayed' | 'bridge.storage.recovered';
  /** Changes of this server's calls waiting for the database */ pending?: number;
}

export interface BridgeRecordingEvent {
  type: 'bridge.recording';
  /** On, paused or off */ state: 'on' | 'paused' | 'off';
}

export interface BridgeRenewingEvent {
  type: 'bridge.upstream.renewing';
  /** Why a new upstream session is being opened */ reason: EndReason;
}

export interface BridgeRenewedEvent {
  type: 'bridge.upstream.renewed';
  /** That of bridge.upstream.renewing */ reason: EndReason;
  /** How long the caller was not heard, in milliseconds */ gap_ms: number;
  /** True if the caller's last words, if there were any, are lost and should be repeated */ unheard?: boolean;
  /** The name of the upstream that the call goes on with, if it is another one */ upstream?: string;
  /** That of Upstream */ voice?: string;
  /** True if the model can be shown images from now on */ images?: boolean;
  /** True if the model listens and speaks at once from now on */ duplex?: boolean;
}

export interface BridgeUsageEvent {
  type: 'bridge.usage';
  /** The upstream's */ response_id: string;
  /** Tokens, as counted by the upstream */ usage: unknown;
  /** If the model's price is known */ cost_usd?: number;
}

export interface BridgeToolEvent {
  type: 'bridge.tool.started' | 'bridge.tool.progress' | 'bridge.tool.done' | 'bridge.tool.failed' | 'bridge.tool.approval_required';
  tool_call_id: string;
  /** The name of the tool, as the model knows it */ name: string;
  /** App, mcp or client */ executor: 'client' | 'app' | 'mcp';
  /** The MCP server */ server?: string;
  /** The arguments, with secrets masked */ input?: unknown;
  /** Of progress: what the tool is doing, in words */ message?: string;
  /** Of progress: 0 to 100 */ percent?: number;
  /** Of progress: the result so far */ data?: unknown;
  /** Of done: the whole result, with secrets masked */ output?: unknown;
  /** True if the arguments are too large for the data channel; they are in the thread */ input_omitted?: boolean;
  /** True if the output is too large for the data channel; it is in the thread */ output_omitted?: boolean;
  /** Of failed: what went wrong */ error?: string;
  /** The MCP server to which the user has to sign in first, if that is why the tool failed */ sign_in?: string;
  /** True if somebody stopped the tool */ cancelled?: boolean;
  /** Must be sent back with the answer to approval_required */ nonce?: string;
  /** The deadline for answering approval_required */ expires_at?: string;
}

/** What the bridge itself tells in a call, beside the Realtime API's events: on the data channel, or as a message of the WebSocket */
export type BridgeEvent = BridgeReadyEvent | BridgeMessageEvent | BridgeEndedEvent | BridgeBudgetEvent | BridgeStorageEvent | BridgeRecordingEvent | BridgeRenewingEvent | BridgeRenewedEvent | BridgeUsageEvent | BridgeToolEvent;
