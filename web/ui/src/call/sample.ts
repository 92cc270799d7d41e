import { PlainError } from '../base/errors';
import { asObject, asText, type Json } from '../base/json';
import { problemWords, refusedWords } from '../words/say';
import { failureOf } from './reduce';
import { Line } from './line';

interface Request {
  voice: string;
  /** Whose voice it is; empty: the server's first voice service. */
  upstream: string;
  /** What it is asked to say. */
  words: string;
  /** The loudspeaker (empty: the system's) and its volume from 0 to 1. */
  speaker: string;
  volume: number;
  iceServers: RTCIceServer[];
  /** The server has made a thread for it, which nobody wants to keep. */
  onThread: (id: string) => void;
  /** The voice begins to speak. */
  onSound: () => void;
  signal: AbortSignal;
}

/** The longest that a sample takes. */
const limitMs = 20_000;

/** Lets a voice say something, in a short call of its own with a silent microphone. */
export async function playSample({ voice, upstream, words, speaker, volume, iceServers, onThread, onSound, signal }: Request): Promise<void> {
  const context = new AudioContext();
  const audio = new Audio();
  audio.volume = volume;
  const { promise, resolve, reject } = over();
  const take = (event: Json) => {
    const type = asText(event.type);
    const failure = failureOf(event);
    if (type === 'bridge.ready') {
      line.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: words }] } });
      line.send({ type: 'response.create' });
    } else if (type === 'output_audio_buffer.started') onSound();
    else if (type === 'output_audio_buffer.stopped' || type === 'bridge.ended') resolve();
    else if (failure) reject(new PlainError(failure.code, refusedWords(failure.code, failure.message)));
    else if (type === 'error') reject(new PlainError('sample', problemWords(asText(asObject(event.error).message))));
  };
  const line = new Line(iceServers, context.createMediaStreamDestination().stream, {
    onPlaced: onThread,
    iceServers: async () => iceServers,
    onOpen: () => line.send({ type: 'session.update', session: { type: 'realtime', audio: { input: { turn_detection: null }, output: { voice } } } }),
    onEvent: take,
    onAudio: (stream) => {
      audio.srcObject = stream;
      if ('setSinkId' in audio && speaker !== '') audio.setSinkId(speaker).catch(() => undefined); // the system's is used
      void audio.play().catch(reject);
    },
    onStep: () => undefined,
    onLost: resolve,
  });
  const limit = setTimeout(resolve, limitMs);
  signal.addEventListener('abort', resolve);
  try {
    await Promise.race([line.connect('', false, false, upstream).then(() => promise), promise]);
  } finally {
    clearTimeout(limit);
    line.close(true);
    audio.srcObject = null;
    void context.close();
  }
}

function over() {
  let resolve = () => undefined as void;
  let reject: (why: unknown) => void = () => undefined;
  const promise = new Promise<void>((yes, no) => ([resolve, reject] = [() => yes(), no]));
  return { promise, resolve: () => resolve(), reject: (why: unknown) => reject(why) };
}
