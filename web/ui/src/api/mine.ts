import { asNumber, asObjects, asText } from '../base/json';
import { send, sendJson, urlOf } from './http';

// What is the user's: sign-ins to MCP servers, everything at once.

export const archiveUrl = (): string => urlOf('api/export').href;

export async function eraseMe(): Promise<void> {
  await send('api/me', { method: 'DELETE' });
}

export interface McpServer {
  name: string;
  /** connected, connecting, idle, sign_in or failed. */
  state: string;
  reason: string;
  tools: number;
  /** Each owner signs in to it. */
  signsIn: boolean;
}

export async function listServers(): Promise<McpServer[]> {
  const { servers } = await sendJson('GET', 'api/mcp');
  return asObjects(servers).map((raw) => ({
    name: asText(raw.name),
    state: asText(raw.state),
    reason: asText(raw.reason),
    tools: asNumber(raw.tools, 0),
    signsIn: raw.auth === 'oauth',
  }));
}

/** Begins to sign in; returns where. */
export async function connectServer(name: string): Promise<string> {
  return asText((await sendJson('POST', `api/mcp/${encodeURIComponent(name)}/connect`)).authorize_url);
}

export async function forgetServer(name: string): Promise<void> {
  await sendJson('DELETE', `api/mcp/${encodeURIComponent(name)}`);
}
