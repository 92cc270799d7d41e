import { asList, asNumber, asObject, asText, isObject, type Json } from '../base/json';
import { answerableUntil, type Caption, type ToolRun } from '../message/live';
import { ended, type CallState } from './state';

/** Applies one event of the data channel. Unknown events change nothing. */
export function reduce(call: CallState, event: Json, now = Date.now()): CallState {
  const type = asText(event.type);
  if (type.startsWith('bridge.tool.')) return reduceTool(call, type.slice('bridge.tool.'.length), event, now);
  if (type.startsWith('bridge.')) return reduceBridge(call, type, event);
  if (type.startsWith('conversation.item.') || type.startsWith('response.output_')) return reduceText(call, type, event);
  return reduceTurn(call, type, event);
}

function reduceBridge(call: CallState, type: string, event: Json): CallState {
  switch (type) {
    case 'bridge.ready':
      return {
        ...call,
        phase: 'live',
        callId: asText(event.call_id, call.callId),
        threadId: asText(event.thread_id, call.threadId),
        replayed: asNumber(event.replayed, 0),
        ...answering(call, event),
      };
    case 'bridge.upstream.renewing':
      return { ...call, renewing: true };
    case 'bridge.upstream.renewed':
      return { ...call, renewing: false, response: null, playing: false, waiting: false, ...answering(call, event) };
    case 'bridge.upstream.lost':
      return { ...call, renewing: true, response: null, playing: false, waiting: false, userSpeaking: false };
    case 'bridge.storage.delayed':
      return { ...call, unsaved: Math.max(1, asNumber(event.pending, 1)) };
    case 'bridge.storage.recovered':
      return { ...call, unsaved: 0 };
    case 'bridge.recording':
      return event.state === 'on' || event.state === 'paused' || event.state === 'off' ? { ...call, recording: event.state } : call;
    case 'bridge.usage': {
      const cost = asNumber(event.cost_usd);
      const tokens = asNumber(asObject(event.usage).total_tokens, 0);
      return { ...call, tokens: call.tokens + tokens, cost: cost === undefined ? call.cost : (call.cost ?? 0) + cost };
    }
    case 'bridge.ended':
      return ended(call, asText(event.reason, 'hangup'));
    default:
      return call;
  }
}

const answering = ({ upstream, voice }: CallState, event: Json) => ({
  images: event.images === true,
  duplex: event.duplex === true,
  upstream: asText(event.upstream, upstream),
  voice: asText(event.voice, voice),
});

function reduceTurn(call: CallState, type: string, event: Json): CallState {
  switch (type) {
    case 'session.updated': {
      const { input, output } = asObject(asObject(event.session).audio);
      const turns = asObject(input).turn_detection;
      const voice = asText(asObject(output).voice, call.voice);
      if (turns === null) return { ...call, voice, held: true };
      return isObject(turns) ? { ...call, voice, turns, held: false } : { ...call, voice };
    }
    case 'input_audio_buffer.speech_started':
      return withCaption({ ...call, userSpeaking: true, waiting: false }, asText(event.item_id), 'user', (c) => c);
    case 'input_audio_buffer.speech_stopped':
      return { ...call, userSpeaking: false };
    case 'input_audio_buffer.committed':
      return { ...call, userSpeaking: false, waiting: true };
    case 'input_audio_buffer.cleared':
      return { ...call, userSpeaking: false, waiting: false, captions: call.captions.filter(hasText) };
    case 'response.created':
      return { ...call, waiting: false, response: asText(asObject(event.response).id, 'response') };
    case 'response.done':
      return { ...call, waiting: false, response: null };
    case 'output_audio_buffer.started':
      return { ...call, waiting: false, playing: true };
    case 'output_audio_buffer.stopped':
    case 'output_audio_buffer.cleared':
      return { ...call, playing: false };
    default:
      return call;
  }
}

function hasText(caption: Caption): boolean {
  return caption.role === 'assistant' || caption.text !== '';
}

