import { asNumber, asObjects, asText, type Json } from '../base/json';
import { send, sendJson, urlOf } from './http';

// What is the user's: sign-ins to MCP servers, everything at once.

export const archiveUrl = (): string => urlOf('api/export').href;

export async function eraseMe(): Promise<void> {
  await send('api/me', { method: 'DELETE' });
}

const readServer = (raw: Json) => ({
  name: asText(raw.name),
  /** connected, connecting, idle, sign_in or failed. */
  state: asText(raw.state),
  reason: asText(raw.reason),
  tools: asNumber(raw.tools, 0),
  /** Each owner signs in to it. */
  signsIn: raw.auth === 'oauth',
});
export type McpServer = ReturnType<typeof readServer>;

export async function listServers(): Promise<McpServer[]> {
  return asObjects((await sendJson('GET', 'api/mcp')).servers).map(readServer);
}

/** Begins to sign in; returns where. */
export async function connectServer(name: string): Promise<string> {
  return asText((await sendJson('POST', `api/mcp/${encodeURIComponent(name)}/connect`)).authorize_url);
}

export async function forgetServer(name: string): Promise<void> {
  await sendJson('DELETE', `api/mcp/${encodeURIComponent(name)}`);
}
