import { ApiError, isPassing } from '../api/http';
import { isObject, parseJson, type Json } from '../base/json';
import type { PeerStep } from '../link/connection';
import { retryDelay } from '../link/socket';
import { comeBack, gatheredOffer, hangUp, placeCall, setRecording } from './peer';

interface Handlers {
  /** The server took the call. */
  onPlaced: (threadId: string) => void;
  iceServers: () => Promise<RTCIceServer[]>;
  onOpen: () => void;
  onEvent: (event: Json) => void;
  onAudio: (stream: MediaStream) => void;
  onStep: (step: PeerStep) => void;
  /** The connection was lost without notice from the server, and does not come back. */
  onLost: () => void;
}

const hangupLimitMs = 2000;
/** How long a lost path may take to come back by itself. */
const weakMs = 1500;
/** How long the server keeps a call whose browser is lost. */
const graceMs = 30_000;
/** A request may hang on the lost path; another one finds the new path. */
const answerMs = 10_000;

/** One peer connection to the server with its data channel. It finds a new path by itself if it loses the old one. */
export class Line {
  pc: RTCPeerConnection;
  #channel: RTCDataChannel;
  /** The channel is gone, so that no restart of ICE brings the connection back. */
  #broken = false;
  #location: URL | undefined;
  #closed = false;
  #restarting = false;
  #lostAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  // A device that was asleep or has changed networks has another address.
  readonly #onNetwork = () => this.#restart();

