import { asNumber, asObject, asObjects, asText, isObject, type Json } from '../base/json';
import { patience, sendJson } from './http';

// What the server says about itself: settings, tools, models, usage.

export interface Config {
  upstream: string;
  note: string;
  version: string;
  model: string;
  voice: string;
  /** How a call notices that the user has spoken; null: only by a button that is held. */
  turns: Json | null;
  /** Users sign in. */
  authentication: boolean;
  /** Calls may be recorded. */
  recording: boolean;
  iceServers: RTCIceServer[];
}

export async function getConfig(): Promise<Config> {
  const raw = await sendJson('GET', 'api/config', undefined, patience());
  return {
    upstream: asText(raw.upstream),
    note: asText(raw.upstream_note),
    version: asText(raw.version),
    model: asText(raw.model),
    voice: asText(raw.voice),
    turns: isObject(raw.turn_detection) ? raw.turn_detection : null,
    authentication: raw.authentication === true,
    recording: raw.recording === true,
    iceServers: asObjects(raw.ice_servers) as unknown as RTCIceServer[],
  };
}

/** A tool that the operator configured. */
export interface OfferedTool {
  name: string;
  description: string;
  executor: string;
  server: string;
  /** It changed or was added after its server was first seen, and the operator has not accepted that: whether the assistant gets the old version. */
  held?: 'as-it-was' | 'not-offered';
}

/** The tools of a new call, on a thread those of its assistant, and the names of the MCP servers. */
export async function getTools(thread = ''): Promise<{ tools: OfferedTool[]; servers: string[] }> {
  const raw = await sendJson('GET', thread === '' ? 'api/tools' : `api/tools?thread_id=${encodeURIComponent(thread)}`);
  const tools = asObjects(raw.tools).map((tool) => ({
    name: asText(tool.name),
    description: asText(tool.description),
    executor: asText(tool.executor),
    server: asText(tool.server),
    held: tool.state !== 'held' ? undefined : tool.offered === false ? ('not-offered' as const) : ('as-it-was' as const),
  }));
  return { tools, servers: asObjects(raw.servers).map(({ name }) => asText(name)) };
}

/** The usage of some answers. */
export interface Figures {
  inputTokens: number;
  outputTokens: number;
  /** In US dollars; null if no price is known. */
  cost: number | null;
  unpriced: number;
}

export interface UsageRow extends Figures {
  threadId: string;
  title: string;
  day: string;
}

function readFigures(raw: Json): Figures {
  return {
    inputTokens: asNumber(raw.input_tokens, 0),
    outputTokens: asNumber(raw.output_tokens, 0),
    cost: asNumber(raw.cost_usd) ?? null,
    unpriced: asNumber(raw.unpriced_responses, 0),
  };
}

/** The usage of the user's threads in the last 30 days, by thread and day. */
export async function getUsage(): Promise<{ rows: UsageRow[]; total: Figures }> {
  const raw = await sendJson('GET', 'api/usage');
  const rows = asObjects(raw.usage).map((row) => ({
    ...readFigures(row),
    threadId: asText(row.thread_id),
    title: asText(row.title),
    day: asText(row.day),
  }));
  return { rows, total: readFigures(asObject(raw.total)) };
}

/** The rows of each thread as one, with its latest day; the latest first. */
export function byThread(rows: UsageRow[]): UsageRow[] {
  const threads = new Map<string, UsageRow>();
  for (const row of rows.toSorted((a, b) => (a.day < b.day ? 1 : -1))) {
    const known = threads.get(row.threadId);
    threads.set(row.threadId, known ? { ...known, ...summed([known, row]) } : row);
  }
  return [...threads.values()];
}

/** Sums the rows. */
export function summed(rows: Figures[]): Figures {
  return rows.reduce(
    (sum, row) => ({
      inputTokens: sum.inputTokens + row.inputTokens,
      outputTokens: sum.outputTokens + row.outputTokens,
      cost: row.cost === null ? sum.cost : (sum.cost ?? 0) + row.cost,
      unpriced: sum.unpriced + row.unpriced,
    }),
    { inputTokens: 0, outputTokens: 0, cost: null as number | null, unpriced: 0 },
  );
}
