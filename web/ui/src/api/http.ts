import { asNumber, asObject, asText, isObject, parseJson } from '../base/json';
import { PlainError } from '../base/errors';
import { t } from '../words/language.svelte';
import { httpWords } from '../words/say';

/** A request that the server answered with an error, or not at all (status 0). */
export class ApiError extends PlainError {
  constructor(
    readonly status: number,
    code: string,
    message: string,
    /** How long the server asks to wait, in seconds. */
    readonly retryAfter = 0,
  ) {
    super(code, message);
  }
}

/** Whether the same request may succeed later: a server or a network that is away may come back; a refusal is final. */
export function isPassing(thrown: unknown): thrown is ApiError {
  return thrown instanceof ApiError && (thrown.status === 0 || thrown.status === 429 || thrown.status >= 500);
}

/** Asks the user for the access token, for a request that began then (performance.now()); resolves to true once a session is open. */
type SignIn = (began: number) => Promise<boolean>;

let signIn: SignIn = async () => false;
let onReach: (reached: boolean) => void = () => undefined;

/** Sets the callback that learns whether the server answered at all. */
export function onReachability(handler: (reached: boolean) => void): void {
  onReach = handler;
}

/** Sets what to do when the server answers 401. */
export function onUnauthorized(handler: SignIn): void {
  signIn = handler;
}

/** Whether the server answers at all. Never throws. */
export async function reachable(): Promise<boolean> {
  return attempt('healthz', { signal: AbortSignal.timeout(4000) }).then(
    () => true,
    () => false,
  );
}

/** Ends a request that the page makes unasked, and makes again, when it hangs on a network that is lost. */
export const patience = (): AbortSignal => AbortSignal.timeout(15_000);

/** Ends any other request that hangs. It is longer than the server waits for its database, and than a slow network takes for that many bytes. */
export const longPatience = (bytes = 0): AbortSignal => AbortSignal.timeout(60_000 + Math.ceil(bytes / 20));

/** The address of a WebSocket of this server. */
export function socketUrlOf(path: string): URL {
  const url = urlOf(path);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url;
}

/** The address of a path of this server, even if the page is served under a prefix. */
export function urlOf(path: string): URL {
  return new URL(path, document.baseURI);
}

/** The address of an image or a sound in a message: the page may be served under a prefix. */
export const addressOf = (url: string): string => (url.startsWith('data:') ? url : urlOf(url.replace(/^\//, '')).href);

/** Sends a request; on 401 it asks for the token, unless the user need not be asked, and tries once more. */
export async function send(path: string | URL, init: RequestInit = {}, ask = true): Promise<Response> {
  const began = performance.now();
  let response = await attempt(path, init);
  // To sign in takes as long as it takes.
  if (response.status === 401 && ask && (await signIn(began))) response = await attempt(path, { ...init, signal: undefined });
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** Sends JSON (if there is a body) and reads JSON. */
export async function sendJson(method: string, path: string, body?: unknown, signal = longPatience()): Promise<Record<string, unknown>> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const response = await send(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  if (response.status === 204) return {};
  return asObject(parseJson(await bodyOf(response, signal)));
}

/** Opens the page's session with an access token; false if it is not accepted. */
export async function openSession(token: string): Promise<boolean> {
  const response = await attempt('api/session', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token }),
    signal: longPatience(),
  });
  if (response.ok) return true;
  if (response.status === 401) return false;
  throw await errorOf(response);
}

/** Ends the page's session. */
export async function closeSession(): Promise<void> {
  await send('api/session', { method: 'DELETE', signal: longPatience() });
}

function attempt(path: string | URL, init: RequestInit): Promise<Response> {
  return reached(fetch(urlOf(String(path)), { credentials: 'same-origin', ...init }).then(onlyOurs), init.signal);
}

// The server answers no request of the page with a page: a network or a proxy that wants a sign-in does.
function onlyOurs(response: Response): Response {
  const isPage = response.headers.get('Content-Type')?.startsWith('text/html');
  if (isPage && (response.ok || response.status === 401 || response.status === 403)) throw new ApiError(0, 'network', t().http.otherPage);
  return response;
}

/** The text of an answer, which may be lost after its beginning, too. */
export function bodyOf(response: Response, signal?: AbortSignal): Promise<string> {
  return reached(response.text(), signal);
}

async function reached<T>(answer: Promise<T>, signal?: AbortSignal | null): Promise<T> {
  try {
    const got = await answer;
    onReach(true);
    return got;
  } catch (thrown) {
    if (signal?.aborted && asText(asObject(signal.reason).name) !== 'TimeoutError') throw thrown;
    onReach(false);
    throw thrown instanceof ApiError ? thrown : new ApiError(0, 'network', httpWords(0, '', ''));
  }
}

// Errors come as {"error":{code,message}} or as {"error":"code","message"}.
async function errorOf(response: Response): Promise<ApiError> {
  const body = asObject(parseJson(await response.text().catch(() => '')));
  const inner = isObject(body.error) ? body.error : { code: body.error, message: body.message };
  const code = asText(inner.code);
  const retryAfter = asNumber(response.headers.get('Retry-After'), 0);
  return new ApiError(response.status, code, httpWords(response.status, code, asText(inner.message), retryAfter), retryAfter);
}
