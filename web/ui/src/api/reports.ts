import { asNumber, asObject, asObjects, asText, type Json } from '../base/json';
import { sendJson } from './http';

/** What the text model found in a call once it had ended. */
export interface Report {
  /** waiting, running, done or failed; empty if nobody reads the call. */
  state: string;
  /** Why nothing was found, in the server's words. */
  error: string;
  summary: string;
  extracted: Json;
  /** Why the call ended; empty while it has not. */
  reason: string;
  /** From when the call was ready, in milliseconds; 0 if it never was, or has not ended. */
  durationMs: number;
  /** In US dollars; null while no price is known. */
  cost: number | null;
}

/** The reports of a thread's calls, by call. */
export async function listReports(thread: string): Promise<Map<string, Report>> {
  const { calls } = await sendJson('GET', `api/threads/${encodeURIComponent(thread)}/calls`);
  return new Map(
    asObjects(calls).map((raw) => [
      asText(raw.call_id),
      {
        state: asText(raw.extraction),
        error: asText(raw.extraction_error),
        summary: asText(raw.summary),
        extracted: asObject(raw.extracted),
        reason: asText(raw.end_reason),
        durationMs: Math.max(0, Date.parse(asText(raw.ended_at)) - Date.parse(asText(raw.ready_at)) || 0),
        cost: asNumber(raw.cost_usd) ?? null,
      },
    ]),
  );
}
