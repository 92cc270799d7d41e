// What the HTTP API takes and answers with. Made by make gen; /openapi.json of a running server says more.

export type ID = string;

/** A message in the form of the Vercel AI SDK's UIMessage. */
export interface Message {
  id: string;
  role: 'system' | 'user' | 'assistant';
  parts: {
    type: string;
  }[];
  metadata: {
    /** api: a text of the system or the assistant that a server put into a call */ source?: 'voice' | 'text' | 'api';
    status?: 'in_progress' | 'completed' | 'interrupted' | 'failed';
    call_id?: string;
    model?: string;
    voice?: string;
    created_at?: string;
    usage?: Record<string, unknown>;
    /** Of a typed answer first_token and total, since the turn began. Of an answer in a call, since the user stopped speaking: commit (the upstream has taken the speech), response (it has begun to answer), first_audio (it has begun to speak), first_packet (the caller was sent the first sound). */ latency_ms?: Record<string, number>;
    /** The part of an interrupted answer that was played */ heard_text?: string;
    audio_end_ms?: number;
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

/** A named set of what is otherwise the server's settings */
export interface Assistant {
  created_at?: string;
  /** For people who choose one */ description?: string;
  /** A JSON schema of an object: what the text model is to find in a call once it has ended */ extract?: Record<string, unknown>;
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
  /** Of calls. Those of an owner's assistant only tighten the server's */ limits?: {
    /** What a call may cost, in US dollars; 0: no limit */ call_usd?: number;
    /** A call ends after this long without speech, answers or tools; 0: never */ idle_minutes?: number;
    /** The longest call; 0: no limit */ max_minutes?: number;
  };
  /** The MCP servers whose tools it has; an empty list: none */ mcp_servers?: string[];
  /** What people call it */ name: string;
  /** It is the operator's or another owner's */ read_only?: boolean;
  /** Whether calls are recorded, where the server permits it; not those of others who use it */ recording?: boolean;
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

export interface HookChange {
  url?: string;
  /** Types, or patterns such as call.* and *: call.started, call.ended, call.extracted, message.completed, tool.completed, approval.required, turn.finished, budget.warning, recording.ready */ events?: string[];
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

export interface Server {
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
