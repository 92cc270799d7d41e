import { asNumber, asObject, asText, isObject, parseJson, type Json } from '../base/json';

/** One event of a socket of the server. */
export interface SocketEvent {
  type: string;
  data: Json;
  seq?: number;
}

interface Options {
  url: (after: number) => string;
  /** The last sequence number received. */
  after: () => number;
  onEvent: (event: SocketEvent) => void;
  onState: (online: boolean) => void;
  /** Runs before each new attempt after a failure; false gives up. */
  beforeRetry?: () => Promise<boolean>;
  open?: (url: string) => WebSocket;
}

/** A followed socket. */
export interface Following {
  /** Sends one event; false if there is no connection. */
  send: (event: object) => boolean;
  stop: () => void;
}

const firstDelayMs = 500;
const longestDelayMs = 15_000;

/** The wait before attempt n (from 0): doubles up to a limit, with up to a quarter of jitter. */
export function retryDelay(attempt: number, random = Math.random()): number {
  const base = Math.min(firstDelayMs * 2 ** attempt, longestDelayMs);
  return Math.round(base * (1 - random / 4));
}

/** Reads one frame of the socket; null if it is not an event. */
export function readEvent(frame: unknown): SocketEvent | null {
  const raw = typeof frame === 'string' ? parseJson(frame) : undefined;
  if (!isObject(raw) || asText(raw.type) === '') return null;
  return { type: asText(raw.type), data: asObject(raw.data), seq: asNumber(raw.seq) };
}

/**
 * Follows a socket. When the socket breaks it connects again, later each time,
 * and asks for what it missed.
 */
export function follow(options: Options): Following {
  const open = options.open ?? ((url: string) => new WebSocket(url));
  let socket: WebSocket | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0;
  let stopped = false;

  const connect = () => {
    if (stopped) return;
    const current = open(options.url(options.after()));
    socket = current;
    current.onmessage = (message) => {
      const event = readEvent(message.data);
      if (stopped || event === null) return;
      if (event.type === 'connected') {
        attempt = 0;
        options.onState(true);
      }
      options.onEvent(event);
    };
    current.onclose = () => {
      if (stopped || socket !== current) return;
      options.onState(false);
      timer = setTimeout(retry, retryDelay(attempt++));
    };
  };

  const retry = async () => {
    timer = undefined; // one attempt at a time
    const goOn = options.beforeRetry ? await options.beforeRetry() : true;
    if (goOn) connect();
  };

  // When the network is back, it tries at once.
  const onOnline = () => {
    if (socket?.readyState === WebSocket.CLOSED && timer !== undefined) {
      clearTimeout(timer);
      attempt = 0;
      void retry();
    }
  };

  globalThis.addEventListener?.('online', onOnline);
  connect();
  return {
    send(event) {
      if (stopped || socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(event));
      return true;
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', onOnline);
      socket?.close();
    },
  };
}
