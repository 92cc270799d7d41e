import type { Word } from '../call/state';

// What the page says when something ends or goes wrong: plain words, one place.

/** An error whose message is meant for people. */
export class PlainError extends Error {
  /** @param code a stable word for the page's own branches */
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export const stateWords: Record<Word, string> = {
  idle: 'Ready',
  permission: 'Waiting for the microphone',
  connecting: 'Connecting',
  listening: 'Listening',
  thinking: 'Thinking',
  speaking: 'Speaking',
  renewing: 'Reconnecting',
  ended: 'Call ended',
};

// By the reason of bridge.ended; connection_lost is the page's own.
const endings: Record<string, string> = {
  hangup: 'Call ended.',
  taken_over: 'This call was moved to another window or device.',
  upstream_lost: 'The voice service dropped the connection. Everything said so far is saved; call again to go on.',
  upstream_closed: 'The voice service ended the call. Everything said so far is saved; call again to go on.',
  upstream_error: 'The voice service cannot go on with the call. Everything said so far is saved.',
  upstream_not_ready: 'The voice service did not get ready in time. Call again.',
  session_rejected: 'The voice service did not accept the settings of this server.',
  session_expired: 'The voice service ends a call after its longest time. Everything is saved; call again to go on.',
  shutdown: 'The server is shutting down. Everything said so far is saved.',
  max_duration: 'The call reached its longest allowed time.',
  connection_lost: 'The connection to the server was lost. Everything said so far is saved; call again to go on.',
  browser_lost: 'The connection to the server was lost. Everything said so far is saved; call again to go on.',
  browser_stalled: 'This page stopped taking in what the server sent. Everything said so far is saved; call again to go on.',
  storage_failed: 'The server could not save the conversation any longer and ended the call.',
  internal_error: 'The server made a mistake and ended the call. Its log has the details.',
};

/** Says why a call ended. */
export function endingWords(reason: string): string {
  return endings[reason] ?? `The call ended (${reason.replaceAll('_', ' ')}).`;
}

/** Endings that nobody asked for are told as a problem. */
export function isBadEnding(reason: string): boolean {
  return reason !== 'hangup';
}

const benign = new Set([
  'response_cancel_not_active',
  'conversation_already_has_active_response',
  'input_audio_buffer_commit_empty',
  'item_truncate_invalid_item_id',
  'item_truncate_invalid_audio_end_ms',
  'item_retrieve_invalid_item_id',
  'item_delete_invalid_item_id',
  'tool_not_running', // it ended while Stop was pressed
]);

const upstreamErrors: Record<string, string> = {
  insufficient_quota: 'The voice service says that the account has no credit left.',
  credit_balance_exhausted: 'The voice service says that the account has no credit left.',
  billing_hard_limit_reached: 'The voice service says that the spending limit is reached.',
  invalid_api_key: 'The voice service does not accept the API key of this server.',
  account_deactivated: 'The voice service says that the account is closed.',
  rate_limit_exceeded: 'The voice service is busy. Wait a moment, then speak again.',
  inference_rate_limit_exceeded: 'The voice service is busy. Wait a moment, then speak again.',
  server_error: 'The voice service had a problem. Try again.',
  session_expired: endings.session_expired ?? '',
  event_not_allowed: 'The server did not allow what the page asked for.',
};

/** Words for an error event of the data channel; null when it needs no notice. */
export function errorEventWords(code: string, message: string): string | null {
  if (benign.has(code)) return null;
  return upstreamErrors[code] ?? `The voice service reported a problem: ${message || code || 'unknown'}.`;
}

/** Words for a failed HTTP request. */
export function httpWords(status: number, code: string, message: string): string {
  if (status === 401) return 'This server needs an access token.';
  if (status === 403) return 'The server does not allow this from here.';
  if (status === 404) return 'This conversation does not exist any more.';
  if (status === 409 && code === 'agent_busy') return 'The assistant is still answering. Wait until it has finished.';
  if (status === 429) return 'Too many requests. Wait a moment, then try again.';
  if (status === 502 || status === 504) {
    const known = upstreamErrors[code];
    return known ? `${known} (${code})` : `The voice service refused the call${code ? ` (${code})` : ''}${message ? `: ${message}` : '.'}`;
  }
  if (status === 503) return 'The server is not ready or is shutting down. Try again in a moment.';
  if (status === 0) return 'The server cannot be reached. Check the network, then try again.';
  return message || `The server answered with an error (${status}).`;
}

/** Words for a microphone that cannot be used. */
export function microphoneError(name: string): PlainError {
  switch (name) {
    case 'insecure':
      return new PlainError(
        'mic_insecure',
        'The browser gives the microphone only to secure pages. Open this page over HTTPS or on 127.0.0.1.',
      );
    case 'NotAllowedError':
    case 'SecurityError':
      return new PlainError(
        'mic_denied',
        'The microphone is blocked for this page. Allow it in the address bar, then press Talk again.',
      );
    case 'NotFoundError':
    case 'OverconstrainedError':
      return new PlainError('mic_missing', 'No microphone was found. Connect one, then press Talk again.');
    case 'NotReadableError':
    case 'AbortError':
      return new PlainError('mic_busy', 'The microphone does not answer. Another program may be using it.');
    default:
      return new PlainError('mic_failed', `The microphone could not be opened (${name}).`);
  }
}

/** A tool's name for people: create_bar_chart → Create bar chart, mail__send → Mail: send. */
export function toolTitle(name: string): string {
  const words = name
    .replace(/^([^_].*?)__/, '$1: ')
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .replace(/[_-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words === '' ? 'Tool' : words.charAt(0).toUpperCase() + words.slice(1);
}
