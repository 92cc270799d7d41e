import { asObject, asText, type Json } from '../base/json';
import { endingWords, errorEventWords, isBadEnding, PlainError } from '../base/words';
import { readMessage, type Message } from '../thread/message';
import { notices } from '../view/notices.svelte';
import { declaration, isClientTool, runClientTool, type CodeSettings } from './clienttools';
import { Line } from './line';
import { meterOf, type Meter } from './meter';
import { isCallActive, openMicrophone } from './peer';
import { answered, ended, functionCallOf, idleCall, reduce, stopping, type Approval, type CallState, type FunctionCall } from './state';

interface Hooks {
  iceServers: () => RTCIceServer[];
  code: () => CodeSettings;
  onPlaced: (threadId: string) => void;
  onMessage: (threadId: string, message: Message) => void;
  onEnded: (threadId: string) => void;
}

/** The one live call of this page. */
export class Call {
  state = $state.raw<CallState>(idleCall);
  muted = $state(false);
  weak = $state(false);
  /** The browser refused to play; a click is needed. */
  needsTap = $state(false);
  /** The thread whose call lives elsewhere, while the user is asked. */
  takeoverOf = $state<string | null>(null);
  startedAt = $state(0);
  active = $derived(this.state.phase !== 'idle' && this.state.phase !== 'ended');

  #line: Line | null = null;
  #microphone: MediaStream | null = null;
  #audio: HTMLAudioElement | null = null;
  #context: AudioContext | null = null;
  #meters: { you?: Meter; assistant?: Meter } = {};
  // The model's calls of this page's tools; one that has begun can be ended.
  #toolRuns = new Map<string, { call: FunctionCall; abort?: AbortController }>();
  #code: CodeSettings | null = null;
  #sentTexts = new Map<string, string>();
  #attempt = 0;

  constructor(private readonly hooks: Hooks) {
    // Without this the server would notice a closed tab only by a timeout.
    addEventListener('pagehide', () => this.hangup());
  }

  get pc(): RTCPeerConnection | null {
    return this.#line?.pc ?? null;
  }

  /** The element that plays the assistant's voice. */
  attachAudio(element: HTMLAudioElement): void {
    this.#audio = element;
  }