  constructor(
    iceServers: RTCIceServer[],
    private microphone: MediaStream,
    private readonly handlers: Handlers,
  ) {
    [this.pc, this.#channel] = this.#dial(iceServers);
    addEventListener('online', this.#onNetwork);
  }

  /** Connects; throws ApiError when the server refuses. */
  async connect(threadId: string, takeover: boolean, record: boolean, upstream = ''): Promise<void> {
    this.handlers.onStep('asking');
    const offer = await gatheredOffer(this.pc);
    if (this.#closed) return;
    const placed = await placeCall(offer, threadId, takeover, record, upstream);
    this.#location = placed.location;
    if (this.#closed) return hangUp(placed.location);
    this.handlers.onPlaced(placed.threadId);
    await this.#take(placed.answer);
  }

  /** Replaces another connection of a running call; throws ApiError if the call has ended. */
  async join(location: URL): Promise<void> {
    this.handlers.onStep('asking');
    const offer = await gatheredOffer(this.pc);
    if (this.#closed) return;
    const answer = await comeBack(offer, location);
    this.#location = location;
    if (this.#closed) return hangUp(location); // nobody else is in the call any more
    await this.#take(answer);
  }

  /** Uses another microphone from now on. */
  async replaceTrack(track: MediaStreamTrack | null): Promise<void> {
    this.microphone = new MediaStream(track ? [track] : []);
    const sender = this.pc.getSenders().find((s) => s.track === null || s.track.kind === 'audio');
    await sender?.replaceTrack(track);
  }

  /** The id of the call, once the server has taken it. */
  get callId(): string {
    return decodeURIComponent(this.#location?.pathname.split('/').at(-1) ?? '');
  }

  /** Pauses the recording, or goes on with it. */
  async record(on: boolean): Promise<void> {
    if (this.#location) await setRecording(this.#location, on ? 'on' : 'paused');
  }

  /** Sends one event; false if the channel is not open. */
  send(event: object): boolean {
    if (this.#channel.readyState !== 'open') return false;
    this.#channel.send(JSON.stringify(event));
    return true;
  }

  /** Closes the connection; with hangup the server is told. Idempotent. */
  close(hangup: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#timer);
    removeEventListener('online', this.#onNetwork);
    this.handlers.onStep('none');
    const drop = () => {
      this.#channel.close();
      this.pc.close();
    };
    if (!hangup || !this.#location) return drop();
    // Tell the server first: it cannot know from a lost connection that
    // the user hung up.
    const enough = new Promise((resolve) => setTimeout(resolve, hangupLimitMs));
    void Promise.race([hangUp(this.#location), enough]).then(drop);
  }

  async #take(answer: string): Promise<void> {
    if (this.#closed) return;
    this.handlers.onStep('connecting');
    await this.pc.setRemoteDescription({ type: 'answer', sdp: answer });
  }

  #dial(iceServers: RTCIceServer[]): [RTCPeerConnection, RTCDataChannel] {
    const { handlers, microphone } = this;
    const pc = new RTCPeerConnection({ iceServers });
    for (const track of microphone.getAudioTracks()) pc.addTrack(track, microphone);
    const channel = pc.createDataChannel('oai-events');
    channel.onopen = () => handlers.onOpen();
    channel.onmessage = (message) => {
      const event = typeof message.data === 'string' ? parseJson(message.data) : undefined;
      if (!this.#closed && isObject(event)) handlers.onEvent(event);
    };
    channel.onclose = () => channel === this.#channel && this.#gone();
    pc.ontrack = ({ track, streams }) => handlers.onAudio(streams[0] ?? new MediaStream([track]));
    pc.onconnectionstatechange = () => pc === this.pc && this.#follow(pc.connectionState);
    return [pc, channel];
  }

  // The server says when a call is over. Without that the path is lost: Firefox closes the channel once ICE has failed.
  #gone(): void {
    if (this.#closed) return;
    if (!this.#location) return this.#lost();
    this.#broken = true;
    this.#lostAt ||= Date.now();
    this.handlers.onStep('weak');
    this.#later(0);
  }

  /** Prepares the offer that brings the path back: by a restart of ICE, or by another connection in place of a broken one. */
  async #offer(): Promise<string> {
    const iceServers = await this.handlers.iceServers();
    if (!this.#broken || this.#closed) {
      this.pc.setConfiguration({ ...this.pc.getConfiguration(), iceServers });
      return gatheredOffer(this.pc, true);
    }
    const before = this.pc;
    [this.pc, this.#channel] = this.#dial(iceServers);
    this.#broken = false;
    before.close();
    return gatheredOffer(this.pc);
  }

  #follow(state: RTCPeerConnectionState): void {
    if (this.#closed || state === 'new' || state === 'connecting') return;
    if (state === 'connected') {
      this.#lostAt = 0;
      clearTimeout(this.#timer);
      this.handlers.onStep('connected');
    } else if (state === 'closed') {
      this.#gone();
    } else {
      this.#lostAt ||= Date.now();
      if (Date.now() - this.#lostAt > graceMs) return this.#lost();
      this.handlers.onStep('weak');
      this.#later(state === 'failed' ? 0 : weakMs);
    }
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#restart(), ms);
  }

  #restart(): void {
    if (this.#closed || this.#restarting || !this.#location) return;
    this.#restarting = true;
    void this.#restartOn(this.#location).finally(() => {
      this.#restarting = false;
      if (this.#broken) this.#later(0);
    });
  }

  /** Tries until the path is back, the server says that the call is over, or the server's patience has run out. */
  async #restartOn(location: URL): Promise<void> {
    for (let attempt = 0; !this.#closed; attempt++) {
      try {
        const answer = await comeBack(await this.#offer(), location, AbortSignal.timeout(answerMs));
        if (!this.#closed && this.pc.signalingState === 'have-local-offer') await this.pc.setRemoteDescription({ type: 'answer', sdp: answer });
        return;
      } catch (thrown) {
        const waits = isPassing(thrown);
        if (this.pc.connectionState === 'connected') return; // the old path is back
        // A server without that route refuses, too; then only the old path can come back.
        if (!waits && !isOver(thrown) && !['failed', 'new'].includes(this.pc.connectionState)) return;
        if (!waits || (this.#lostAt > 0 && Date.now() - this.#lostAt > graceMs)) return this.#lost();
      }
      await new Promise((resolve) => setTimeout(resolve, retryDelay(attempt)));
    }
  }

  #lost(): void {
    if (!this.#closed) this.handlers.onLost();
  }
}

function isOver(thrown: unknown): boolean {
  return thrown instanceof ApiError && thrown.status === 404 && (thrown.code === 'no_call' || thrown.code === 'call_not_found');
}
