import { ApiError, bodyOf, send, urlOf } from '../api/http';
import { PlainError } from '../base/errors';
import { t } from '../words/language.svelte';

export interface Placed {
  answer: string;
  /** The call's address, for hanging up and rejoining. */
  location: URL;
  threadId: string;
}

async function answerOf(response: Response): Promise<string> {
  const answer = await bodyOf(response);
  if (!answer.startsWith('v=0')) throw new PlainError('bad_answer', t().http.badAnswer);
  return answer;
}

function offerIn(offer: string): RequestInit {
  return { method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: offer };
}

/** Offers a call to the server. Throws ApiError with code call_active when it is live elsewhere. */
export async function placeCall(offer: string, threadId: string, takeover: boolean, record: boolean, upstream: string): Promise<Placed> {
  const url = urlOf('v1/realtime/calls');
  if (threadId) url.searchParams.set('thread_id', threadId);
  if (takeover) url.searchParams.set('takeover', 'true');
  if (record) url.searchParams.set('record', 'true');
  if (upstream) url.searchParams.set('upstream', upstream);
  const response = await send(url, offerIn(offer));
  // Only the id: a proxy that serves the page below a path may not have told the server of it.
  const callId = response.headers.get('Location')?.split('/').at(-1);
  const answer = await answerOf(response);
  if (!callId) throw new PlainError('bad_answer', t().http.badAnswer);
  return { answer, location: callUrl(decodeURIComponent(callId)), threadId: response.headers.get('X-Thread-Id') ?? threadId };
}

/** The address of a call by its id. */
export function callUrl(callId: string): URL {
  return urlOf(`v1/realtime/calls/${encodeURIComponent(callId)}`);
}

function below(location: URL, name: string): URL {
  const url = new URL(location);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${name}`;
  return url;
}

/** Offers a new connection to a running call. Throws ApiError with status 404 when it has ended. */
export async function comeBack(offer: string, location: URL, signal?: AbortSignal): Promise<string> {
  return answerOf(await send(below(location, 'reconnect'), { ...offerIn(offer), signal }));
}

/** Ends a call on the server, even while the page is closing. Never throws. */
export async function hangUp(location: URL): Promise<void> {
  // A call that has already ended answers 404, which is fine.
  await fetch(below(location, 'hangup'), { method: 'POST', keepalive: true, credentials: 'same-origin' }).catch(() => undefined);
}

/** Pauses the recording of a call, or goes on with it. */
export async function setRecording(location: URL, state: 'on' | 'paused'): Promise<void> {
  await send(below(location, 'recording'), { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ state }) });
}

export function isCallActive(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status === 409 && thrown.code === 'call_active';
}

const gatheringLimitMs = 1500;

/** Makes the offer with the candidates found within a short time. */
export async function gatheredOffer(pc: RTCPeerConnection, restart = false): Promise<string> {
  await pc.setLocalDescription(await pc.createOffer({ iceRestart: restart }));
  await new Promise<void>((resolve) => {
    if (pc.iceGatheringState === 'complete') return resolve();
    const timer = setTimeout(resolve, gatheringLimitMs);
    pc.addEventListener('icegatheringstatechange', () => {
      if (pc.iceGatheringState !== 'complete') return;
      clearTimeout(timer);
      resolve();
    });
  });
  return pc.localDescription?.sdp ?? '';
}
