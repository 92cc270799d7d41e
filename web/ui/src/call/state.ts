import type { Json } from '../base/json';
import type { Approval, Caption, ToolRun } from '../message/live';
import type { Word } from '../words/language.svelte';

/** The speed of a call that has not said it. */
export const unknownSpeed = 0;

/** Where a call is in its life, judging by the connection. */
export type Phase = 'idle' | 'permission' | 'connecting' | 'live' | 'ended';

export interface CallState {
  phase: Phase;
  callId: string;
  threadId: string;
  replayed: number;
  /** The model can be shown images. */
  images: boolean;
  /** The model hears and speaks at once: it takes no turns that the page could rule, and has one speed. */
  duplex: boolean;
  /** What answers, and its voice; empty while the server has not said. */
  upstream: string;
  voice: string;
  userSpeaking: boolean;
  /** The user's turn is over and no answer has begun. */
  waiting: boolean;
  /** The response in progress; null if there is none. */
  response: string | null;
  /** Audio of an answer is playing. */
  playing: boolean;
  /** The upstream is being replaced; the caller stays connected. */
  renewing: boolean;
  /** How many changes the server could not save yet; 0 if everything is saved. */
  unsaved: number;
  /** What the call has cost so far; null while no price is known. */
  cost: number | null;
  tokens: number;
  tools: ToolRun[];
  approvals: Approval[];
  captions: Caption[];
  /** How the session notices that the user has spoken, when nobody holds a button; null while it has not said. */
  turns: Json | null;
  /** The session does not notice it at present: a button is held. */
  held: boolean;
  endReason: string;
  /** Whether the sound is kept; empty if it never was. */
  recording: '' | 'on' | 'paused' | 'off';
}

export const idleCall: CallState = {
  phase: 'idle',
  callId: '',
  threadId: '',
  replayed: 0,
  images: false,
  duplex: false,
  upstream: '',
  voice: '',
  userSpeaking: false,
  waiting: false,
  response: null,
  playing: false,
  renewing: false,
  unsaved: 0,
  cost: null,
  tokens: 0,
  tools: [],
  approvals: [],
  captions: [],
  turns: null,
  held: false,
  endReason: '',
  recording: '',
};

/** The state of the microphone. */
export interface Microphone {
  muted: boolean;
  /** It is open only while a button is held, which is not the case now. */
  resting: boolean;
}

/** The word that says what the call is doing. */
export function wordOf(call: CallState, { muted, resting }: Microphone = { muted: false, resting: false }): Word {
  if (call.phase !== 'live') return call.phase;
  if (call.renewing) return 'renewing';
  if (call.userSpeaking && !muted) return 'hearing';
  if (call.playing) return 'speaking';
  if (call.approvals.length > 0) return 'approval';
  if (call.tools.some((tool) => tool.state === 'running')) return 'tool';
  if (call.waiting || call.response !== null) return 'thinking';
  if (muted) return 'muted';
  return resting ? 'held' : 'listening';
}

/** The word apart from the turns: who uses a screen reader hears those, and should not be told of each. */
export function calmWordOf(call: CallState, microphone: Microphone): Word {
  return wordOf({ ...call, userSpeaking: false, playing: false, waiting: false, response: null }, microphone);
}

/** The word in the terms of the API's own events, which other programs read from the page. */
export function plainWord(word: Word): Word {
  if (word === 'muted' || word === 'held' || word === 'hearing') return 'listening';
  if (word === 'tool' || word === 'approval') return 'thinking';
  return word === 'recovering' ? 'renewing' : word;
}

/** Whether there is an answer to stop. */
export function canStop(call: CallState): boolean {
  return call.phase === 'live' && (call.playing || call.response !== null);
}

/** Records that the user has asked to stop a tool. */
export function stopping(call: CallState, toolCallId: string): CallState {
  return { ...call, tools: call.tools.map((tool) => (tool.id === toolCallId ? { ...tool, stopping: true } : tool)) };
}

/** Removes an approval from the list once it was answered. */
export function answered(call: CallState, toolCallId: string): CallState {
  return { ...call, approvals: call.approvals.filter((approval) => approval.toolCallId !== toolCallId) };
}

/** Closes the call; the first reason counts. */
export function ended(call: CallState, reason: string): CallState {
  if (call.phase === 'ended') return call;
  return { ...idleCall, phase: 'ended', callId: call.callId, threadId: call.threadId, endReason: reason };
}
