import { asNumber, asObject, asObjects, asText, isObject, type Json } from '../base/json';
import { patience, sendJson } from './http';

// What the server says about itself: settings, tools, models, usage.

const readConfig = (raw: Json) => ({
  upstream: asText(raw.upstream),
  note: asText(raw.upstream_note),
  version: asText(raw.version),
  model: asText(raw.model),
  voice: asText(raw.voice),
  cascade: raw.cascade === true,
  /** How a call notices that the user has spoken; null: only by a button that is held. */
  turns: isObject(raw.turn_detection) ? raw.turn_detection : null,
  /** Users sign in. */
  authentication: raw.authentication === true,
  /** Calls may be recorded. */
  recording: raw.recording === true,
  iceServers: asObjects(raw.ice_servers) as unknown as RTCIceServer[],
});
export type Config = ReturnType<typeof readConfig>;

export const getConfig = async (): Promise<Config> => readConfig(await sendJson('GET', 'api/config', undefined, patience()));

const readTool = (tool: Json) => ({
  name: asText(tool.name),
  description: asText(tool.description),
  executor: asText(tool.executor),
  server: asText(tool.server),
  /** It changed or was added after its server was first seen, and the operator has not accepted that: whether the assistant gets the old version. */
  held: tool.state !== 'held' ? undefined : tool.offered === false ? ('not-offered' as const) : ('as-it-was' as const),
});
/** A tool that the operator configured. */
export type OfferedTool = ReturnType<typeof readTool>;

/** The tools of a new call, on a thread those of its assistant, and the names of the MCP servers. */
export async function getTools(thread = ''): Promise<{ tools: OfferedTool[]; servers: string[] }> {
  const raw = await sendJson('GET', thread === '' ? 'api/tools' : `api/tools?thread_id=${encodeURIComponent(thread)}`);
  return { tools: asObjects(raw.tools).map(readTool), servers: asObjects(raw.servers).map(({ name }) => asText(name)) };
}

export interface UsageRow extends Figures {
  threadId: string;
  title: string;
  day: string;
}

const readFigures = (raw: Json) => ({
  inputTokens: asNumber(raw.input_tokens, 0),
  outputTokens: asNumber(raw.output_tokens, 0),
  /** In US dollars; null if no price is known. */
  cost: asNumber(raw.cost_usd) ?? null,
  unpriced: asNumber(raw.unpriced_responses, 0),
});
/** The usage of some answers. */
export type Figures = ReturnType<typeof readFigures>;

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
