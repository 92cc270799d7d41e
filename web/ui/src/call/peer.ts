import { ApiError, send, urlOf } from '../api/http';
import { microphoneError, PlainError } from '../base/words';

/** Opens the microphone, with errors that say what to do. */
export async function openMicrophone(): Promise<MediaStream> {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) throw microphoneError('insecure');
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
  } catch (thrown) {
    throw microphoneError(thrown instanceof Error ? thrown.name : 'unknown');
  }
}

export interface Placed {
  answer: string;
  /** Where to hang up: the call's address. */
  location: URL;
  threadId: string;
}

/** Offers a call to the server. Throws ApiError with code call_active when it is live elsewhere. */
export async function placeCall(offer: string, threadId: string, takeover: boolean): Promise<Placed> {
  const url = urlOf('v1/realtime/calls');
  if (threadId) url.searchParams.set('thread_id', threadId);
  if (takeover) url.searchParams.set('takeover', 'true');
  const response = await send(url, { method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: offer });
  const answer = await response.text();
  const location = response.headers.get('Location');
  if (!location || !answer.startsWith('v=0')) {
    throw new PlainError('bad_answer', 'The server answered the call in a way that the page does not understand.');
  }
  return { answer, location: new URL(location, response.url), threadId: response.headers.get('X-Thread-Id') ?? threadId };
}

/** Ends a call on the server, also when the page is closing. Never throws. */
export async function hangUp(location: URL): Promise<void> {
  const url = new URL(location);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/hangup`;
  // A call that has already ended answers 404: just as well.
  await fetch(url, { method: 'POST', keepalive: true, credentials: 'same-origin' }).catch(() => undefined);
}

export function isCallActive(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status === 409 && thrown.code === 'call_active';
}

const gatheringLimitMs = 1500;

/** Makes the offer with the candidates that are found within a short time. */
export async function gatheredOffer(pc: RTCPeerConnection): Promise<string> {
  await pc.setLocalDescription(await pc.createOffer());
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