function reduceText(call: CallState, type: string, event: Json): CallState {
  const item = asText(event.item_id);
  const append = (c: Caption): Caption => ({ ...c, text: c.text + asText(event.delta) });
  switch (type) {
    case 'conversation.item.input_audio_transcription.delta':
      return withCaption(call, item, 'user', append);
    case 'conversation.item.input_audio_transcription.completed':
      return withCaption(call, item, 'user', (c) => ({ ...c, text: asText(event.transcript) }));
    case 'conversation.item.input_audio_transcription.failed':
      return withCaption(call, item, 'user', (c) => ({ ...c, failed: true }));
    case 'response.output_audio_transcript.delta':
    case 'response.output_text.delta':
      return withCaption(call, item, 'assistant', append);
    case 'response.output_audio_transcript.done':
      return withCaption(call, item, 'assistant', (c) => ({ ...c, text: asText(event.transcript, c.text) }));
    case 'response.output_text.done':
      return withCaption(call, item, 'assistant', (c) => ({ ...c, text: asText(event.text, c.text) }));
    case 'conversation.item.deleted':
      return { ...call, captions: call.captions.filter((c) => c.itemId !== item) };
    default:
      return call;
  }
}

// Captions are drafts: keeping the newest is enough, older ones are saved by then.
const keptCaptions = 40;

function withCaption(
  call: CallState,
  itemId: string,
  role: Caption['role'],
  change: (caption: Caption) => Caption,
): CallState {
  if (itemId === '') return call;
  const known = call.captions.find((c) => c.itemId === itemId);
  if (known?.cut) return call;
  if (known) return { ...call, captions: call.captions.map((c) => (c === known ? change(c) : c)) };
  const fresh = change({ itemId, role, text: '', failed: false });
  // A noise that never became a turn leaves no line behind.
  const rest = role === 'user' ? call.captions.filter(hasText) : call.captions;
  return { ...call, captions: [...rest, fresh].slice(-keptCaptions) };
}

function reduceTool(call: CallState, what: string, event: Json, now: number): CallState {
  const id = asText(event.tool_call_id);
  if (id === '') return call;
  const approvals = call.approvals.filter((approval) => approval.toolCallId !== id);
  switch (what) {
    case 'approval_required': {
      const approval = { toolCallId: id, name: asText(event.name), input: event.input, nonce: asText(event.nonce), until: answerableUntil(event.expires_at, now) };
      return { ...call, approvals: [...approvals, approval] };
    }
    case 'started':
    case 'progress':
      return { ...call, approvals, tools: withRun(call.tools, id, event, 'running', now) };
    case 'done':
      return { ...call, approvals, tools: withRun(call.tools, id, event, 'done', now) };
    case 'failed':
      return { ...call, approvals, tools: withRun(call.tools, id, event, event.cancelled === true ? 'cancelled' : 'failed', now) };
    default:
      return call;
  }
}

function withRun(tools: ToolRun[], id: string, event: Json, state: ToolRun['state'], now: number): ToolRun[] {
  const known = tools.find((tool) => tool.id === id);
  // Progress that arrives after the end says nothing new.
  if (known && known.state !== 'running' && state === 'running') return tools;
  const run: ToolRun = {
    id,
    name: asText(event.name, known?.name ?? ''),
    executor: asText(event.executor, known?.executor ?? ''),
    state,
    message: asText(event.message, asText(event.error, known?.message ?? '')),
    percent: asNumber(event.percent) ?? known?.percent,
    signIn: asText(event.sign_in) || known?.signIn,
    startedAt: known?.startedAt ?? now,
    ...(state === 'running' ? {} : { endedAt: known?.endedAt ?? now }),
    ...(known?.stopping && state === 'running' ? { stopping: true } : {}),
  };
  return known ? tools.map((tool) => (tool === known ? run : tool)) : [...tools, run];
}

/** Why a response ended without an answer, of which nothing else need tell; null if it did not. One that was cut short says so in its message. */
export function failureOf({ type, response }: Json): { code: string; message: string } | null {
  const { status, status_details, output } = asObject(response);
  const none = status === 'failed' || (status === 'incomplete' && asList(output).length === 0);
  if (type !== 'response.done' || !none) return null;
  const { error, reason } = asObject(status_details);
  const { code, type: kind, message } = asObject(error);
  return { code: asText(code) || asText(reason) || asText(kind, 'response_failed'), message: asText(message) };
}

/** A finished function call of a response, which the browser may have to answer. */
export interface FunctionCall {
  callId: string;
  name: string;
  args: string;
}

/** Reads a function call from an event; null if it contains none. */
export function functionCallOf(event: Json): FunctionCall | null {
  if (event.type !== 'response.output_item.done') return null;
  const item = asObject(event.item);
  if (item.type !== 'function_call' || item.status !== 'completed') return null;
  const callId = asText(item.call_id);
  return callId === '' ? null : { callId, name: asText(item.name), args: asText(item.arguments) };
}
