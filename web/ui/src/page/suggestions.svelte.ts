import { getTools, type OfferedTool } from '../api/server';
import { t } from '../words/language.svelte';

const most = 4;

/** What each suggestion needs, in the order of what says most of what the assistant can do. */
const needs: [key: 'chart' | 'search' | 'map' | 'reckon' | 'table' | 'page', tool: RegExp][] = [
  ['chart', /^create_(bar|line|area)_chart$/],
  ['search', /^webSearch$/],
  ['reckon', /^(python|javascript|mini-javascript)-execution$/],
  ['map', /^create_geographic_chart$/],
  ['table', /^createTable$/],
  ['page', /^webContent$/],
];

/** What one could say, given the tools: four things, of which the last fits any assistant. */
export function suggestionsOf(tools: Pick<OfferedTool, 'name' | 'server'>[]): string[] {
  const words = t().suggestions;
  const server = tools.find(({ server }) => server !== '')?.server;
  const fitting = [
    ...needs.filter(([, tool]) => tools.some(({ name }) => tool.test(name))).map(([key]) => words[key]),
    ...(server ? [words.server(server)] : []),
  ];
  return [...fitting.slice(0, most - 1), ...words.always].slice(0, most);
}

/** The suggestions of the empty page, once the server has said what the assistant can do. */
export class Suggestions {
  #tools = $state.raw<OfferedTool[] | null>(null);
  #asked = false;
  list = $derived(this.#tools ? suggestionsOf(this.#tools) : []);

  /** Reads the tools when the page has nothing else to do. */
  async load(): Promise<void> {
    if (this.#asked) return;
    this.#asked = true;
    await new Promise((idle) => (globalThis.requestIdleCallback ?? setTimeout)(idle));
    this.#tools = await getTools().then(
      ({ tools }) => tools,
      () => [],
    );
  }
}
