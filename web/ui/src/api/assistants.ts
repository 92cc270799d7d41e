import { asList, asObject, asObjects, asText, isObject, type Json } from '../base/json';
import { sendJson } from './http';
import { readThread, type Thread } from './threads';

/** An assistant as the API has it: the fields are those of its schema. */
export type Assistant = Json & { id: string; name: string };

/** One field of the schema, as far as a form needs it. */
export interface Field {
  type?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  readOnly?: boolean;
  properties?: Record<string, Field>;
  additionalProperties?: Field | boolean;
  items?: Field;
}

const path = (id: string) => `api/assistants/${encodeURIComponent(id)}`;

const readAssistant = (raw: Json): Assistant => ({ ...raw, id: asText(raw.id), name: asText(raw.name) });

/** The voices of OpenAI’s models; others may be typed. */
export const voices = ['alloy', 'ash', 'ballad', 'cedar', 'coral', 'echo', 'marin', 'sage', 'shimmer', 'verse'];

/** How many pages are read: one's own come first. */
const maxPages = 5;

/** All assistants, without what is long in them. */
export async function listAssistants(): Promise<Assistant[]> {
  const all: Assistant[] = [];
  let cursor = '';
  for (let page = 0; page < maxPages; page++) {
    const answer = await sendJson('GET', `api/assistants?limit=200&cursor=${encodeURIComponent(cursor)}`);
    all.push(...asObjects(answer.assistants).map(readAssistant));
    cursor = asText(answer.next_cursor);
    if (cursor === '') break;
  }
  return all;
}

/** A whole assistant. */
export async function getAssistant(id: string): Promise<Assistant> {
  return readAssistant(await sendJson('GET', path(id)));
}

/** Makes an assistant; the secret, which signs the requests of its tools, is told only here. */
export async function createAssistant(fields: Json): Promise<{ made: Assistant; secret: string }> {
  const { secret, ...made } = await sendJson('POST', 'api/assistants', fields);
  return { made: readAssistant(made), secret: asText(secret) };
}

export async function changeAssistant(id: string, patch: Json): Promise<Assistant> {
  return readAssistant(await sendJson('PATCH', path(id), patch));
}

export async function deleteAssistant(id: string): Promise<void> {
  await sendJson('DELETE', path(id));
}

/** The assistant of a thread; empty for the server's settings. */
export async function assistantOf(thread: string): Promise<string> {
  return asText((await sendJson('GET', `api/threads/${encodeURIComponent(thread)}`)).assistant_id);
}

export async function giveAssistant(thread: string, id: string): Promise<Thread> {
  return readThread(await sendJson('PATCH', `api/threads/${encodeURIComponent(thread)}`, { assistant_id: id }));
}

/** The fields of an assistant, as the API declares them. */
export async function assistantSchema(): Promise<Field> {
  const raw = await sendJson('GET', 'openapi.json');
  return asObject(asObject(asObject(raw.components).schemas).Assistant) as Field;
}

const readModel = (raw: Json) => ({
  provider: asText(raw.provider),
  model: asText(raw.model),
  kind: asText(raw.kind),
  voice: asText(raw.voice),
  voices: asList(raw.voices).map((name) => asText(name)).filter(Boolean),
  /** A text model between one that listens and one that speaks, and whether it is that of the assistant. */
  cascade: raw.cascade === true,
  listens: asText(raw.transcription_model),
  ofAssistant: raw.assistant_text === true,
  /** Its kind's default. */
  isDefault: raw.default === true,
});
export type Model = ReturnType<typeof readModel>;

export const listModels = async (): Promise<Model[]> => asObjects((await sendJson('GET', 'api/models')).models).map(readModel);

/** What answers with an assistant, or with the server's settings: in calls, and typed messages. What the assistant leaves out is the server's. */
export function modelsOf(one: Json | undefined, models: Model[], upstream = '') {
  const text = asObject(one?.text);
  const find = (kind: string, name: unknown) => models.find((m) => m.kind === kind && m.provider === name) ?? models.find((m) => m.kind === kind && m.isDefault);
  const meant = find('realtime', asObject(one?.voice).upstream);
  const call = upstream ? find('realtime', upstream) : meant;
  const voice = call === meant ? asObject(one?.voice) : {}; // its model and voice are those of what it means
  const typed = find('text', text.provider);
  // The model of a provider that is gone from the settings is not asked of another.
  const own = !text.provider || text.provider === typed?.provider ? asText(text.model) : '';
  const textModel = own || (typed?.model ?? '');
  return {
    service: call?.provider ?? '',
    model: asText(voice.model) || (call?.ofAssistant ? textModel : (call?.model ?? '')),
    cascade: call?.cascade === true,
    listens: call?.listens ?? '',
    /** Those that may be chosen: of its server, else of OpenAI's models. */
    voices: call?.cascade ? call.voices : voices,
    voice: asText(voice.voice) || (call?.voice ?? ''),
    text: [typed?.provider ?? '', textModel].filter(Boolean).join(' · '),
  };
}

/** What the user has set; an empty text or group is none, also in a list. A list may be empty: it allows nothing. */
export function cleaned(value: Json): Json {
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      const kept = isObject(inner) ? cleaned(inner) : Array.isArray(inner) ? inner.map((one) => (isObject(one) ? cleaned(one) : one)).filter((one) => !isObject(one) || Object.keys(one).length > 0) : inner;
      return kept === undefined || kept === null || kept === '' || (isObject(kept) && Object.keys(kept).length === 0) ? [] : [[key, kept]];
    }),
  );
}

/** The merge patch (RFC 7396) that makes one object of another. */
export function mergePatch(before: Json, after: Json): Json {
  const patch: Json = {};
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [was, is] = [before[key], after[key]];
    if (!(key in after)) patch[key] = null;
    else if (isObject(was) && isObject(is)) {
      const inner = mergePatch(was, is);
      if (Object.keys(inner).length > 0) patch[key] = inner;
    } else if (JSON.stringify(was) !== JSON.stringify(is)) patch[key] = is;
  }
  return patch;
}

/** A list of names in JSON; undefined if there is none. */
export const namesIn = (value: unknown): string[] | undefined => (Array.isArray(value) ? asList(value).map((name) => asText(name)) : undefined);
