import { asNumber, asObject, asObjects, asText, type Json } from '../base/json';
import { sendJson } from './http';

/** What a call was, and what the text model found in it once it had ended. */
const readReport = (raw: Json) => ({
  /** waiting, running, done or failed; empty if nobody reads the call. */
  state: asText(raw.extraction),
  /** Why nothing was found, in the server's words. */
  error: asText(raw.extraction_error),
  summary: asText(raw.summary),
  extracted: asObject(raw.extracted),
  /** Why the call ended; empty while it has not. */
  reason: asText(raw.end_reason),
  /** The other number, of a call by telephone. */
  number: asText(raw.caller),
  /** From when the call was ready, in milliseconds; 0 if it never was, or has not ended. */
  durationMs: Math.max(0, Date.parse(asText(raw.ended_at)) - Date.parse(asText(raw.ready_at)) || 0),
  /** In US dollars; null while no price is known. */
  cost: asNumber(raw.cost_usd) ?? null,
});
export type Report = ReturnType<typeof readReport>;

/** What a live call by telephone is; null if it is none. */
export async function phoneOf(callId: string) {
  const raw = await sendJson('GET', `api/calls/${encodeURIComponent(callId)}`);
  return asText(raw.direction) === '' ? null : { callId, number: asText(raw.number), startedAt: Date.parse(asText(raw.created_at)) || 0 };
}
export type Phone = Awaited<ReturnType<typeof phoneOf>>;

/** The reports of a thread's calls, by call. */
export async function listReports(thread: string): Promise<Map<string, Report>> {
  const { calls } = await sendJson('GET', `api/threads/${encodeURIComponent(thread)}/calls`);
  return new Map(asObjects(calls).map((raw) => [asText(raw.call_id), readReport(raw)]));
}