  async start(threadId: string, takeover = false): Promise<void> {
    if (this.active) return;
    const attempt = ++this.#attempt;
    this.takeoverOf = null;
    notices.dismissAll();
    this.muted = this.weak = this.needsTap = false;
    this.state = { ...idleCall, phase: 'permission', threadId };
    // Made within the click, so that the browser lets it run.
    this.#context = new AudioContext();
    void this.#context.resume();
    try {
      const microphone = await openMicrophone();
      if (attempt !== this.#attempt) return stopTracks(microphone);
      this.#useMicrophone(microphone);
      this.state = { ...this.state, phase: 'connecting' };
      this.#line = new Line(this.hooks.iceServers(), microphone, this.#handlers(attempt));
      await this.#line.connect(threadId, takeover);
    } catch (thrown) {
      if (attempt !== this.#attempt) return;
      this.#release(false);
      this.state = idleCall;
      if (isCallActive(thrown)) this.takeoverOf = threadId;
      else notices.failure(thrown);
    }
  }

  hangup(): void {
    if (this.active) this.#finish('hangup', true);
  }

  toggleMute(): void {
    if (!this.#microphone) return;
    this.muted = !this.muted;
    for (const track of this.#microphone.getAudioTracks()) track.enabled = !this.muted;
  }

  /** Stops the answer that is being made or played. */
  stopTalking(): void {
    if (this.state.response !== null) this.#line?.send({ type: 'response.cancel' });
    this.#line?.send({ type: 'output_audio_buffer.clear' });
  }

  /** Says a typed text in the call; false when the call cannot take it. */
  say(text: string): boolean {
    const eventId = crypto.randomUUID();
    const item = { type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
    if (!this.#line?.send({ type: 'conversation.item.create', event_id: eventId, item })) return false;
    this.#sentTexts.set(eventId, text);
    return this.#line.send({ type: 'response.create' });
  }

  answer(approval: Approval, yes: boolean): void {
    const { toolCallId, nonce } = approval;
    this.#line?.send({ type: yes ? 'bridge.tool.approve' : 'bridge.tool.deny', tool_call_id: toolCallId, nonce });
    this.state = answered(this.state, toolCallId);
  }

  /** Stops a tool that runs; the model is told. */
  stopTool(toolCallId: string): void {
    if (this.#line?.send({ type: 'bridge.tool.cancel', tool_call_id: toolCallId })) this.state = stopping(this.state, toolCallId);
  }

  /** Plays the voice after a click, where the browser wanted one. */
  async play(): Promise<void> {
    void this.#context?.resume();
    try {
      await this.#audio?.play();
      this.needsTap = false;
    } catch (thrown) {
      // Any other failure means that the stream was taken away meanwhile.
      this.needsTap = thrown instanceof Error && thrown.name === 'NotAllowedError';
    }
  }

  level(side: 'you' | 'assistant'): number {
    if (side === 'you' && this.muted) return 0;
    return this.#meters[side]?.level() ?? 0;
  }

  #handlers(attempt: number) {
    const mine = <A extends unknown[]>(run: (...args: A) => void) => {
      return (...args: A) => {
        if (attempt === this.#attempt) run(...args);
      };
    };
    return {
      onPlaced: mine((threadId: string) => {
        this.state = { ...this.state, threadId };
        this.hooks.onPlaced(threadId);
      }),
      onOpen: mine(() => this.#declareTools()),
      onEvent: mine((event: Json) => this.#take(event)),
      onAudio: mine((stream: MediaStream) => this.#useAudio(stream)),
      onWeak: mine((weak: boolean) => (this.weak = weak)),
      onLost: mine(() => this.#finish('connection_lost', true)),
    };
  }

  #take(event: Json): void {
    const before = this.state;
    this.state = reduce(before, event);
    if (before.phase !== 'live' && this.state.phase === 'live') this.startedAt = Date.now();
    if (event.type === 'bridge.message') {
      const message = readMessage(event.message);
      if (message) this.hooks.onMessage(this.state.threadId, message);
    } else if (event.type === 'bridge.ended') {
      this.#finish(this.state.endReason, false);
    } else if (event.type === 'error') {
      this.#takeError(asObject(event.error));
    } else {
      this.#runTool(event);
    }
  }

  #takeError(error: Json): void {
    const words = errorEventWords(asText(error.code) || asText(error.type), asText(error.message));
    if (words === null) return;
    const lost = this.#sentTexts.get(asText(error.event_id));
    notices.error(asText(error.code, 'error'), lost ? `${words} Not sent: “${lost}”` : words);
  }

  #declareTools(): void {
    this.#code = this.hooks.code();
    this.#line?.send(declaration(this.#code));
  }

  // The arguments come with the model's call, the leave to run with the server's
  // word; with an approval in between, the second comes long after the first.
  #runTool(event: Json): void {
    const call = functionCallOf(event);
    if (call && this.#code && isClientTool(call.name, this.#code) && !this.#toolRuns.has(call.callId)) {
      this.#toolRuns.set(call.callId, { call });
    }
    const id = call?.callId ?? asText(event.tool_call_id);
    const run = this.#toolRuns.get(id);
    const known = this.state.tools.find((tool) => tool.id === id);
    if (!run || known?.executor !== 'client') return;
    if (known.state !== 'running') run.abort?.abort();
    else if (!run.abort) void this.#answerTool(run.call, (run.abort = new AbortController()));
  }

  async #answerTool({ callId, name, args }: FunctionCall, abort: AbortController): Promise<void> {
    const [line, code] = [this.#line, this.#code];
    if (!code) return;
    const output = await runClientTool(name, args, code, abort.signal);
    if (abort.signal.aborted) return;
    line?.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: callId, output } });
  }

  #useMicrophone(stream: MediaStream): void {
    this.#microphone = stream;
    for (const track of stream.getAudioTracks()) {
      track.onended = () => notices.error('mic_lost', 'The microphone was disconnected. Hang up and press Talk to use another one.');
    }
    if (this.#context) this.#meters.you = meterOf(this.#context, stream);
  }

  #useAudio(stream: MediaStream): void {
    if (this.#audio) this.#audio.srcObject = stream;
    if (this.#context) this.#meters.assistant = meterOf(this.#context, stream);
    void this.play();
  }

  #finish(reason: string, hangup: boolean): void {
    const { threadId } = this.state;
    this.#attempt++;
    this.state = ended(this.state, reason);
    this.#release(hangup);
    if (isBadEnding(reason)) notices.error(`ended_${reason}`, endingWords(reason));
    this.hooks.onEnded(threadId);
  }

  #release(hangup: boolean): void {
    this.#line?.close(hangup);
    this.#line = null;
    if (this.#microphone) stopTracks(this.#microphone);
    this.#microphone = null;
    this.#meters.you?.close();
    this.#meters.assistant?.close();
    this.#meters = {};
    if (this.#audio) this.#audio.srcObject = null;
    void this.#context?.close();
    this.#context = null;
    for (const { abort } of this.#toolRuns.values()) abort?.abort();
    this.#toolRuns.clear();
    this.#sentTexts.clear();
  }
}

function stopTracks(stream: MediaStream): void {
  for (const track of stream.getTracks()) {
    track.onended = null;
    track.stop();
  }
}

/** Thrown words for a text that could not be said in the call. */
export const notSaid = new PlainError('not_connected', 'The call is not connected yet. The text is kept; try again in a moment.');
