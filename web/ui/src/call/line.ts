import { isObject, parseJson, type Json } from '../base/json';
import { gatheredOffer, hangUp, placeCall } from './peer';

interface Handlers {
  /** The server took the call. */
  onPlaced: (threadId: string) => void;
  onOpen: () => void;
  onEvent: (event: Json) => void;
  onAudio: (stream: MediaStream) => void;
  /** ICE lost its path (true) or found it again (false). */
  onWeak: (weak: boolean) => void;
  /** The connection is gone without a word from the server. */
  onLost: () => void;
}

const hangupLimitMs = 2000;

/** One peer connection to the server with its data channel. */
export class Line {
  readonly pc: RTCPeerConnection;
  readonly #channel: RTCDataChannel;
  #location: URL | undefined;
  #closed = false;

  constructor(
    iceServers: RTCIceServer[],
    microphone: MediaStream,
    private readonly handlers: Handlers,
  ) {
    this.pc = new RTCPeerConnection({ iceServers });
    for (const track of microphone.getAudioTracks()) this.pc.addTrack(track, microphone);
    this.#channel = this.pc.createDataChannel('oai-events');
    this.#listen();
  }

  /** Connects; throws ApiError when the server refuses. */
  async connect(threadId: string, takeover: boolean): Promise<void> {
    const offer = await gatheredOffer(this.pc);
    if (this.#closed) return;
    const placed = await placeCall(offer, threadId, takeover);
    this.#location = placed.location;
    if (this.#closed) return hangUp(placed.location);
    this.handlers.onPlaced(placed.threadId);
    await this.pc.setRemoteDescription({ type: 'answer', sdp: placed.answer });
  }

  /** Sends one event; false when the channel is not open. */
  send(event: object): boolean {
    if (this.#channel.readyState !== 'open') return false;
    this.#channel.send(JSON.stringify(event));
    return true;
  }

  /** Closes the connection; with hangup the server is told. Idempotent. */
  close(hangup: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    const drop = () => {
      this.#channel.close();
      this.pc.close();
    };
    if (!hangup || !this.#location) return drop();
    // Told first: of a connection that is just gone the server cannot say that
    // somebody hung up.
    const enough = new Promise((resolve) => setTimeout(resolve, hangupLimitMs));
    void Promise.race([hangUp(this.#location), enough]).then(drop);
  }

  #listen(): void {
    const { pc, handlers } = this;
    this.#channel.onopen = () => handlers.onOpen();
    this.#channel.onmessage = (message) => {
      const event = typeof message.data === 'string' ? parseJson(message.data) : undefined;
      if (!this.#closed && isObject(event)) handlers.onEvent(event);
    };
    this.#channel.onclose = () => {
      if (!this.#closed) handlers.onLost();
    };
    pc.ontrack = ({ track, streams }) => handlers.onAudio(streams[0] ?? new MediaStream([track]));
    pc.onconnectionstatechange = () => {
      if (this.#closed) return;
      handlers.onWeak(pc.connectionState === 'disconnected');
      if (pc.connectionState === 'failed' || pc.connectionState === 'closed') handlers.onLost();
    };
  }
}
