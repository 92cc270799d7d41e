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
  /** Tries again after beforeRetry gave up. */
  retry: () => void;
  stop: () => void;
}

const firstDelayMs = 500;
const longestDelayMs = 15_000;
/** After this long without an answer to its pings the server has closed a connection. */
const silentMs = 30_000;

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
  let gaveUp = false;
  let hiddenAt = Infinity;
  let offline = false;

  const connect = () => {
    if (stopped) return;
    const current = open(options.url(options.after()));
    socket = current;
    current.onmessage = (message) => {
      const event = readEvent(message.data);
      if (stopped || socket !== current || event === null) return;
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
    gaveUp = options.beforeRetry ? !(await options.beforeRetry()) : false;
    if (!gaveUp) connect();
  };

  // A connection that may have been lost without notice is replaced.
  const renew = () => {
    const old = socket;
    if (old?.readyState !== WebSocket.OPEN) return;
    connect();
    old.close();
  };

  // When the network is back, it tries at once; it may be another network.
  const onOnline = () => {
    if (socket?.readyState === WebSocket.CLOSED && timer !== undefined) {
      clearTimeout(timer);
      attempt = 0;
      void retry();
    } else if (offline) renew();
    offline = false;
  };
  const onOffline = () => void (offline = true);

  // A phone that was locked may have lost the connection without notice, and its timers have slept.
  const onVisibility = () => {
    if (document.visibilityState === 'hidden') {
      hiddenAt = Date.now();
      return;
    }
    const long = Date.now() - hiddenAt > silentMs;
    hiddenAt = Infinity;
    offline ||= long;
    onOnline();
  };

  globalThis.addEventListener?.('online', onOnline);
  globalThis.addEventListener?.('offline', onOffline);
  globalThis.document?.addEventListener?.('visibilitychange', onVisibility);
  connect();
  return {
    send(event) {
      if (stopped || socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(event));
      return true;
    },
    retry() {
      if (stopped || !gaveUp) return;
      gaveUp = false;
      attempt = 0;
      connect();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', onOnline);
      globalThis.removeEventListener?.('offline', onOffline);
      globalThis.document?.removeEventListener?.('visibilitychange', onVisibility);
      socket?.close();
    },
  };
}
