import { PlainError } from '../base/errors';
import { wait } from './format';
import { t } from './language.svelte';
import { textIn } from './texts';

// What the page says when something ends or goes wrong.

const benign = new Set([
  'response_cancel_not_active',
  'conversation_already_has_active_response',
  'input_audio_buffer_commit_empty',
  'item_truncate_invalid_item_id',
  'item_truncate_invalid_audio_end_ms',
  'item_retrieve_invalid_item_id',
  'item_delete_invalid_item_id',
  'tool_name_taken', // the server has a tool of the name of one of the page's
  'tool_not_running', // it ended while Stop was pressed
]);

/** Words for an error event of the data channel; null if it needs no notice. */
export function errorEventWords(code: string, message: string): string | null {
  if (benign.has(code)) return null;
  return textIn(t().upstreamErrors, code) ?? problemWords(message || code);
}

/** Words for what the voice service says of a problem. */
export function problemWords(what: string): string {
  return t().serviceProblem(what.replace(/\.$/, '') || '–');
}

/** Words for a call that the voice service refused. */
export function refusedWords(code: string, why: string): string {
  return why ? t().serviceRefusedBecause(code, why) : t().serviceRefused(code);
}

/** Words for a failed HTTP request. retryAfter is the wait that the server asks for, in seconds; 0 if it names none. */
export function httpWords(status: number, code: string, message: string, retryAfter = 0): string {
  const words = t().http;
  const known = textIn(words.byCode, code);
  if (known) return known;
  if (status === 401) return words.unauthorized;
  if (status === 403) return `${words.forbidden} ${message}`.trim(); // the operator has to change something, and the server knows what
  if (status === 404) return words.gone;
  if (status === 409 && code === 'agent_busy') return words.busy;
  if (status === 413) return message || words.tooLarge;
  if (status === 429) return retryAfter > 0 ? words.tooManyFor(wait(retryAfter)) : words.tooMany;
  // A proxy whose server is away gives no code.
  if (code !== '' && (status === 502 || status === 504)) {
    return textIn(t().upstreamErrors, code) ?? refusedWords(code, message.replace(/^The upstream refused the call \(\d+\): /, ''));
  }
  if (status >= 502 && status <= 504) return words.unready;
  if (status === 0) return words.unreachable;
  return message || words.error(status);
}

const microphoneCodes: Record<string, string> = {
  insecure: 'mic_insecure',
  NotAllowedError: 'mic_denied',
  SecurityError: 'mic_denied',
  NotFoundError: 'mic_missing',
  OverconstrainedError: 'mic_missing',
  NotReadableError: 'mic_busy',
  AbortError: 'mic_busy',
};

/** Words for a microphone that cannot be used. */
export function microphoneError(name: string): PlainError {
  const code = microphoneCodes[name] ?? 'mic_failed';
  return new PlainError(code, textIn(t().microphone, code) ?? t().micFailed(name));
}

/** A tool's name for people: create_bar_chart → Create bar chart, mail__send → Mail: send. */
export function toolTitle(name: string): string {
  const own = textIn(t().tool.titles, name);
  if (own) return own;
  const words = name
    .replace(/^([^_].*?)__/, '$1: ')
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .replace(/[_-]+/g, ' ')
    .trim()
    .toLowerCase();
  return words === '' ? t().tool.name : words.charAt(0).toUpperCase() + words.slice(1);
}
